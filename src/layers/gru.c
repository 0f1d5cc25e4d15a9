/* gru: gated recurrent units over sequences (Cho et al., "Learning phrase representations using RNN
 * encoder-decoder", 2014), with the reset gate applied after the recurrent product, as in SINGA
 * (TOMM, section 4.2.3), cuDNN and PyTorch. Gates: reset, update, candidate; biases: those of the
 * gates, and the bias that the reset gate multiplies. layers/share/recurrent.h has the common parts
 * and the names. */
#include "layers/share/recurrent.h"

const struct sw_layer_type sw_layer_gru = {
    .base = SW_TYPE("gru", "gated recurrent units over sequences", struct sw_stack_conf,
                    sw_stack_opts, .params = sw_stack_params),
    SW_STACK_TYPE(SW_CELL_GRU),
    .hands_on = sw_stack_hands_on,
    .examples = sw_stack_examples,
};
