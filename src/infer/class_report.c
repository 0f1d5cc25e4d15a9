/* Counts predictions against labels and keeps the records with the highest loss. */
#include "infer/class_report.h"
#include "base/os.h"
#include "data/source.h"
#include "data/vocabulary.h"
#include "net/net.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The layer ---- */

static bool is_of(const struct sw_layer *l, const char *type)
{
    return sw_str_eq(l->type->base.name, type);
}

/* Whether source 0 of a layer are probabilities. */
static bool reads_softmax(const struct sw_net *net, int i)
{
    const int source = sw_net_source(net, i, 0);
    return source >= 0 && is_of(sw_net_layer(net, source), "softmax");
}

/* Whether a sigmoid_cross_entropy compares its scores with the labels of the data. */
static bool reads_sets(const struct sw_net *net, int i)
{
    if (!is_of(sw_net_layer(net, i), "sigmoid_cross_entropy"))
        return false;

    const int target = sw_net_source(net, i, 1);
    const struct sw_layer *from = target >= 0 ? sw_net_layer(net, target) : NULL;
    return from && from->type->role == SW_ROLE_INPUT &&
           sw_str_eq(sw_layer_input_field(from), "label");
}

int sw_class_report_layer(const struct sw_net *net)
{
    int loss = -1, sets = -1, metric = -1;

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const struct sw_layer *l = sw_net_layer(net, i);

        if (reads_sets(net, i))
            sets = i;
        if (!l->labels.classes ||
            l->labels.classes != sw_desc_features(&l->src[0]->desc) / l->labels.per_sample)
            continue;
        if (is_of(l, "softmax_loss"))
            loss = i;
        else if (is_of(l, "accuracy") || is_of(l, "perplexity"))
            metric = i;
    }

    return loss >= 0 ? loss : sets >= 0 ? sets : metric;
}

/* The scores of a sigmoid: of label sets, or a single one, which is that of class 1 of 2. */
static void use_sigmoid(struct sw_class_report *r, const struct sw_layer *l)
{
    const int64_t columns = sw_desc_features(&l->src[0]->desc);

    r->binary = columns == 1;
    r->sets = !r->binary;
    r->integers = l->src[1]->desc.dtype == SW_I32;
    r->labels = (struct sw_layer_labels){
        .src = 1, .classes = r->binary ? 2 : columns, .per_sample = r->binary ? 1 : columns};
}

int sw_class_report_begin(struct sw_class_report *r, const struct sw_net *net, int *layer,
                          struct sw_err *err)
{
    const int i = sw_class_report_layer(net);
    if (i < 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a report by class needs a softmax_loss or accuracy layer that compares "
                          "scores with one label per row, or a sigmoid_cross_entropy that compares "
                          "them with label sets; the evaluation net has none");

    const struct sw_layer *l = sw_net_layer(net, i);
    r->labels = l->labels;
    if (!l->labels.classes)
        use_sigmoid(r, l);
    r->classes = r->labels.classes;
    if (r->classes > SW_REPORT_CLASSES)
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s has scores for %lld classes; a report by class has at most %d",
                          l->name, (long long)r->classes, SW_REPORT_CLASSES);
    if (r->worst_most > 0 && r->labels.per_sample > 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s compares %lld labels per record: the worst records are known "
                          "only where a record has one label",
                          l->name, (long long)r->labels.per_sample);

    const size_t cells = (size_t)(r->classes * r->classes), most = (size_t)r->worst_most;
    r->layer = l->name;
    r->probabilities = !is_of(l, "softmax_loss") && reads_softmax(net, i);
    r->counts = r->sets ? NULL : sw_calloc(cells, sizeof *r->counts);
    r->of_set = r->sets ? sw_calloc((size_t)r->classes, sizeof *r->of_set) : NULL;
    r->worst = sw_calloc(most + 1, sizeof *r->worst);
    if (!(r->sets ? (void *)r->of_set : r->counts) || !r->worst)
        return sw_err_nomem(err, "a report by class", cells * sizeof *r->counts);

    *layer = i;
    return SW_OK;
}

/* ---- Rows ---- */

/* The highest score, of equal ones the first; NaN is never predicted unless all are. */
static int64_t best_of(const float *x, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;

    return best;
}

static void keep_worst(struct sw_class_report *r, struct sw_class_sample s)
{
    int at = r->worst_count;

    while (at > 0 && s.loss > r->worst[at - 1].loss)
        at--;
    if (at == r->worst_most)
        return;

    r->worst_count += r->worst_count < r->worst_most;
    for (int i = r->worst_count - 1; i > at; i--)
        r->worst[i] = r->worst[i - 1];
    r->worst[at] = s;
}

static void judge(struct sw_class_report *r, const float *x, int32_t label, int32_t predicted)
{
    const double high = (double)x[predicted];
    struct sw_class_sample s = {.record = r->rows, .label = label, .predicted = predicted};
    double sum = 1;

    if (!r->probabilities) {
        sum = 0;
        for (int64_t i = 0; i < r->classes; i++)
            sum += exp((double)x[i] - high);
    }

    s.of_label = r->probabilities ? (double)x[label] : exp((double)x[label] - high) / sum;
    s.of_predicted = r->probabilities ? high : 1 / sum;
    s.loss = r->probabilities ? -log(s.of_label) : log(sum) - ((double)x[label] - high);
    if (isnan(s.loss))
        s.loss = (double)INFINITY;

    keep_worst(r, s);
}

void sw_class_report_rows(struct sw_class_report *r, const float *scores, const int32_t *label,
                          int64_t count)
{
    for (int64_t i = 0; i < count; i++, r->rows++) {
        const float *x = scores + i * r->classes;

        if (label[i] < 0 || label[i] >= r->classes ||
            (r->labels.ignores && label[i] == r->labels.ignored)) {
            r->ignored++;
            continue;
        }

        const int64_t best = best_of(x, r->classes);
        r->counts[label[i] * r->classes + best]++;
        if (r->worst_most > 0)
            judge(r, x, label[i], (int32_t)best);
    }
}

static bool has_label(const struct sw_class_report *r, const void *target, int64_t i)
{
    return r->integers ? ((const int32_t *)target)[i] > 0 : ((const float *)target)[i] > 0.5f;
}

/* A single score x of a sigmoid is the same as the scores 0 and x of a softmax. */
static void add_binary(struct sw_class_report *r, const float *x, const void *target, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sw_class_report_rows(r, (const float[]){0, x[i]}, &(int32_t){has_label(r, target, i)}, 1);
}

static void add_sets(struct sw_class_report *r, const float *x, const void *target, int64_t count)
{
    for (int64_t i = 0; i < count * r->classes; i++) {
        struct sw_class_score *s = &r->of_set[i % r->classes];
        const bool labeled = has_label(r, target, i), predicted = x[i] > 0;

        s->count += labeled;
        s->predicted += predicted;
        s->right += labeled && predicted;
    }

    r->rows += count;
}

void sw_class_report_add(struct sw_class_report *r, const void *const *src, int64_t count)
{
    if (r->sets)
        add_sets(r, src[0], src[1], count);
    else if (r->binary)
        add_binary(r, src[0], src[1], count);
    else
        sw_class_report_rows(r, src[0], src[r->labels.src], count * r->labels.per_sample);
}

/* ---- Names, places and images ---- */

static int set_names(struct sw_class_report *r, const struct sw_source *s, struct sw_err *err)
{
    const struct sw_lexicon *names = s->class_names;
    const int64_t named = s->vocabulary ? sw_vocabulary_count(s->vocabulary)
                          : names       ? names->count
                                        : 0;

    if (named == 0)
        return SW_OK;

    r->names = sw_calloc((size_t)r->classes, sizeof *r->names);
    if (!r->names)
        return sw_err_nomem(err, "the names of classes", (size_t)r->classes * sizeof *r->names);

    for (int64_t c = 0; c < r->classes && c < named; c++) {
        size_t n;
        const char *name = s->vocabulary ? sw_vocabulary_token(s->vocabulary, (int32_t)c, &n)
                                         : sw_lexicon_word(names, (int32_t)c, &n);

        r->names[c] = sw_format("%.*s", (int)n, name);
        if (!r->names[c])
            return sw_err_nomem(err, "the name of a class", n + 1);
    }

    return SW_OK;
}

static int fetch_pictures(struct sw_class_report *r, const struct sw_source *s, int image,
                          struct sw_err *err)
{
    const size_t size = (size_t)sw_field_count(&s->field[image]);
    void *out[SW_MAX_FIELDS] = {NULL};
    struct sw_reader reader;

    r->pictures = sw_calloc((size_t)r->worst_count * size + 1, sizeof *r->pictures);
    if (!r->pictures)
        return sw_err_nomem(err, "images", (size_t)r->worst_count * size * sizeof *r->pictures);

    int rc = sw_reader_init(&reader, s, err);
    for (int i = 0; i < r->worst_count && rc == SW_OK; i++) {
        out[image] = r->pictures + (size_t)i * size;
        rc = sw_source_fetch(&reader, r->worst[i].record, 1, out, err);
    }
    sw_reader_fini(&reader);

    return rc;
}

int sw_class_report_finish(struct sw_class_report *r, const struct sw_source *source,
                           struct sw_err *err)
{
    const int image = sw_source_find(source, "image");
    const struct sw_field *f = image >= 0 ? &source->field[image] : NULL;
    int rc = set_names(r, source, err);

    /* Images are fetched by sample, which places replace. */
    if (rc == SW_OK && r->with_pictures && f && f->ndim == 3 &&
        (f->dim[0] == 1 || f->dim[0] == 3)) {
        memcpy(r->picture, f->dim, sizeof r->picture);
        rc = fetch_pictures(r, source, image, err);
    }

    for (int i = 0; i < r->worst_count && rc == SW_OK; i++)
        rc = sw_source_locate(source, &r->worst[i].record, &r->worst[i].where, err);

    return rc;
}

void sw_class_report_fini(struct sw_class_report *r)
{
    for (int64_t c = 0; r->names && c < r->classes; c++)
        sw_free(r->names[c]);
    sw_free(r->names);
    for (int i = 0; r->worst && i < r->worst_count; i++)
        sw_free(r->worst[i].where);
    sw_free(r->worst);
    sw_free(r->counts);
    sw_free(r->of_set);
    sw_free(r->pictures);
    *r = (struct sw_class_report){0};
}

/* ---- Scores ---- */

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void rate(struct sw_class_score *s)
{
    s->precision = share((double)s->right, (double)s->predicted);
    s->recall = share((double)s->right, (double)s->count);
    s->f1 = share(2 * (double)s->right, (double)(s->predicted + s->count));
}

struct sw_class_score sw_class_report_score(const struct sw_class_report *r, int64_t c)
{
    struct sw_class_score s = {0};

    if (r->sets)
        s = r->of_set[c];
    for (int64_t i = 0; i < r->classes && !r->sets; i++) {
        s.count += r->counts[c * r->classes + i];
        s.predicted += r->counts[i * r->classes + c];
        s.right += i == c ? r->counts[c * r->classes + c] : 0;
    }

    rate(&s);
    return s;
}

struct sw_class_score sw_class_report_micro(const struct sw_class_report *r)
{
    struct sw_class_score all = sw_class_report_macro(r);
    rate(&all);
    return all;
}

struct sw_class_score sw_class_report_macro(const struct sw_class_report *r)
{
    struct sw_class_score mean = {0};
    double occur = 0;

    for (int64_t c = 0; c < r->classes; c++) {
        const struct sw_class_score s = sw_class_report_score(r, c);

        occur += s.count + s.predicted > 0;
        mean.count += s.count;
        mean.predicted += s.predicted;
        mean.right += s.right;
        mean.precision += s.precision;
        mean.recall += s.recall;
        mean.f1 += s.f1;
    }

    mean.precision = share(mean.precision, occur);
    mean.recall = share(mean.recall, occur);
    mean.f1 = share(mean.f1, occur);
    return mean;
}

double sw_class_report_accuracy(const struct sw_class_report *r)
{
    const struct sw_class_score all = sw_class_report_macro(r);
    return all.count > 0 ? (double)all.right / (double)all.count : (double)NAN;
}

int sw_class_report_confused(const struct sw_class_report *r, struct sw_confused *out, int most)
{
    int found = 0;

    for (int64_t i = 0; i < r->classes * r->classes; i++) {
        const struct sw_confused c = {(int32_t)(i / r->classes), (int32_t)(i % r->classes),
                                      r->counts[i]};
        int at = found;

        if (c.label == c.predicted || c.count == 0)
            continue;
        while (at > 0 && c.count > out[at - 1].count)
            at--;
        if (at == most)
            continue;

        found += found < most;
        for (int k = found - 1; k > at; k--)
            out[k] = out[k - 1];
        out[at] = c;
    }

    return found;
}

const char *sw_class_report_name(const struct sw_class_report *r, int64_t c, char text[24])
{
    if (r->names && r->names[c])
        return r->names[c];
    snprintf(text, 24, "%lld", (long long)c);
    return text;
}
