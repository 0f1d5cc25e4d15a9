/* lstm: long short-term memory over sequences (Hochreiter and Schmidhuber 1997, with the forget
 * gate of Gers, Schmidhuber and Cummins 2000). Gates: input, forget, cell, output.
 * layers/share/recurrent.h has the common parts and the names. */
#include "layers/share/recurrent.h"

/* The state of a step: h and c of every layer. */
static int64_t hands_on(const void *conf)
{
    const struct sw_stack_conf *c = conf;
    return c->bidirectional ? 0 : 2 * c->layers * c->hidden;
}

const struct sw_layer_type sw_layer_lstm = {
    .base = SW_TYPE("lstm", "long short-term memory over sequences", struct sw_stack_conf,
                    sw_stack_opts, .params = sw_stack_params),
    SW_STACK_TYPE(SW_CELL_LSTM),
    .hands_on = hands_on,
    .examples = sw_stack_examples,
};
