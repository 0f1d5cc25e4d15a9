/* What negative_sampling and hierarchical_softmax have in common: skip-gram over windows of running
 * text (kernels/ops/skip_gram.h). Sources: a vector for every token [N, T, width], and the tokens
 * [N, T]. The layer's state is a struct sw_skip_gram. */
#pragma once

#include "kernels/ops/skip_gram.h"
#include "layers/share/huffman.h"
#include "layers/share/plain.h"
#include "layers/share/target_loss.h"

struct sw_skip_gram_conf {
    int64_t vocabulary, window;
    double subsample, weight;
};

/* Option rows for a conf that begins with a struct sw_skip_gram_conf; `conf` is struct
 * sw_skip_gram_conf. */
#define SW_SKIP_GRAM_OPTS(conf)                                                                    \
    SW_OPT(INT, conf, vocabulary, "number of different tokens; tokens are 0 to vocabulary - 1",    \
           .min = 2, .max = 1 << 26, .required = true),                                            \
        SW_OPT(INT, conf, window,                                                                  \
               "most words before and behind a word that it is paired with; drawn for each word, " \
               "from 1 on",                                                                        \
               .def = "5", .min = 1, .max = SW_SKIP_GRAM_WINDOW),                                  \
        SW_OPT(REAL, conf, subsample,                                                              \
               "share of the text above which occurrences of a word are left out at random; 0: "   \
               "all are kept",                                                                     \
               .def = "1e-3", .min = 0, .max = 1),                                                 \
        SW_LOSS_WEIGHT_OPT(conf, weight)

/* What setup computes of the words, in host memory; owned, and freed when it is on the device. */
struct sw_skip_gram_setup {
    int64_t *times; /* [known] */
    float *keep;    /* these are copied to where `words` points */
    uint32_t *below;
    int32_t *alias;
    struct sw_huffman tree;
};

struct sw_skip_gram {
    struct sw_skip_gram_shape shape;
    struct sw_skip_gram_words words;
    struct sw_philox key;
    struct sw_plain vectors;
    size_t picks_at, slope_at; /* offsets in saved */
    int64_t known;             /* tokens 0 .. known - 1 may occur */
    struct sw_skip_gram_setup host;
    struct sw_device *device; /* borrowed: of `tables` */
    void *tables;             /* owned device memory: the arrays of `words` */
    size_t table_bytes;
};

/* The first part of setup: checks the sources, counts the words, and computes how often each is
 * left out. Then the layer sets shape.outputs, shape.output_rows, words.negatives and the rest of
 * st->host, and calls sw_skip_gram_finish, which copies the tables to the device and waits for the
 * copies. Errors: SW_ERR_INVALID naming the shapes, SW_ERR_NOMEM, those of the device. */
int sw_skip_gram_begin(struct sw_layer *l, const struct sw_layer_setup *s,
                       struct sw_err *err) SW_MUST_CHECK;
int sw_skip_gram_finish(struct sw_layer *l, const struct sw_layer_setup *s,
                        struct sw_err *err) SW_MUST_CHECK;

/* Callbacks and parameter names of the layer types. */
int sw_skip_gram_forward(struct sw_layer *l, const struct sw_pass *r,
                         struct sw_err *err) SW_MUST_CHECK;
int sw_skip_gram_backward(struct sw_layer *l, const struct sw_pass *r,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_skip_gram_teardown(struct sw_layer *l);
extern const char *const sw_skip_gram_params[];

/* Members of a descriptor that both types have. */
#define SW_SKIP_GRAM_TYPE(setup_)                                                                  \
    .role = SW_ROLE_LOSS, .split_reason = "the words of a window are read together",               \
    SW_LAYER_FEATURES(2, 2, 3), .targets = 1u << 1, .state_bytes = sizeof(struct sw_skip_gram),    \
    SW_LAYER_CALLS(setup_, sw_skip_gram_forward, sw_skip_gram_backward),                           \
    .teardown = sw_skip_gram_teardown
