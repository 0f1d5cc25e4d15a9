/* What rnn, gru and lstm have in common: cells (kernels/ops/recurrent.h) that run over the steps of
 * sequences, [N, T, F] to [N, T, hidden], stacked and in both directions. Backpropagation through
 * time is truncated to the length of a record. The layer's state is a struct sw_stack.
 *
 * The parameters of the first cell are weight [gates hidden, F], recurrent [gates hidden, hidden]
 * and bias. Names of the n-th layer of a stack end in n, those of the reverse direction in
 * _reverse. Gates and biases have the order of PyTorch and cuDNN. PyTorch's two bias vectors are
 * one vector here, except that the second bias of gru's candidate is the last block.
 *
 * One step of an unrolled layer reads the recurrent state of the previous step as source 2. If that
 * state is more than h of one cell, the output of a step is [N, states hidden]: h of the top layer,
 * then h of the other layers from the bottom up, then with lstm c of all layers from the bottom
 * up. */
#pragma once

#include "kernels/ops/recurrent.h"
#include "layers/share/plain.h"

enum { SW_STACK_LAYERS = 4, SW_STACK_CELLS = 2 * SW_STACK_LAYERS };

struct sw_stack_conf {
    int64_t hidden, layers;
    bool bidirectional, stateful;
    int output;   /* enum sw_stack_output */
    int function; /* of rnn: 0 tanh, 1 relu */
};
enum sw_stack_output { SW_STACK_ALL, SW_STACK_LAST };

extern const char *const sw_stack_outputs[];
/* Tables for descriptors; sw_stack_opts is for a layer with no other keys. */
extern const char *const sw_stack_params[];
extern const struct sw_opt sw_stack_opts[];
extern const struct sw_layer_example sw_stack_examples[];

/* Option rows of all types. */
#define SW_STACK_OPTS                                                                              \
    SW_OPT(INT, struct sw_stack_conf, hidden, "number of hidden units (outputs per direction)",    \
           .min = 1, .max = 1 << 16, .required = true),                                            \
        SW_OPT(INT, struct sw_stack_conf, layers, "number of stacked cells", .def = "1", .min = 1, \
               .max = SW_STACK_LAYERS),                                                            \
        SW_OPT(BOOL, struct sw_stack_conf, bidirectional,                                          \
               "add a second cell that runs from end to start; outputs are concatenated",          \
               .def = "no"),                                                                       \
        SW_OPT(BOOL, struct sw_stack_conf, stateful,                                               \
               "keep the state of every row for the next batch; data must be in streams",          \
               .def = "no"),                                                                       \
        SW_OPT(ENUM, struct sw_stack_conf, output,                                                 \
               "all: [N, T, hidden]; last: [N, hidden], the output of the last step",              \
               .def = "all", .choices = sw_stack_outputs)

/* One cell and the offsets of its memory. gates_at and before_at are bytes in the data that forward
 * keeps: in `saved` in training, in scratch in evaluation. */
struct sw_stack_cell {
    struct sw_recurrent r;
    int first_param;
    int64_t column; /* first column of its output among those of both directions */
    size_t gates_at, before_at;
    int kept_h, kept_c;   /* indices in the layer's recurrent states; -1: none */
    int state_h, state_c; /* indices in the state that a step passes on; state_c: lstm only */
};

struct sw_stack {
    struct sw_plain in;
    int cells, directions, layers;
    bool training, keeps_state;
    int states; /* number of states that an unrolled step passes on; 1: only the output */
    struct sw_stack_cell cell[SW_STACK_CELLS];
    size_t between_at[SW_STACK_LAYERS]; /* kept by forward: outputs of all layers but the last */
    size_t kept_bytes, kept_at;         /* kept_at: offset in scratch in evaluation */
    size_t c_at, dgates_at, dstate_at;  /* scratch */
    size_t h_at, h0_at, c0_at;          /* scratch, if states > 1 */
    size_t dbetween_at[2];              /* scratch: gradients of the outputs between layers */
};

/* Callbacks of the layer types, whose conf is a struct sw_stack_conf and whose variant is an enum
 * sw_cell_kind. Errors of setup: SW_ERR_INVALID. */
int sw_stack_setup(struct sw_layer *l, const struct sw_layer_setup *s,
                   struct sw_err *err) SW_MUST_CHECK;
int64_t sw_stack_width(const void *conf);
int64_t sw_stack_hands_on(const void *conf); /* for rnn and gru */
int sw_stack_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err) SW_MUST_CHECK;
int sw_stack_backward(struct sw_layer *l, const struct sw_pass *r,
                      struct sw_err *err) SW_MUST_CHECK;

/* Examples of all types. Some need a larger tolerance: finite differences are inaccurate for small
 * gradients and saturated units. */
#define SW_STACK_EXAMPLES                                                                          \
    {.recipe = "hidden = 5\n", .src = {{3, {3, 4, 6}, 0}}, .dst = {3, 4, 5}},                      \
        {.recipe = "hidden = 7\noutput = last\n", .src = {{3, {2, 3, 5}, 0}}, .dst = {2, 7}},      \
        {.recipe = "hidden = 4\nlayers = 3\n",                                                     \
         .src = {{3, {2, 3, 5}, 0}},                                                               \
         .dst = {2, 3, 4},                                                                         \
         .tolerance = 2e-3},                                                                       \
        {.recipe = "hidden = 3\nlayers = 2\nbidirectional = yes\n",                                \
         .src = {{3, {2, 4, 5}, 0}},                                                               \
         .dst = {2, 4, 6},                                                                         \
         .tolerance = 2e-3},                                                                       \
        {.recipe = "hidden = 3\nbidirectional = yes\noutput = last\n",                             \
         .src = {{3, {3, 3, 4}, 0}},                                                               \
         .dst = {3, 6}},                                                                           \
        {.recipe = "hidden = 4\n", .src = {{3, {2, 3, 5}, 0}, {2, {2, 4}, 0}}, .dst = {2, 3, 4}},  \
    {                                                                                              \
        .recipe = "hidden = 140\n", .src = {{3, {2, 3, 9}, 0}}, .dst = {2, 3, 140},                \
        .tolerance = 0.1                                                                           \
    }

/* Members that all descriptors have in common. */
#define SW_STACK_TYPE(kind)                                                                        \
    .variant = kind, .through_time = true,                                                         \
    .split_reason = "a step needs all hidden units of the previous step", SW_LAYER_SOURCES(1, 2),  \
    .width = sw_stack_width, .state_bytes = sizeof(struct sw_stack),                               \
    SW_LAYER_CALLS(sw_stack_setup, sw_stack_forward, sw_stack_backward)
