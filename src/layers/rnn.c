/* rnn: a simple recurrent layer over sequences (Elman, "Finding structure in time", 1990): h =
 * tanh(W x + U h' + b), or relu instead of tanh. layers/share/recurrent.h has the common parts and
 * the names. */
#include "layers/share/recurrent.h"

static const char *const functions[] = {"tanh", "relu", NULL};

static const struct sw_opt opts[] = {
    SW_STACK_OPTS,
    SW_OPT(ENUM, struct sw_stack_conf, function, "activation of the hidden units", .def = "tanh",
           .choices = functions),
    {0},
};

static const struct sw_layer_example examples[] = {
    {.recipe = "hidden = 6\nfunction = relu\n",
     .src = {{3, {2, 3, 5}, 0}},
     .dst = {2, 3, 6},
     .tolerance = 0.1}, /* the relu has a kink */
    SW_STACK_EXAMPLES,
    {0},
};

const struct sw_layer_type sw_layer_rnn = {
    .base = SW_TYPE("rnn", "simple recurrent units over sequences", struct sw_stack_conf, opts,
                    .params = sw_stack_params),
    SW_STACK_TYPE(SW_CELL_RNN_TANH),
    .hands_on = sw_stack_hands_on,
    .examples = examples,
};
