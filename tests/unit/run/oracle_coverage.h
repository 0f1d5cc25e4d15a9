/* Coverage of the oracle's cases: words of their recipes and settings and their counts, and the
 * check that every one occurs. */
#pragma once

#include "oracle_draw.h"

/* Words that the recipes and settings of cases have, and in how many cases. */
static const char *const oracle_words[] = {"type = convolution",
                                           "type = deconvolution",
                                           "method = max",
                                           "method = avg",
                                           "type = lrn",
                                           "region = within_channel",
                                           "groups = 2",
                                           "groups = 3",
                                           "type = batch_norm",
                                           "type = layer_norm",
                                           "type = dropout",
                                           "type = noise",
                                           "type = sparsity",
                                           "type = softmax\n",
                                           "type = inner_product",
                                           "type = activation",
                                           "function = relu",
                                           "type = concat",
                                           "type = slice",
                                           "type = split",
                                           "type = eltwise",
                                           "type = softmax_loss",
                                           "type = hinge_loss",
                                           "type = euclidean_loss",
                                           "type = accuracy",
                                           "weight.share",
                                           "type = embedding",
                                           "type = onehot",
                                           "type = gru",
                                           "type = rnn",
                                           "type = lstm",
                                           "unroll = ",
                                           "stateful = yes",
                                           "one-to-one, stateful",
                                           "bidirectional",
                                           "output = last",
                                           "k = 3",
                                           "persistent = yes",
                                           "binary = yes",
                                           "units = gaussian",
                                           "momentum = 0.9",
                                           "type = nesterov",
                                           "type = adagrad",
                                           "type = rmsprop",
                                           "type = adadelta",
                                           "type = adam\n",
                                           "type = adamw",
                                           "type = adamax",
                                           "type = lars",
                                           "grad_clip = norm",
                                           "grad_clip = value",
                                           "precision = bf16",
                                           "precision = fp16",
                                           "precision = tf32",
                                           "freeze = ",
                                           "eval_every = 3",
                                           "[stage second]",
                                           "on_nan = skip",
                                           "on_nan = rollback",
                                           "bucket_size=1KiB",
                                           "framework=sandblaster",
                                           "framework=allreduce",
                                           "framework=custom",
                                           "copy=async",
                                           "copy=sync",
                                           "copy=none",
                                           "all_reduce=library",
                                           "all_reduce=copies",
                                           "overlap=no",
                                           "comm=ps",
                                           "comm=sfb",
                                           "comm=adam",
                                           "comm=auto",
                                           "job.partition=1",
                                           "job.partition=1in",
                                           "job.partition=none",
                                           ".location=0",
                                           ".location=3",
                                           "graphs=no",
                                           "partition=1"};
enum { ORACLE_WORDS = sizeof oracle_words / sizeof *oracle_words };

/* Of cases; pairs of ways count as two. */
struct oracle_coverage {
    int cases, uneven, few_rows, several_losses, diverging, resumed, fits;
    int kinds[ORACLE_KINDS], devices[3]; /* on CPUs, on simulated GPUs, on both */
    int reducing;                        /* devices that add up by themselves */
    int factors[2];                      /* workers in rows that give factors: on CPUs, on sim */
    int words[ORACLE_WORDS], workers[ORACLE_MOST_WORKERS + 1], servers[ORACLE_MOST_WORKERS + 1];
    /* Of those that ran. */
    int graphs, branching, away;
    double worst[2];
};

static inline int oracle_count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
        n++;
    return n;
}

static inline void oracle_note_way(struct oracle_coverage *v, const struct oracle_way *w)
{
    int workers = oracle_workers(w);
    v->devices[w->gpus == 0 ? 0 : oracle_is_mixed(w) ? 2 : 1]++;
    v->factors[w->gpus > 0] += workers > 1 && strcmp(w->partition, "0") == 0 &&
                               (strcmp(w->comm, "sfb") == 0 || strcmp(w->comm, "adam") == 0);
    v->reducing += oracle_keeps(w) && w->framework == ORACLE_ALLREDUCE && w->members > 1;
    v->fits += w->fits;
    v->workers[workers]++;
    v->servers[w->servers]++;
}

static inline bool oracle_has_word(const struct oracle_case *c, const char *word)
{
    bool found = strstr(c->recipe, word) != NULL;
    for (int k = 0; k < (c->turn ? 2 : 1); k++)
        for (int s = 0; s < ORACLE_SETS; s++)
            found = found || strstr(c->way[k].sets[s], word);
    return found;
}

static inline void oracle_note(struct oracle_coverage *v, const struct oracle_case *c)
{
    v->cases++;
    v->kinds[c->kind]++;
    v->resumed += c->turn > 0;
    v->uneven += c->batch % oracle_workers(&c->way[0]) != 0;
    v->few_rows += c->batch < ORACLE_MOST_WORKERS;
    v->several_losses += oracle_count(c->recipe, "_loss\n") > 1;
    for (int k = 0; k < (c->turn ? 2 : 1); k++)
        oracle_note_way(v, &c->way[k]);
    for (int i = 0; i < ORACLE_WORDS; i++)
        v->words[i] += oracle_has_word(c, oracle_words[i]);
}

static inline void oracle_print_coverage(const struct oracle_coverage *v)
{
    print_message("%d cases (%d diverge): %d resumed, %d with uneven shares, %d with a row for "
                  "each worker, %d with several losses\n",
                  v->cases, v->diverging, v->resumed, v->uneven, v->few_rows, v->several_losses);
    for (int i = 0; i < ORACLE_KINDS; i++)
        print_message("%s: %d\n", oracle_kinds[i], v->kinds[i]);
    print_message("ways: %d on CPUs, %d on simulated GPUs, %d on both, %d within a budget\n",
                  v->devices[0], v->devices[1], v->devices[2], v->fits);
    for (int n = 1; n <= ORACLE_MOST_WORKERS; n++)
        print_message("%d workers: %d, servers: %d\n", n, v->workers[n], v->servers[n]);
    for (int i = 0; i < ORACLE_WORDS; i++)
        print_message("%.*s: %d\n", (int)strcspn(oracle_words[i], "\n"), oracle_words[i],
                      v->words[i]);
    print_message("%d with devices that add up by themselves, %d and %d on sim give factors\n",
                  v->reducing, v->factors[0], v->factors[1]);
    if (v->graphs + v->branching + v->away > 0 || v->worst[0] + v->worst[1] > 0)
        print_message("%d ran as graphs, %d on several streams, %d without all outputs in memory; "
                      "differences are at most %.2g, %.2g with products that round\n",
                      v->graphs, v->branching, v->away, v->worst[0], v->worst[1]);
}

/* Everything that is claimed is there. */
static inline void oracle_check_coverage(const struct oracle_coverage *v)
{
    oracle_print_coverage(v);
    for (int i = 0; i < ORACLE_KINDS; i++)
        assert_true(v->kinds[i] > 0);
    for (int i = 0; i < 3; i++)
        assert_true(v->devices[i] > 0);
    assert_true(v->reducing > 0 && v->fits > 0 && v->resumed > 0);
    assert_true(v->factors[0] > 0 && v->factors[1] > 0);
    assert_true(v->diverging * 50 <= v->cases);
    assert_true(v->uneven > 0 && v->few_rows > 0 && v->several_losses > 0);
    for (int n = 1; n <= ORACLE_MOST_WORKERS; n++)
        assert_true(v->workers[n] > 0);
    for (int n = 1; n <= ORACLE_MOST_SERVERS; n++)
        assert_true(v->servers[n] > 0);
    for (int i = 0; i < ORACLE_WORDS; i++)
        if (v->words[i] == 0)
            fail_msg("no case has %s", oracle_words[i]);
}
