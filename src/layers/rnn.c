/* rnn: a simple recurrent layer over sequences (Elman, "Finding structure in time", 1990):
 * h = tanh(W x + U h' + b), or a relu in place of tanh. What cells share, and names:
 * layers/share/recurrent.h. */
#include "layers/share/recurrent.h"

struct conf {
    struct sw_stack_conf stack;
    int function;
};

static const char *const functions[] = {"tanh", "relu", NULL};

static const struct sw_opt opts[] = {
    SW_STACK_OPTS(struct conf, stack),
    {.key = "function",
     .help = "of the sum",
     .type = SW_OPT_ENUM,
     .offset = offsetof(struct conf, function),
     .def = "tanh",
     .choices = functions},
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    return sw_stack_setup(l, s, &c->stack, c->function ? SW_CELL_RNN_RELU : SW_CELL_RNN_TANH, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "hidden = 6\nfunction = relu\n",
     .src = {{3, {2, 3, 5}, 0}},
     .dst = {2, 3, 6},
     .tolerance = 0.1}, /* kinks */
    {.recipe = "hidden = 5\n", .src = {{3, {3, 4, 6}, 0}}, .dst = {3, 4, 5}},
    {.recipe = "hidden = 7\noutput = last\n", .src = {{3, {2, 3, 5}, 0}}, .dst = {2, 7}},
    {.recipe = "hidden = 4\nlayers = 3\n",
     .src = {{3, {2, 3, 5}, 0}},
     .dst = {2, 3, 4},
     .tolerance = 2e-3}, /* small gradients */
    {.recipe = "hidden = 3\nlayers = 2\nbidirectional = yes\n",
     .src = {{3, {2, 4, 5}, 0}},
     .dst = {2, 4, 6},
     .tolerance = 2e-3},
    {.recipe = "hidden = 3\nbidirectional = yes\noutput = last\n",
     .src = {{3, {3, 3, 4}, 0}},
     .dst = {3, 6}},
    {.recipe = "hidden = 4\n", .src = {{3, {2, 3, 5}, 0}, {2, {2, 4}, 0}}, .dst = {2, 3, 4}},
    {.recipe = "hidden = 140\n",
     .src = {{3, {2, 3, 9}, 0}},
     .dst = {2, 3, 140},
     .tolerance = 0.1}, /* saturated units, which differences see badly */
    {0},
};

const struct sw_layer_type sw_layer_rnn = {
    .base = {.name = "rnn",
             .help = "simple recurrent units over sequences",
             .opts = opts,
             .conf_bytes = sizeof(struct conf),
             .params = sw_stack_params},
    .role = SW_ROLE_NEURON,
    .split_reason = "a step needs all hidden units of the step before",
    .min_src = 1,
    .max_src = 2,
    .state_bytes = sizeof(struct sw_stack),
    .setup = setup,
    .forward = sw_stack_forward,
    .backward = sw_stack_backward,
    .teardown = sw_stack_teardown,
    .examples = examples,
};
