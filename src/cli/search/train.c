/* singa-ws search train: learns a model that turns vectors into binary codes. */
#include "base/json.h"
#include "base/os.h"
#include "cli/search/model.h"
#include "cli/search/net.h"
#include "cli/search/verb.h"
#include <string.h>

static const char verb[] = "search train";

enum { USUAL_BITS = 16, USUAL_SEED = 1, UNSET = -1 };

struct options {
    struct sw_cli_common common;
    const char *method, *out, *side[SW_CODE_VIEWS], *labels, *ridge;
    struct sw_search_net_options net;
    int64_t bits, seed, clusters, threads;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, method, "method", "METHOD",
                       "cvh, lcmh, cmssh, spectral or hyperplanes"),
    SW_CLI_INT_OPTION(struct options, bits, "bits", "N", 1, "bits of a code; default: 16"),
    SW_CLI_TEXT_OPTION(struct options, side[0], "images", "I.npy|LAYER",
                       "vectors of images; with --recipe the layer that computes them"),
    SW_CLI_TEXT_OPTION(struct options, side[1], "texts", "T.npy|LAYER",
                       "vectors of texts, or their layer; row i belongs to image i"),
    SW_CLI_TEXT_OPTION(struct options, labels, "labels", "L.npy",
                       "cmssh: labels of the rows; default: a row is like its partner alone"),
    SW_CLI_TEXT_OPTION(struct options, ridge, "ridge", "R",
                       "cvh, lcmh: what is added to variances, of their mean; default: 10, 0.1"),
    SW_CLI_INT_OPTION(struct options, clusters, "clusters", "N", 1,
                      "lcmh: clusters of each view; default: 100"),
    SW_CLI_INT_OPTION(struct options, seed, "seed", "N", 0,
                      "lcmh, cmssh, hyperplanes: seed of what is random; default: 1"),
    SW_CLI_TEXT_OPTION(struct options, out, "out", "MODEL", "model file to write"),
    SW_SEARCH_NET_ROWS(struct options, net, "train"),
    SW_SEARCH_THREADS_OPTION(struct options),
    {0},
};

struct training {
    struct sw_search_net net;
    struct sw_search_array side[SW_CODE_VIEWS];
    struct sw_search_labels labels;
    const struct sw_code_method *method;
    struct sw_code_fit fit;
    double seconds; /* of learning alone */
};

/* ---- Read -------------------------------------------------------------------------------------
 */

static int read_sides(struct training *t, const struct options *o, struct sw_err *err)
{
    struct sw_search_net_options net = o->net;

    if (!net.split)
        net.split = "train";

    int rc = net.recipe ? sw_search_net_open(&t->net, &net, &o->common, err) : SW_OK;

    for (int i = 0; rc == SW_OK && i < SW_CODE_VIEWS; i++) {
        if (!o->side[i])
            continue;
        rc = o->net.recipe
                 ? sw_search_net_vectors(&t->net, o->side[i], NULL, SW_METRIC_EUCLIDEAN,
                                         &t->side[i], NULL, err)
                 : sw_search_array_read(&t->side[i], o->side[i], SW_METRIC_EUCLIDEAN, false, err);
    }

    if (rc == SW_OK && o->labels)
        rc = sw_search_labels_read(&t->labels, o->labels, err);
    return rc;
}

/* A method of one view learns from the rows of both, which have as many dimensions. */
static int stack(struct training *t, struct sw_err *err)
{
    struct sw_vectors *a = &t->side[0].set.vectors, *b = &t->side[1].set.vectors;

    if (!b->count)
        return SW_OK;
    if (a->count && a->dims != b->dims)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "method %s has one encoder for images of %d numbers and texts of %d: give "
            "it one of them",
            t->method->name, a->dims, b->dims);

    const size_t row = (size_t)b->dims * sizeof(float);
    char *all = sw_calloc((size_t)(a->count + b->count), row);
    if (!all)
        return sw_err_nomem(err, "rows of both views", (size_t)(a->count + b->count) * row);

    if (a->count)
        memcpy(all, a->at, (size_t)a->count * row);
    memcpy(all + (size_t)a->count * row, b->at, (size_t)b->count * row);

    const struct sw_vectors both = {(float *)all, a->count + b->count, b->dims};
    sw_search_array_fini(&t->side[0]);
    sw_search_array_fini(&t->side[1]);
    t->side[0] = (struct sw_search_array){.set = {.vectors = both}, .owned = all};
    return SW_OK;
}

/* ---- Print ------------------------------------------------------------------------------------
 */

static void print_text(struct sw_bytes *out, const struct sw_code_model *m,
                       const struct training *t, const char *path)
{
    char bytes[32], time[32];

    sw_bytes_printf(out, "method       %s\n", m->method->name);
    sw_bytes_printf(out, "codes        %d bits\n", m->bits);
    sw_bytes_printf(out, "rows         %lld\n", (long long)m->rows);
    if (m->views == 1)
        sw_bytes_printf(out, "vectors      %d numbers\n", m->view[0].dims);
    else
        sw_bytes_printf(out, "vectors      images of %d numbers, texts of %d\n", m->view[0].dims,
                        m->view[1].dims);
    sw_bytes_printf(out, "file         %s, %s\n", path,
                    sw_human_bytes(bytes, (double)m->file.file_bytes));
    sw_bytes_printf(out, "time         %s\n", sw_human_seconds(time, t->seconds));
}

static void print_json(struct sw_bytes *out, const struct sw_code_model *m,
                       const struct training *t, const char *path)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_string(&w, "method", m->method->name);
    sw_json_int(&w, "bits", m->bits);
    sw_json_int(&w, "rows", m->rows);
    sw_json_open_array(&w, "dims");
    for (int v = 0; v < m->views; v++)
        sw_json_int(&w, NULL, m->view[v].dims);
    sw_json_close_array(&w);
    sw_json_int(&w, "bytes", (int64_t)m->file.file_bytes);
    sw_json_string(&w, "out", path);
    sw_json_real(&w, "seconds", t->seconds);
    sw_cli_json_end(&w);
}

/* What was written is opened as any reader would. */
static int show(const struct options *o, const struct training *t)
{
    struct sw_bytes out = {0};
    struct sw_code_model m;
    struct sw_err err;

    int rc = sw_code_model_open(&m, o->out, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    if (o->common.json)
        print_json(&out, &m, t, o->out);
    else if (!o->common.quiet)
        print_text(&out, &m, t, o->out);

    const int code = sw_cli_print(&out);
    sw_bytes_fini(&out);
    sw_code_model_close(&m);
    return code;
}

/* ---- The sub-verb -----------------------------------------------------------------------------
 */

static int check_method(const struct options *o, struct training *t)
{
    if (!o->method)
        return sw_cli_usage(verb, "--method is missing");

    t->method = sw_code_method_find(o->method);
    if (!t->method)
        return sw_cli_usage(verb, "--method=%s: must be cvh, lcmh, cmssh, spectral or hyperplanes",
                            o->method);

    const unsigned takes = t->method->takes;
    const char *option = o->labels && !(takes & SW_CODE_LABELS)        ? "labels"
                         : o->ridge && !(takes & SW_CODE_RIDGE)        ? "ridge"
                         : o->clusters && !(takes & SW_CODE_CLUSTERS)  ? "clusters"
                         : o->seed != UNSET && !(takes & SW_CODE_SEED) ? "seed"
                                                                       : NULL;
    if (option)
        return sw_cli_usage(verb, "method %s takes no --%s", o->method, option);
    if (o->ridge && (!sw_parse_real(o->ridge, &t->fit.ridge) ||
                     !(t->fit.ridge >= SW_CODE_LEAST_RIDGE && t->fit.ridge <= SW_CODE_MOST_RIDGE)))
        return sw_cli_usage(verb, "--ridge=%s: must be %g to %g", o->ridge, SW_CODE_LEAST_RIDGE,
                            SW_CODE_MOST_RIDGE);
    if (t->method->views == 2 && !(o->side[0] && o->side[1]))
        return sw_cli_usage(verb, "method %s learns from pairs: --%s is missing", o->method,
                            o->side[0] ? "texts" : "images");
    return SW_EXIT_DONE;
}

static int check_options(const struct options *o, struct training *t)
{
    int code = sw_search_net_check(verb, &o->net, &o->common);
    if (code == SW_EXIT_DONE)
        code = check_method(o, t);
    if (code != SW_EXIT_DONE)
        return code;
    if (!o->side[0] && !o->side[1])
        return sw_cli_usage(verb, "--images or --texts is missing");
    if (!o->out)
        return sw_cli_usage(verb, "--out=MODEL is missing");
    if (o->bits > SW_CODE_MOST_BITS)
        return sw_cli_usage(verb, "--bits=%lld: must be 1 to %d", (long long)o->bits,
                            SW_CODE_MOST_BITS);
    if (o->clusters > SW_SEARCH_MOST_DIMS)
        return sw_cli_usage(verb, "--clusters=%lld: must be 1 to %d", (long long)o->clusters,
                            SW_SEARCH_MOST_DIMS);

    t->fit.bits = (int)o->bits;
    t->fit.seed = o->seed == UNSET ? USUAL_SEED : (uint64_t)o->seed;
    t->fit.clusters = (int)o->clusters;
    return SW_EXIT_DONE;
}

static int learn(struct training *t, const char *path, struct sw_err *err)
{
    const int64_t began = sw_os()->monotonic_ns();
    struct sw_code_model m = {0};

    for (int i = 0; i < SW_CODE_VIEWS; i++)
        t->fit.view[i] = t->side[i].set.vectors;
    t->fit.labels = t->labels.owned ? &t->labels.labels : NULL;

    int rc = sw_code_model_fit(&m, t->method, &t->fit, err);
    t->seconds = (double)(sw_os()->monotonic_ns() - began) * 1e-9;
    if (rc == SW_OK)
        rc = sw_code_model_write(&m, path, err);
    sw_code_model_close(&m);
    return rc;
}

static int run(void *options)
{
    const struct options *o = options;
    struct training t = {0};
    struct sw_err err;

    int code = check_options(o, &t);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = sw_search_threads(o->threads, &t.fit.threads, &err);
    if (rc == SW_OK)
        rc = read_sides(&t, o, &err);
    if (rc == SW_OK && t.method->views == 1)
        rc = stack(&t, &err);
    if (rc == SW_OK)
        rc = learn(&t, o->out, &err);

    code = rc == SW_OK ? show(o, &t) : sw_search_net_refuse(&t.net, rc, &err);
    for (int i = 0; i < SW_CODE_VIEWS; i++)
        sw_search_array_fini(&t.side[i]);
    sw_search_labels_fini(&t.labels);
    sw_search_net_close(&t.net);
    return code;
}

static const struct options defaults = {.bits = USUAL_BITS, .seed = UNSET};

const struct sw_verb sw_search_train = {
    .name = "train",
    .help = "learn a model that turns vectors into binary codes",
    .typed = verb,
    .usage = "[OPTION]... --method=METHOD --images=I.npy --texts=T.npy --out=MODEL\n"
             "[OPTION]... --method=METHOD --recipe=RUN|RECIPE --images=LAYER --texts=LAYER "
             "--out=MODEL",
    .about =
        "Learns codes whose Hamming distances are small for related rows, of images and of texts\n"
        "that belong together:\n"
        "  cvh          cross-view hashing: canonical correlations of both views\n"
        "  lcmh         linear cross-modal hashing: the same of distances to centroids\n"
        "  cmssh        similarity-sensitive hashing: boosted pairs that are alike or are not\n"
        "  spectral     spectral hashing of one view, or of the rows of both\n"
        "  hyperplanes  random hyperplanes, likewise\n"
        "search index, query, recall and map take the model. With --recipe a trained net computes\n"
        "the vectors of the section train, or of --split.\n\n" SW_SEARCH_ARRAYS_ABOUT,
    .more = "The file appears only when it is complete.",
    .takes = SW_CLI_JSON | SW_CLI_QUIET | SW_SEARCH_NET_TAKES,
    SW_CLI_OPTIONS(struct options, rows),
    .defaults = &defaults,
    .max_args = 0,
    .run = run,
};
