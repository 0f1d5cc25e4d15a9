/* singa-ws search recall: compares the answers of an index with the true nearest neighbors. */
#include "base/json.h"
#include "base/os.h"
#include "cli/search/ask.h"
#include "cli/search/verb.h"
#include "search/score.h"
#include "tensor/npy.h"

static const char verb[] = "search recall";

struct options {
    struct sw_cli_common common;
    const char *queries, *truth;
    struct sw_search_model_options model;
    int64_t k, candidates, threads;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, queries, "queries", "Q.npy",
                       "queries: vectors, or codes for an index of codes"),
    SW_SEARCH_NEIGHBORS_ROWS(struct options),
    SW_SEARCH_MODEL_ROWS(struct options, model),
    SW_CLI_TEXT_OPTION(struct options, truth, "truth", "TRUTH",
                       "exact: search all; or I.npy with the true rows; default: exact"),
    SW_SEARCH_THREADS_OPTION(struct options),
    {0},
};

struct result {
    double recall;
    double exact_seconds; /* of the exhaustive search; 0: truth was read */
};

/* The first k columns of the true rows. */
static int read_truth(const char *path, const struct sw_search_ask *s, int64_t *truth,
                      struct sw_err *err)
{
    struct sw_npy_file f;
    int32_t *ids = NULL;

    int rc = sw_npy_open(&f, path, err);
    if (rc != SW_OK)
        return rc;

    const int64_t *shape = f.header.shape;
    if (f.header.ndim != 2 || shape[0] != s->count || shape[1] < s->k) {
        char text[128];
        sw_shape_text(f.header.ndim, shape, text, sizeof text);
        rc =
            sw_err_set(err, SW_ERR_FORMAT, "%s: an array of %s, expected %lld rows of %lld or more",
                       path, text, (long long)s->count, (long long)s->k);
        goto out;
    }

    ids = sw_realloc_array(NULL, (size_t)f.header.count, sizeof *ids);
    rc = ids ? sw_npy_read_rows(&f, 0, shape[0], SW_I32, ids, err)
             : sw_err_nomem(err, path, (size_t)f.header.count * sizeof *ids);

    for (int64_t q = 0; rc == SW_OK && q < s->count; q++)
        for (int64_t i = 0; i < s->k; i++)
            truth[q * s->k + i] = ids[q * shape[1] + i];

out:
    sw_npy_close(&f);
    sw_free(ids);
    return rc;
}

static int search_truth(const struct sw_search_ask *s, int64_t *truth, double *seconds,
                        struct sw_err *err)
{
    const int64_t count = s->count * s->k, began = sw_os()->monotonic_ns();
    struct sw_neighbor *exact = sw_calloc((size_t)count, sizeof *exact);
    if (!exact)
        return sw_err_nomem(err, "the true neighbors", (size_t)count * sizeof *exact);

    int rc = sw_index_truth(&s->index, &s->queries.set, s->k, s->threads, exact, err);
    *seconds = (double)(sw_os()->monotonic_ns() - began) * 1e-9;
    for (int64_t i = 0; rc == SW_OK && i < count; i++)
        truth[i] = exact[i].id;

    sw_free(exact);
    return rc;
}

static int compare(const struct options *o, const struct sw_search_ask *s, struct result *r,
                   struct sw_err *err)
{
    const int64_t count = s->count * s->k;
    int64_t *truth = sw_calloc(2 * (size_t)count, sizeof *truth), *found = truth + count;
    if (!truth)
        return sw_err_nomem(err, "the true neighbors", 2 * (size_t)count * sizeof *truth);

    for (int64_t i = 0; i < count; i++)
        found[i] = s->found[i].id;

    int rc = !o->truth || sw_str_eq(o->truth, "exact")
                 ? search_truth(s, truth, &r->exact_seconds, err)
                 : read_truth(o->truth, s, truth, err);
    if (rc == SW_OK)
        r->recall = sw_recall(found, truth, s->count, s->k);

    sw_free(truth);
    return rc;
}

static double read_share(const struct sw_search_ask *s)
{
    return (double)s->read / ((double)s->count * (double)s->index.count);
}

static void print_text(struct sw_bytes *out, const struct sw_search_ask *s, const struct result *r)
{
    char time[32], exact[32];

    sw_bytes_printf(out, "kind         %s, %lld rows\n", s->index.kind->name,
                    (long long)s->index.count);
    sw_bytes_printf(out, "queries      %lld\n", (long long)s->count);
    sw_bytes_printf(out, "recall@%-6lld%.4f\n", (long long)s->k, r->recall);
    sw_bytes_printf(out, "read         %.3g %% of the rows for a query\n", 100 * read_share(s));
    sw_bytes_printf(out, "time         %s for a query, %d thread%s\n",
                    sw_human_seconds(time, s->seconds / (double)s->count), s->threads,
                    s->threads == 1 ? "" : "s");
    if (r->exact_seconds > 0)
        sw_bytes_printf(out, "exhaustive   %s for a query\n",
                        sw_human_seconds(exact, r->exact_seconds / (double)s->count));
}

static void print_json(struct sw_bytes *out, const struct sw_search_ask *s, const struct result *r)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_string(&w, "kind", s->index.kind->name);
    sw_json_int(&w, "rows", s->index.count);
    sw_json_int(&w, "queries", s->count);
    sw_json_int(&w, "k", s->k);
    sw_json_real(&w, "recall", r->recall);
    sw_json_real(&w, "read_share", read_share(s));
    sw_json_int(&w, "threads", s->threads);
    sw_json_real(&w, "seconds", s->seconds);
    if (r->exact_seconds > 0)
        sw_json_real(&w, "exhaustive_seconds", r->exact_seconds);
    sw_cli_json_end(&w);
}

static int run(void *options)
{
    const struct options *o = options;
    const struct sw_search_ask_args args = {.index = o->common.args[0],
                                            .queries = o->queries,
                                            .model = &o->model,
                                            .k = o->k,
                                            .candidates = o->candidates,
                                            .threads = o->threads};
    struct sw_search_ask s;
    struct result r = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    if (!o->queries)
        return sw_cli_usage(verb, "--queries=Q.npy is missing");
    if (sw_search_model_check(verb, &o->model) != SW_EXIT_DONE)
        return SW_EXIT_USAGE;

    int rc = sw_search_ask(&s, &args, &err);
    if (rc == SW_OK)
        rc = compare(o, &s, &r, &err);
    if (rc == SW_OK && o->common.json)
        print_json(&out, &s, &r);
    else if (rc == SW_OK)
        print_text(&out, &s, &r);

    const int code = rc == SW_OK ? sw_cli_print(&out) : sw_cli_fail(rc, &err);
    sw_search_ask_fini(&s);
    sw_bytes_fini(&out);
    return code;
}

static const struct options defaults = {.k = SW_SEARCH_USUAL_NEIGHBORS};

const struct sw_verb sw_search_recall = {
    .name = "recall",
    .help = "compare an index with the true nearest neighbors",
    .typed = verb,
    .usage = "[OPTION]... --queries=Q.npy INDEX",
    .about = "Measures which share of the true nearest rows an index finds, which share of its\n"
             "rows it compares with a query, and the time. Truth is an exhaustive search of the\n"
             "vectors, or of the codes of an index that was built from "
             "codes.\n\n" SW_SEARCH_ARRAYS_ABOUT,
    .takes = SW_CLI_JSON,
    SW_CLI_OPTIONS(struct options, rows),
    .defaults = &defaults,
    .min_args = 1,
    .max_args = 1,
    .arg_name = "INDEX",
    .run = run,
};
