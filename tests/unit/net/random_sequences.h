/* Recipes of random nets over token sequences: one to three recurrent layers, as operations over
 * all steps or unrolled, whose state may continue between batches; layers between and after them, a
 * loss at every step and sometimes a loss of the last step. All functions are smooth. */
#pragma once

#include "unit/device/device_support.h"

#include "base/os.h"
#include "base/str.h"

struct random_sequences {
    struct rng r;
    int words, length;
    bool unrolled;
    bool stateful; /* what a net of this number needs: data in streams */
    int count;     /* layers so far, of which the last is read next */
    int width;     /* its outputs at each step */
    struct sw_bytes text;
};

static inline int sequence_pick(struct random_sequences *n, int from, int to)
{
    return (int)rng_int(&n->r, from, to);
}

/* The first lines of the next layer, which reads the last one, and with `more` others. */
static inline void begin_step_layer(struct random_sequences *n, const char *type, const char *more)
{
    sw_bytes_printf(&n->text, "[layer s%d]\ntype = %s\nsrc = s%d%s\n", n->count + 1, type, n->count,
                    more);
    n->count++;
    if (n->unrolled)
        sw_bytes_printf(&n->text, "unroll = %d\n", n->length);
}

static inline void add_codes(struct random_sequences *n)
{
    n->width = n->words;
    if (sequence_pick(n, 0, 1)) {
        n->width = sequence_pick(n, 3, 9);
        sw_bytes_printf(
            &n->text, "[layer s0]\ntype = embedding\nsrc = tokens\nvocabulary = %d\noutputs = %d\n",
            n->words, n->width);
    } else {
        sw_bytes_printf(&n->text, "[layer s0]\ntype = onehot\nsrc = tokens\nclasses = %d\n",
                        n->words);
    }
    if (n->unrolled && sequence_pick(n, 0, 1))
        sw_bytes_printf(&n->text, "unroll = %d\n", n->length);
}

static inline void add_cell(struct random_sequences *n)
{
    /* A step of lstm would hand on two states. */
    static const char *const types[] = {"gru", "rnn", "lstm"};
    const char *type = types[sequence_pick(n, 0, n->unrolled ? 1 : 2)];
    bool goes_on = n->stateful && sequence_pick(n, 0, 2) > 0;
    char own[16];
    snprintf(own, sizeof own, ", s%d", n->count + 1);
    begin_step_layer(n, type, n->unrolled ? own : "");
    n->width = sequence_pick(n, 3, 9);
    sw_bytes_printf(&n->text, "hidden = %d\nbias.init = gaussian\nbias.std = 0.1\n", n->width);
    if (n->unrolled) {
        sw_bytes_printf(&n->text, "connections = one-to-one, %s\n",
                        goes_on ? "stateful" : "previous");
        return;
    }
    sw_bytes_printf(&n->text, "layers = %d\nstateful = %s\n", sequence_pick(n, 1, 2),
                    goes_on ? "yes" : "no");
    if (!goes_on && sequence_pick(n, 0, 3) == 0) {
        sw_bytes_add(&n->text, "bidirectional = yes\n");
        n->width *= 2;
    }
}

static inline void add_between(struct random_sequences *n)
{
    switch (sequence_pick(n, 0, 4)) {
    case 0:
        begin_step_layer(n, "dropout", "");
        sw_bytes_add(&n->text, "ratio = 0.3\n");
        break;
    case 1:
        begin_step_layer(n, "activation", "");
        sw_bytes_add(&n->text, "function = tanh\n");
        break;
    case 2: /* of a step of its own where it is unrolled, else of all rows of all steps */
        begin_step_layer(n, "inner_product", "");
        n->width = sequence_pick(n, 3, 9);
        sw_bytes_printf(&n->text, "outputs = %d\nbias.init = gaussian\nbias.std = 0.1\n%s",
                        n->width, n->unrolled ? "" : "axis = 2\n");
        break;
    default:;
    }
}

static inline void add_ends(struct random_sequences *n)
{
    sw_bytes_printf(&n->text,
                    "[layer scores]\ntype = inner_product\nsrc = s%d\noutputs = %d\naxis = 2\n"
                    "[layer loss]\ntype = softmax_loss\nsrc = scores, target\n"
                    "[layer perplexity]\ntype = perplexity\nsrc = scores, target\ninclude = eval\n",
                    n->count, n->words);
    if (sequence_pick(n, 0, 1))
        sw_bytes_add(&n->text, "[layer right]\ntype = accuracy\nsrc = scores, target\n");
    if (sequence_pick(n, 0, 2) == 0)
        sw_bytes_printf(&n->text,
                        "[layer label]\ntype = input\nfield = label\n"
                        "[layer last]\ntype = gru\nsrc = s%d\nhidden = %d\noutput = last\n"
                        "[layer next]\ntype = inner_product\nsrc = last\noutputs = %d\n"
                        "[layer loss_next]\ntype = softmax_loss\nsrc = next, label\nweight = 0.5\n",
                        n->count, sequence_pick(n, 3, 9), n->words);
}

/* The layers of net number `seed` over `length` tokens of `words`; owned by the caller (sw_free).
 * *stateful: its data have to be in streams. */
static inline char *random_sequences_for(uint64_t seed, int length, int words, bool *stateful)
{
    struct random_sequences n = {.r = rng_of(31000 + seed), .words = words, .length = length};
    n.unrolled = sequence_pick(&n, 0, 1);
    n.stateful = sequence_pick(&n, 0, 1);
    sw_bytes_add(&n.text, "[layer tokens]\ntype = input\nfield = tokens\n"
                          "[layer target]\ntype = input\nfield = target\n");
    add_codes(&n);
    for (int cells = sequence_pick(&n, 1, 3); cells > 0; cells--) {
        add_cell(&n);
        add_between(&n);
    }
    add_ends(&n);
    *stateful = n.stateful;
    return sw_bytes_take(&n.text);
}
