/* What embedding and embedding_mean have in common: a table of vectors, [vocabulary, outputs],
 * indexed by lists of tokens (kernels/ops/embedding.h). The layer's state is a struct sw_lookup. */
#pragma once

#include "layers/share/tokens.h"

struct sw_lookup_conf {
    int64_t vocabulary, outputs;
};

/* Option rows for a conf that begins with a struct sw_lookup_conf; `conf` is struct
 * sw_lookup_conf. */
#define SW_LOOKUP_OPTS(conf)                                                                       \
    SW_OPT(INT, conf, vocabulary, "number of different tokens; tokens are 0 to vocabulary - 1",    \
           .min = 1, .max = 1 << 26, .required = true),                                            \
        SW_OPT(INT, conf, outputs, "length of a token's vector", .min = 1, .max = 1 << 20,         \
               .required = true)

struct sw_lookup {
    struct sw_token_lists lists;
    int64_t outputs;
};

/* Call in setup, with st->lists filled: adds the weight, and sets the cost, what backward reads,
 * and st->outputs, the number of elements of every vector in this worker's shard. */
void sw_lookup_init(struct sw_lookup *st, struct sw_layer *l, const struct sw_lookup_conf *c,
                    const struct sw_layer_setup *s);
/* Callbacks of the layer types; their conf begins with a struct sw_lookup_conf. */
const char *sw_lookup_refuses_split(const void *conf, int parts);
int sw_lookup_forward(struct sw_layer *l, const struct sw_pass *r,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_lookup_backward(struct sw_layer *l, const struct sw_pass *r,
                       struct sw_err *err) SW_MUST_CHECK;

/* Parameter names for the descriptor. */
extern const char *const sw_lookup_params[];
