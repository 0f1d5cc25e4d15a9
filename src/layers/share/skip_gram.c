/* Skip-gram over windows of text. An occurrence of a word that is the share f of the text is kept
 * with probability min(1, (sqrt(f / subsample) + 1) subsample / f), the formula of word2vec.c; that
 * of Mikolov et al. 2013, section 2.3, sqrt(subsample / f), has no second term. The counts are
 * those of the text that the tokens come from; other data, such as synthetic ones, has none, and
 * all words count the same. */
#include "layers/share/skip_gram.h"
#include "base/os.h"
#include "data/lexicon.h"
#include <math.h>

const char *const sw_skip_gram_params[] = {"output", NULL};

static int check_sources(const struct sw_layer *l, struct sw_err *err)
{
    const struct sw_desc *x = &l->src[0]->desc, *t = &l->src[1]->desc;
    char vectors[128], tokens[128];

    if (t->dtype == SW_I32 && t->ndim == 2 && t->dim[0] == x->dim[0] && t->dim[1] == x->dim[1])
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID,
                      "sources are %s and %s: they must be a vector for every token [N, T, F], and "
                      "the tokens [N, T]",
                      sw_desc_text(x, vectors), sw_desc_text(t, tokens));
}

static int count_words(struct sw_skip_gram *st, const struct sw_layer *l, int64_t vocabulary,
                       struct sw_err *err)
{
    const struct sw_lexicon *words = l->src[1]->tokens;

    st->known = words ? words->count : vocabulary;
    if (st->known > vocabulary)
        return sw_err_set(err, SW_ERR_INVALID,
                          "vocabulary = %lld, but the text has %lld different tokens",
                          (long long)vocabulary, (long long)st->known);

    st->host.times = sw_calloc((size_t)vocabulary, sizeof *st->host.times);
    if (!st->host.times)
        return sw_err_nomem(err, "the counts of words",
                            (size_t)vocabulary * sizeof *st->host.times);

    for (int32_t w = 0; w < st->known; w++)
        st->host.times[w] = words ? sw_lexicon_times(words, w) : 1;
    return SW_OK;
}

static int set_keep(struct sw_skip_gram *st, double subsample, struct sw_err *err)
{
    const int64_t vocabulary = st->known;
    double total = 0;

    st->host.keep = sw_calloc((size_t)vocabulary, sizeof *st->host.keep);
    if (!st->host.keep)
        return sw_err_nomem(err, "the shares of words", (size_t)vocabulary * sizeof *st->host.keep);

    for (int64_t w = 0; w < vocabulary; w++)
        total += (double)st->host.times[w];
    for (int64_t w = 0; w < vocabulary; w++) {
        const double f = (double)st->host.times[w] / total;
        const bool rare = subsample <= 0 || !(f > 0);
        st->host.keep[w] = rare ? 1 : (float)fmin(1, (sqrt(f / subsample) + 1) * subsample / f);
    }

    return SW_OK;
}

int sw_skip_gram_begin(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_skip_gram_conf *c = l->conf;
    struct sw_skip_gram *st = l->state;
    const int64_t *dim = l->src[0]->desc.dim;

    int rc = check_sources(l, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->vectors, l, 0, s, err);
    if (rc != SW_OK)
        return rc;
    rc = count_words(st, l, c->vocabulary, err);
    if (rc != SW_OK)
        return rc;

    st->shape = (struct sw_skip_gram_shape){.rows = dim[0],
                                            .length = dim[1],
                                            .width = dim[2],
                                            .window = c->window,
                                            .vocabulary = st->known};
    st->key = sw_philox_stream(s->seed, SW_PURPOSE_SAMPLE, l->id);
    return set_keep(st, c->subsample, err);
}

/* ---- Tables on the device ---- */

static void free_host(struct sw_skip_gram_setup *h)
{
    sw_free(h->times);
    sw_free(h->keep);
    sw_free(h->below);
    sw_free(h->alias);
    sw_huffman_fini(&h->tree);
    *h = (struct sw_skip_gram_setup){0};
}

enum { KEEP, BELOW, ALIAS, PATH, PATH_END, TABLES };

struct table {
    const void *host;
    size_t bytes, at; /* at: offset in st->tables */
};

static int copy_tables(struct sw_skip_gram *st, const struct table *table, struct sw_stream *stream,
                       struct sw_err *err)
{
    for (int i = 0; i < TABLES; i++) {
        int rc = table[i].bytes ? sw_copy(stream, sw_layer_at(st->tables, table[i].at),
                                          table[i].host, table[i].bytes, err)
                                : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static const void *table_at(const struct sw_skip_gram *st, const struct table *table)
{
    return table->bytes ? sw_layer_at(st->tables, table->at) : NULL;
}

/* Puts the tables in one allocation of device memory, which nothing writes afterwards. Waits for
 * the copies, because the host arrays are freed next. */
static int move_tables(struct sw_skip_gram *st, struct sw_stream *stream, struct sw_err *err)
{
    const struct sw_skip_gram_setup *h = &st->host;
    struct sw_skip_gram_words *w = &st->words;
    const size_t n = (size_t)st->known;
    struct table table[TABLES] = {[KEEP] = {h->keep, n * sizeof *h->keep},
                                  [BELOW] = {h->below, h->below ? n * sizeof *h->below : 0},
                                  [ALIAS] = {h->alias, h->alias ? n * sizeof *h->alias : 0}};

    if (h->tree.path) {
        w->path_count = h->tree.end[n - 1];
        table[PATH] = (struct table){h->tree.path, (size_t)w->path_count * sizeof *h->tree.path, 0};
        table[PATH_END] = (struct table){h->tree.end, n * sizeof *h->tree.end, 0};
    }

    for (int i = 0; i < TABLES; i++)
        table[i].at = sw_layer_reserve(&st->table_bytes, table[i].bytes);

    st->device = stream->dev;
    int rc = sw_device_alloc(st->device, st->table_bytes, "tables of words", &st->tables, err);
    if (rc != SW_OK)
        return rc;

    struct sw_err other; /* only the first error is returned */
    rc = copy_tables(st, table, stream, err);
    int waited = sw_stream_wait(stream, rc == SW_OK ? err : &other);
    rc = rc == SW_OK ? waited : rc;
    if (rc != SW_OK)
        return rc;

    w->keep = table_at(st, &table[KEEP]);
    w->below = table_at(st, &table[BELOW]);
    w->alias = table_at(st, &table[ALIAS]);
    w->path = table_at(st, &table[PATH]);
    w->path_end = table_at(st, &table[PATH_END]);
    w->drawn = w->alias ? st->known : 0;

    return SW_OK;
}

int sw_skip_gram_finish(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_skip_gram *st = l->state;
    const struct sw_skip_gram_shape *k = &st->shape;
    const int64_t output[] = {k->output_rows, k->width};
    const struct sw_desc layout = sw_desc_plain(SW_F32, 2, output);

    int rc = move_tables(st, s->stream, err);
    if (rc != SW_OK)
        return rc;
    free_host(&st->host);

    sw_layer_add_param(l, "output", &layout, 0, 0)->lists_rows = true;
    l->dst.desc = sw_desc_plain(SW_F32, 1, &k->rows);
    l->backward_reads_src = 1;
    st->picks_at = sw_layer_reserve(&l->saved_bytes, sw_skip_gram_pick_bytes(k));
    st->slope_at = sw_layer_reserve(&l->saved_bytes, sw_skip_gram_slope_bytes(k));
    l->flops_forward =
        2.0 * (double)(k->rows * k->length * (k->window + 1) * k->outputs * k->width);
    l->flops_backward = 2 * l->flops_forward;

    return SW_OK;
}

/* ---- Callbacks ---- */

int sw_skip_gram_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_skip_gram_conf *c = l->conf;
    const struct sw_skip_gram *st = l->state;
    struct sw_skip_gram_args a = {.shape = st->shape,
                                  .words = st->words,
                                  .key = st->key,
                                  .weight = (float)c->weight,
                                  .token = l->src[1]->data,
                                  .output = l->param[0].value,
                                  .step = r->step,
                                  .picks = sw_layer_at(l->saved, st->picks_at),
                                  .slope = sw_layer_at(l->saved, st->slope_at),
                                  .loss = l->dst.data,
                                  .result = l->result};

    return sw_plain_forward(&st->vectors, l, r, &a.x, &sw_op_skip_gram, &a, err);
}

int sw_skip_gram_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_skip_gram_conf *c = l->conf;
    const struct sw_skip_gram *st = l->state;
    struct sw_skip_gram_gradient_args a = {.shape = st->shape,
                                           .weight = (float)c->weight,
                                           .output = l->param[0].value,
                                           .step = r->step,
                                           .picks = sw_layer_at(l->saved, st->picks_at),
                                           .slope = sw_layer_at(l->saved, st->slope_at),
                                           .dx = sw_plain_gradient(&st->vectors, l),
                                           .doutput = l->param[0].grad,
                                           .listed = l->param[0].listed};

    int rc = sw_plain_forward(&st->vectors, l, r, &a.x, &sw_op_skip_gram_gradient, &a, err);
    return rc == SW_OK ? sw_plain_write(&st->vectors, l, err) : rc;
}

void sw_skip_gram_teardown(struct sw_layer *l)
{
    struct sw_skip_gram *st = l->state;

    if (!st)
        return;

    free_host(&st->host);
    if (st->device)
        sw_device_free(st->device, st->tables, st->table_bytes);
}
