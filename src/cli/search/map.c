/* singa-ws search map: scores searches within and between two kinds of data by their labels. */
#include "base/json.h"
#include "base/os.h"
#include "cli/search/arrays.h"
#include "cli/search/verb.h"
#include "search/score.h"

static const char verb[] = "search map";

enum side { IMAGES, TEXTS, SIDES };
enum { TASKS = SIDES * SIDES };

struct options {
    struct sw_cli_common common;
    const char *side[SIDES], *labels;
    const char *query_side[SIDES], *query_labels;
    const char *metric;
    int64_t threads;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, side[IMAGES], "images", "I.npy", "vectors of images"),
    SW_CLI_TEXT_OPTION(struct options, side[TEXTS], "texts", "T.npy",
                       "vectors of texts; row i belongs to image i"),
    SW_CLI_TEXT_OPTION(struct options, labels, "labels", "L.npy", "labels of the rows"),
    SW_CLI_TEXT_OPTION(struct options, query_side[IMAGES], "query-images", "I.npy",
                       "images that are asked for; default: each of the images themselves"),
    SW_CLI_TEXT_OPTION(struct options, query_side[TEXTS], "query-texts", "T.npy",
                       "texts that are asked for; default: each of the texts themselves"),
    SW_CLI_TEXT_OPTION(struct options, query_labels, "query-labels", "L.npy",
                       "labels of these queries"),
    SW_CLI_TEXT_OPTION(struct options, metric, "metric", "METRIC",
                       "distance: euclidean, cosine or dot; default: euclidean"),
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
    struct sw_search_array base[SIDES], query[SIDES];
    struct sw_search_labels base_labels, query_labels;
    bool own_queries; /* the queries are not the rows themselves */
    enum sw_metric metric;
    int threads;
    bool has[TASKS];
    struct sw_score score[TASKS];
};

/* ---- Read -------------------------------------------------------------------------------------
 */

static int read_side(struct sw_search_array *a, const char *path, enum sw_metric m,
                     struct sw_err *err)
{
    return path ? sw_search_array_read(a, path, m, false, err) : SW_OK;
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

static int read_all(struct scores *s, const struct options *o, struct sw_err *err)
{
    int rc = sw_search_threads(o->threads, &s->threads, err);

    for (int i = 0; rc == SW_OK && i < SIDES; i++) {
        rc = read_side(&s->base[i], o->side[i], s->metric, err);
        if (rc == SW_OK)
            rc = read_side(&s->query[i], o->query_side[i], s->metric, err);
    }

    if (rc == SW_OK)
        rc = sw_search_labels_read(&s->base_labels, o->labels, err);
    if (rc == SW_OK && o->query_labels)
        rc = sw_search_labels_read(&s->query_labels, o->query_labels, err);
    if (rc == SW_OK && o->query_labels)
        join_classes(&s->base_labels.labels, &s->query_labels.labels);
    return rc;
}

static void close_all(struct scores *s)
{
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
        const struct sw_score_args args = {.base = &s->base[task->base].set.vectors,
                                           .queries = &queries[task->query].set.vectors,
                                           .base_labels = &s->base_labels.labels,
                                           .query_labels = &labels->labels,
                                           .metric = s->metric,
                                           .leave_out_same =
                                               !s->own_queries && task->query == task->base};
        if (!args.base->count || !args.queries->count)
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

static void print_text(struct sw_bytes *out, const struct scores *s)
{
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

static void json_details(struct sw_json_writer *w, const struct sw_score *score)
{
    sw_json_int(w, "queries", score->queries);
    sw_json_int(w, "without", score->without);

    sw_json_open_array(w, "precision_at_recall");
    for (int i = 0; i < SW_SCORE_LEVELS; i++)
        sw_json_real(w, NULL, score->precision[i]);
    sw_json_close_array(w);

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
    sw_json_string(&w, "metric", sw_metric_name(s->metric));
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

/* ---- The sub-verb -----------------------------------------------------------------------------
 */

static int check_options(const struct options *o, struct scores *s)
{
    const bool queries = o->query_side[IMAGES] || o->query_side[TEXTS];

    if (!o->side[IMAGES] && !o->side[TEXTS])
        return sw_cli_usage(verb, "--images=I.npy or --texts=T.npy is missing");
    if (!o->labels)
        return sw_cli_usage(verb, "--labels=L.npy is missing");
    if (queries != (o->query_labels != NULL))
        return sw_cli_usage(verb, queries ? "--query-labels=L.npy is missing"
                                          : "--query-labels needs --query-images or --query-texts");
    if (o->metric && !sw_metric_parse(o->metric, &s->metric))
        return sw_cli_usage(verb, "--metric=%s: must be euclidean, cosine or dot", o->metric);

    s->own_queries = queries;
    return SW_EXIT_DONE;
}

static int run(void *options)
{
    const struct options *o = options;
    struct scores s = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o, &s);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = read_all(&s, o, &err);
    if (rc == SW_OK)
        rc = score_tasks(&s, &err);
    if (rc == SW_OK && o->common.json)
        print_json(&out, &s);
    else if (rc == SW_OK)
        print_text(&out, &s);

    code = rc == SW_OK ? sw_cli_print(&out) : sw_cli_fail(rc, &err);
    close_all(&s);
    sw_bytes_fini(&out);
    return code;
}

const struct sw_verb sw_search_map = {
    .name = "map",
    .help = "score searches within and between images and texts by labels",
    .typed = verb,
    .usage = "[OPTION]... --images=I.npy --texts=T.npy --labels=L.npy",
    .about =
        "Ranks all rows for each query by exact distances, and prints the mean average precision\n"
        "(MAP) of searches from image to image, text to text, image to text and text to image,\n"
        "and of each class. A row is relevant if it shares a label with the query. Where images\n"
        "are asked for images, or texts for texts, the query itself is left out. Queries of which\n"
        "no row is relevant are counted, and have no part in the mean.\n\n" SW_SEARCH_ARRAYS_ABOUT,
    .takes = SW_CLI_JSON,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = 0,
    .run = run,
};
