/* singa-ws search map: scores searches within and between two kinds of data by their labels. */
#include "base/json.h"
#include "base/os.h"
#include "cli/plot/picture.h"
#include "cli/search/arrays.h"
#include "cli/search/curves.h"
#include "cli/search/model.h"
#include "cli/search/net.h"
#include "cli/search/verb.h"
#include "cli/training/train.h"
#include "search/score.h"

static const char verb[] = "search map";

enum side { IMAGES, TEXTS, SIDES };
enum { TASKS = SIDES * SIDES };

struct options {
    struct sw_cli_common common;
    const char *side[SIDES], *labels;
    const char *query_side[SIDES], *query_labels;
    const char *metric, *model;
    bool hamming;
    struct sw_search_net_options net;
    bool train;
    const char *out_dir;
    const char *plot;
    int64_t threads;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, side[IMAGES], "images", "I.npy|LAYER",
                       "vectors of images; with --recipe the layer that computes them"),
    SW_CLI_TEXT_OPTION(struct options, side[TEXTS], "texts", "T.npy|LAYER",
                       "vectors of texts, or their layer; row i belongs to image i"),
    SW_CLI_TEXT_OPTION(struct options, labels, "labels", "L.npy",
                       "labels of the rows; default with --recipe: those of the data"),
    SW_CLI_TEXT_OPTION(struct options, query_side[IMAGES], "query-images", "I.npy",
                       "images that are asked for; default: each of the images themselves"),
    SW_CLI_TEXT_OPTION(struct options, query_side[TEXTS], "query-texts", "T.npy",
                       "texts that are asked for; default: each of the texts themselves"),
    SW_CLI_TEXT_OPTION(struct options, query_labels, "query-labels", "L.npy",
                       "labels of these queries"),
    SW_CLI_TEXT_OPTION(struct options, metric, "metric", "METRIC",
                       "distance: euclidean, cosine or dot; default: euclidean"),
    SW_CLI_TEXT_OPTION(struct options, model, "model", "MODEL",
                       "encode images and texts by a model of search train: to its real values, or "
                       "with --hamming to its codes"),
    SW_CLI_FLAG_OPTION(struct options, hamming, "hamming",
                       "compare codes; without a model and without arrays of codes a bit says "
                       "whether a number is above its median"),
    SW_SEARCH_NET_ROWS(struct options, net, SW_SEARCH_EVAL_SPLIT),
    SW_CLI_FLAG_OPTION(struct options, train, "train", "with --recipe: train the recipe first"),
    SW_CLI_TEXT_OPTION(struct options, out_dir, "out", "DIR",
                       "with --train: folder for checkpoints, as for run"),
    SW_CLI_TEXT_OPTION(struct options, plot, "plot", "FILE",
                       "draw precision and recall to FILE.png or FILE.svg"),
    SW_SEARCH_THREADS_OPTION(struct options),
    {0},
};

struct task {
    const char *name, *text;
    enum side query, base;
};

static const struct task tasks[TASKS] = {
    {"i2i", "image to image", IMAGES, IMAGES},
    {"t2t", "text to text", TEXTS, TEXTS},
    {"i2t", "image to text", IMAGES, TEXTS},
    {"t2i", "text to image", TEXTS, IMAGES},
};

struct scores {
    struct sw_search_net net; /* with --recipe */
    const char *layer[SIDES]; /* that was computed by it; NULL: none */
    struct sw_search_array base[SIDES], query[SIDES];
    struct sw_search_labels base_labels, query_labels;
    bool own_queries;           /* the queries are not the rows themselves */
    struct sw_code_model model; /* with --model */
    enum sw_metric metric;      /* of vectors */
    bool hamming;               /* codes are compared */
    int threads;
    bool has[TASKS];
    struct sw_score score[TASKS];
};

/* ---- Read -------------------------------------------------------------------------------------
 */

static int read_side(const struct scores *s, struct sw_search_array *a, const char *path,
                     struct sw_err *err)
{
    const bool may_be_codes = s->hamming && !s->model.method;

    return path ? sw_search_array_read(a, path, SW_METRIC_EUCLIDEAN, may_be_codes, err) : SW_OK;
}

/* Both sets of labels have the classes of either. */
static void join_classes(struct sw_row_labels *a, struct sw_row_labels *b)
{
    if (!a->single || !b->single)
        return;
    if (a->classes < b->classes)
        a->classes = b->classes;
    b->classes = a->classes;
}

static int read_arrays(struct scores *s, const struct options *o, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; rc == SW_OK && i < SIDES; i++) {
        rc = read_side(s, &s->base[i], o->side[i], err);
        if (rc == SW_OK)
            rc = read_side(s, &s->query[i], o->query_side[i], err);
    }

    if (rc == SW_OK)
        rc = sw_search_labels_read(&s->base_labels, o->labels, err);
    if (rc == SW_OK && o->query_labels)
        rc = sw_search_labels_read(&s->query_labels, o->query_labels, err);
    if (rc == SW_OK && o->query_labels)
        join_classes(&s->base_labels.labels, &s->query_labels.labels);
    return rc;
}

/* Computes the layers that are named, or if none is those that the recipe brings together. */
static int compute(struct scores *s, const struct options *o, struct sw_err *err)
{
    const bool named = o->side[IMAGES] || o->side[TEXTS];

    struct sw_search_net_options net = o->net;

    if (o->out_dir)
        net.weights = o->out_dir;

    int rc = sw_search_net_open(&s->net, &net, &o->common, err);
    if (rc == SW_OK && !named)
        rc = sw_search_net_pair(&s->net, err);

    for (int i = 0; rc == SW_OK && i < SIDES; i++) {
        s->layer[i] = named ? o->side[i] : s->net.pair[i];
        if (s->layer[i])
            rc = sw_search_net_vectors(&s->net, s->layer[i], NULL, SW_METRIC_EUCLIDEAN, &s->base[i],
                                       NULL, err);
    }

    if (rc == SW_OK)
        rc = o->labels ? sw_search_labels_read(&s->base_labels, o->labels, err)
                       : sw_search_net_labels(&s->net, &s->base_labels, err);
    return rc;
}

/* Brings a side and its queries into the form that is compared. */
static int encode_side(struct scores *s, int side, struct sw_err *err)
{
    struct sw_search_array *both[] = {&s->query[side], &s->base[side]};
    const char *what = side == IMAGES ? "images" : "texts";
    int rc = SW_OK;

    /* The medians are those of the rows: queries come first, while there are vectors. */
    for (int i = 0; rc == SW_OK && i < 2; i++) {
        struct sw_search_array *a = both[i];
        if (!sw_search_array_count(a))
            continue;

        if (s->model.method)
            rc = sw_search_model_encode(&s->model, side, what, s->hamming, s->threads, a, err);
        else if (s->hamming && a->set.vectors.count && !s->base[side].set.vectors.count)
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "codes of queries need the medians of %s that are searched", what);
        else if (s->hamming && a->set.vectors.count)
            rc = sw_search_median_codes(&s->base[side].set.vectors, a, err);
        if (rc == SW_OK && a->set.vectors.count)
            rc = sw_vectors_check(&a->set.vectors, s->metric, what, err);
    }

    return rc;
}

static int read_all(struct scores *s, const struct options *o, struct sw_err *err)
{
    int rc = sw_search_threads(o->threads, &s->threads, err);
    if (rc == SW_OK && o->model)
        rc = sw_code_model_open(&s->model, o->model, err);
    if (rc == SW_OK)
        rc = o->net.recipe ? compute(s, o, err) : read_arrays(s, o, err);
    for (int i = 0; rc == SW_OK && i < SIDES; i++)
        rc = encode_side(s, i, err);
    return rc;
}

static void close_all(struct scores *s)
{
    sw_search_net_close(&s->net);
    sw_code_model_close(&s->model);
    for (int i = 0; i < SIDES; i++) {
        sw_search_array_fini(&s->base[i]);
        sw_search_array_fini(&s->query[i]);
    }

    sw_search_labels_fini(&s->base_labels);
    sw_search_labels_fini(&s->query_labels);
    for (int t = 0; t < TASKS; t++)
        sw_score_fini(&s->score[t]);
}

/* ---- Score ------------------------------------------------------------------------------------
 */

static int score_tasks(struct scores *s, struct sw_err *err)
{
    const struct sw_search_array *queries = s->own_queries ? s->query : s->base;
    const struct sw_search_labels *labels = s->own_queries ? &s->query_labels : &s->base_labels;

    for (int t = 0; t < TASKS; t++) {
        const struct task *task = &tasks[t];
        const struct sw_search_set *base = &s->base[task->base].set;
        const struct sw_search_set *asked = &queries[task->query].set;
        const struct sw_score_args args = {.base = &base->vectors,
                                           .queries = &asked->vectors,
                                           .base_codes = s->hamming ? &base->codes : NULL,
                                           .query_codes = s->hamming ? &asked->codes : NULL,
                                           .base_labels = &s->base_labels.labels,
                                           .query_labels = &labels->labels,
                                           .metric = s->metric,
                                           .leave_out_same =
                                               !s->own_queries && task->query == task->base};
        if (!sw_search_array_count(&s->base[task->base]) ||
            !sw_search_array_count(&queries[task->query]))
            continue;

        int rc = sw_score_map(&args, s->threads, &s->score[t], err);
        if (rc != SW_OK)
            return sw_err_prefix(err, rc, "%s", task->text);
        s->has[t] = true;
    }

    return SW_OK;
}

/* ---- Print ------------------------------------------------------------------------------------
 */

static void print_net(struct sw_bytes *out, const struct scores *s)
{
    sw_bytes_add(out, "weights      ");
    sw_weights_describe(&s->net.weights, out);
    for (int i = 0; i < SIDES; i++)
        if (s->layer[i])
            sw_bytes_printf(out, "\n%-12s layer %s", i == IMAGES ? "images" : "texts", s->layer[i]);
    sw_bytes_add(out, "\n\n");
}

static void print_text(struct sw_bytes *out, const struct scores *s)
{
    if (s->net.weights.path)
        print_net(out, s);

    sw_bytes_printf(out, "%-16s %8s %8s %10s\n", "search", "MAP", "queries", "none found");
    for (int t = 0; t < TASKS; t++)
        if (s->has[t])
            sw_bytes_printf(out, "%-16s %8.4f %8lld %10lld\n", tasks[t].text, s->score[t].map,
                            (long long)s->score[t].queries, (long long)s->score[t].without);

    sw_bytes_printf(out, "\n%-16s", "class");
    for (int t = 0; t < TASKS; t++)
        if (s->has[t])
            sw_bytes_printf(out, " %8s", tasks[t].name);
    sw_bytes_add(out, "\n");

    for (int c = 0; c < s->base_labels.labels.classes; c++) {
        int64_t queries = 0;
        for (int t = 0; t < TASKS; t++)
            queries += s->has[t] ? s->score[t].per_class[c].queries : 0;
        if (!queries)
            continue;

        sw_bytes_printf(out, "%-16d", c);
        for (int t = 0; t < TASKS; t++)
            if (s->has[t])
                sw_bytes_printf(out, " %8.4f", s->score[t].per_class[c].map);
        sw_bytes_add(out, "\n");
    }
}

static void json_scopes(struct sw_json_writer *w, const struct sw_scope_curve *c)
{
    sw_json_open_object(w, "scope");
    sw_json_open_array(w, "k");
    for (int i = 0; i < c->count; i++)
        sw_json_int(w, NULL, c->at[i]);
    sw_json_close_array(w);
    sw_json_open_array(w, "precision");
    for (int i = 0; i < c->count; i++)
        sw_json_real(w, NULL, c->precision[i]);
    sw_json_close_array(w);
    sw_json_open_array(w, "recall");
    for (int i = 0; i < c->count; i++)
        sw_json_real(w, NULL, c->recall[i]);
    sw_json_close_array(w);
    sw_json_close_object(w);
}

static void json_details(struct sw_json_writer *w, const struct sw_score *score)
{
    sw_json_int(w, "queries", score->queries);
    sw_json_int(w, "without", score->without);

    sw_json_open_array(w, "precision_at_recall");
    for (int i = 0; i < SW_SCORE_LEVELS; i++)
        sw_json_real(w, NULL, score->precision[i]);
    sw_json_close_array(w);

    json_scopes(w, &score->scopes);

    sw_json_open_array(w, "classes");
    for (int c = 0; c < score->classes; c++) {
        if (!score->per_class[c].queries)
            continue;
        sw_json_open_object(w, NULL);
        sw_json_int(w, "class", c);
        sw_json_real(w, "map", score->per_class[c].map);
        sw_json_int(w, "queries", score->per_class[c].queries);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);
}

static void print_json(struct sw_bytes *out, const struct scores *s)
{
    double sum = 0;
    int count = 0;
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);

    for (int t = 0; t < TASKS; t++)
        if (s->has[t]) {
            sw_json_real(&w, tasks[t].name, s->score[t].map);
            sum += s->score[t].map;
            count++;
        }

    sw_json_real(&w, "mean", sum / (count ? count : 1));
    sw_json_string(&w, "metric", s->hamming ? "hamming" : sw_metric_name(s->metric));
    if (s->model.method) {
        sw_json_string(&w, "model", s->model.file.path);
        sw_json_string(&w, "method", s->model.method->name);
        sw_json_int(&w, "bits", s->model.bits);
    }
    if (s->net.weights.path) {
        sw_json_string(&w, "images", s->layer[IMAGES]);
        sw_json_string(&w, "texts", s->layer[TEXTS]);
        sw_weights_describe_json(&s->net.weights, &w);
    }
    sw_json_open_object(&w, "details");

    for (int t = 0; t < TASKS; t++)
        if (s->has[t]) {
            sw_json_open_object(&w, tasks[t].name);
            json_details(&w, &s->score[t]);
            sw_json_close_object(&w);
        }

    sw_json_close_object(&w);
    sw_cli_json_end(&w);
}

/* ---- Draw -------------------------------------------------------------------------------------
 */

static int draw(const struct scores *s, const char *path, struct sw_err *err)
{
    struct sw_search_curve curves[TASKS];
    int count = 0;

    for (int t = 0; t < TASKS; t++)
        if (s->has[t])
            curves[count++] = (struct sw_search_curve){tasks[t].text, &s->score[t]};

    return sw_search_draw_curves(path, curves, count, err);
}

/* ---- Train ------------------------------------------------------------------------------------
 */

/* As `singa-ws run` does; with --json without its report. Returns the exit code. */
static int train(const struct options *o)
{
    char *recipe[] = {(char *)(uintptr_t)o->net.recipe, NULL};
    const struct sw_hosts_options hosts = {0};
    struct sw_cli_common common = o->common;
    struct sw_job_options job;

    common.args = recipe;
    common.arg_count = 1;
    common.quiet = common.json;
    common.json = false;
    job = sw_trainer_job_of(&common);
    job.out_dir = o->out_dir;

    const struct sw_train_args args = {.common = &common, .hosts = &hosts};
    return sw_train(&args, &job, NULL);
}

/* ---- The sub-verb -----------------------------------------------------------------------------
 */

static int check_train(const struct options *o)
{
    if (o->out_dir && !o->train)
        return sw_cli_usage(verb, "--out needs --train");
    if (!o->train)
        return SW_EXIT_DONE;
    if (!o->net.recipe || !sw_weights_is_recipe(o->net.recipe))
        return sw_cli_usage(verb, "--train needs --recipe=RECIPE");
    return o->net.weights ? sw_cli_usage(verb, "--train and --weights are mutually exclusive")
                          : SW_EXIT_DONE;
}

static int check_options(const struct options *o, struct scores *s)
{
    const bool queries = o->query_side[IMAGES] || o->query_side[TEXTS], net = o->net.recipe;

    if (sw_search_net_check(verb, &o->net, &o->common) != SW_EXIT_DONE)
        return SW_EXIT_USAGE;
    if (check_train(o) != SW_EXIT_DONE)
        return SW_EXIT_USAGE;
    if (o->plot && !sw_picture_is_named(verb, o->plot))
        return SW_EXIT_USAGE;
    if (net && (queries || o->query_labels))
        return sw_cli_usage(verb, "--recipe and --query-%s are mutually exclusive",
                            o->query_labels         ? "labels"
                            : o->query_side[IMAGES] ? "images"
                                                    : "texts");
    if (!net && !o->side[IMAGES] && !o->side[TEXTS])
        return sw_cli_usage(verb, "--images=I.npy or --texts=T.npy is missing");
    if (!net && !o->labels)
        return sw_cli_usage(verb, "--labels=L.npy is missing");
    if (queries != (o->query_labels != NULL))
        return sw_cli_usage(verb, queries ? "--query-labels=L.npy is missing"
                                          : "--query-labels needs --query-images or --query-texts");
    if (o->metric && o->hamming)
        return sw_cli_usage(verb, "--metric and --hamming are mutually exclusive");
    if (o->metric && !sw_metric_parse(o->metric, &s->metric))
        return sw_cli_usage(verb, "--metric=%s: must be euclidean, cosine or dot", o->metric);

    s->own_queries = queries;
    s->hamming = o->hamming;
    return SW_EXIT_DONE;
}

static int run(void *options)
{
    const struct options *o = options;
    struct scores s = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o, &s);
    if (code == SW_EXIT_DONE && o->train)
        code = train(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = read_all(&s, o, &err);
    if (rc == SW_OK)
        rc = score_tasks(&s, &err);
    if (rc == SW_OK && o->plot)
        rc = draw(&s, o->plot, &err);
    if (rc == SW_OK && o->common.json)
        print_json(&out, &s);
    else if (rc == SW_OK)
        print_text(&out, &s);

    code = rc == SW_OK ? sw_cli_print(&out) : sw_search_net_refuse(&s.net, rc, &err);
    close_all(&s);
    sw_bytes_fini(&out);
    return code;
}

const struct sw_verb sw_search_map = {
    .name = "map",
    .help = "score searches within and between images and texts by labels",
    .typed = verb,
    .usage = "[OPTION]... --images=I.npy --texts=T.npy --labels=L.npy\n"
             "[OPTION]... --recipe=RUN|RECIPE [--train]",
    .about =
        "Ranks all rows for each query by exact distances, and prints the mean average precision\n"
        "(MAP) of searches from image to image, text to text, image to text and text to image,\n"
        "and of each class. A row is relevant if it shares a label with the query. Where images\n"
        "are asked for images, or texts for texts, the query itself is left out. Queries of which\n"
        "no row is relevant are counted, and have no part in the mean.\n"
        "With --hamming codes are compared by the number of bits that differ, and precision is\n"
        "averaged over all orders of equally near rows.\n"
        "With --recipe a trained net computes the vectors from the data of its recipe, as predict\n"
        "does. By default they are the layers of two data fields that its last such loss compares\n"
        "in the last stage, or that of the weights.\n\n" SW_SEARCH_ARRAYS_ABOUT,
    .takes = SW_CLI_JSON | SW_SEARCH_NET_TAKES,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = 0,
    .run = run,
};
