/* What rnn, gru and lstm share: cells (device/ops/recurrent.h) run over the steps of sequences,
 * [N, T, F] to [N, T, hidden], stacked and in both directions; truncated back-propagation through
 * time is the length of a record. The layer's state is a struct sw_stack.
 *
 * Parameters of the first cell are weight [gates hidden, F], recurrent [gates hidden, hidden] and
 * bias; those of the n-th layer of a stack end in n, those of the other direction in _reverse.
 * Gates and biases stand in the order of PyTorch and cuDNN; PyTorch's two bias vectors are one
 * here, but for the candidate of gru, whose second one is the last block.
 *
 * One step of an unrolled net reads the states of the step before as source 2. Where that is more
 * than the output, h of one cell, the step's output is [N, states hidden]: h of the top layer, then
 * h of the others from below, then with lstm c of all from below. */
#pragma once

#include "kernels/ops/recurrent.h"
#include "layers/share/plain.h"

enum { SW_STACK_LAYERS = 4, SW_STACK_CELLS = 2 * SW_STACK_LAYERS };

struct sw_stack_conf {
    int64_t hidden, layers;
    bool bidirectional, stateful;
    int output; /* enum sw_stack_output */
};
enum sw_stack_output { SW_STACK_ALL, SW_STACK_LAST };

extern const char *const sw_stack_outputs[];
/* Of descriptors; the table is that of a layer with no other keys. */
extern const char *const sw_stack_params[];
extern const struct sw_opt sw_stack_opts[];
extern const struct sw_layer_example sw_stack_examples[];

/* Of a conf that begins with a struct sw_stack_conf. */
#define SW_STACK_OPTS                                                                              \
    SW_OPT(INT, struct sw_stack_conf, hidden, "number of hidden units, and so of outputs",         \
           .min = 1, .max = 1 << 16, .required = true),                                            \
        SW_OPT(INT, struct sw_stack_conf, layers, "cells one above the other", .def = "1",         \
               .min = 1, .max = SW_STACK_LAYERS),                                                  \
        SW_OPT(BOOL, struct sw_stack_conf, bidirectional,                                          \
               "a second cell runs from the end to the beginning; outputs stand side by side",     \
               .def = "no"),                                                                       \
        SW_OPT(BOOL, struct sw_stack_conf, stateful,                                               \
               "a row goes on from where the last batch left it; data must be in streams",         \
               .def = "no"),                                                                       \
        SW_OPT(ENUM, struct sw_stack_conf, output,                                                 \
               "all: [N, T, hidden]; last: [N, hidden], what the last step gives", .def = "all",   \
               .choices = sw_stack_outputs)

/* One cell: where its things lie. Offsets are bytes in what forward keeps, the scratch of an
 * evaluation, else `saved`. */
struct sw_stack_cell {
    struct sw_recurrent r;
    int first_param;
    int64_t column; /* of its output among those of both directions */
    size_t gates_at, before_at;
    int carry_h, carry_c; /* among the layer's carried states; -1: none */
    int state_h, state_c; /* among the states that a step hands on, from 0; state_c of lstm */
};

struct sw_stack {
    struct sw_plain in;
    int cells, directions, layers;
    bool training, carries;
    int states; /* that a step of an unrolled net hands on; 1: the output alone */
    struct sw_stack_cell cell[SW_STACK_CELLS];
    size_t between_at[SW_STACK_LAYERS]; /* outputs of all layers but the last, as kept */
    size_t kept_bytes, kept_at;         /* kept_at: in scratch, without training */
    size_t c_at, dgates_at, dstate_at;  /* scratch */
    size_t h_at, h0_at, c0_at;          /* scratch, with more than one state */
    size_t dbetween_at[2];              /* scratch: gradients of what is between layers */
};

/* The setup of a layer whose conf is c. Errors: SW_ERR_INVALID. */
int sw_stack_setup(struct sw_layer *l, const struct sw_layer_setup *s,
                   const struct sw_stack_conf *c, enum sw_cell_kind kind,
                   struct sw_err *err) SW_MUST_CHECK;
/* The callbacks; a conf begins with its struct sw_stack_conf. */
int64_t sw_stack_width(const void *conf);
int64_t sw_stack_hands_on(const void *conf); /* of all but lstm */
int sw_stack_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err) SW_MUST_CHECK;
int sw_stack_backward(struct sw_layer *l, const struct sw_pass *r,
                      struct sw_err *err) SW_MUST_CHECK;

/* Examples that all types have; differences see small gradients and saturated units badly. */
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

/* What the descriptors have in common. */
#define SW_STACK_TYPE                                                                              \
    .role = SW_ROLE_NEURON, .through_time = true,                                                  \
    .split_reason = "a step needs all hidden units of the step before", SW_LAYER_SOURCES(1, 2),    \
    .width = sw_stack_width, .state_bytes = sizeof(struct sw_stack), .forward = sw_stack_forward,  \
    .backward = sw_stack_backward
