/* singa-ws search query: finds the nearest neighbors of vectors or codes in an index. */
#include "base/json.h"
#include "base/os.h"
#include "cli/search/ask.h"
#include "cli/search/net.h"
#include "cli/search/sheet.h"
#include "cli/search/verb.h"
#include "tensor/npy.h"
#include <string.h>

static const char verb[] = "search query";

struct options {
    struct sw_cli_common common;
    const char *vectors, *ids, *layer;
    struct sw_search_net_options net;
    struct sw_search_model_options model;
    struct sw_cli_list inputs, texts;
    struct sw_search_sheet_options sheet;
    int64_t k, candidates, threads;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, vectors, "vectors", "Q.npy",
                       "queries: vectors, or codes for an index of codes"),
    SW_SEARCH_NEIGHBORS_ROWS(struct options),
    SW_CLI_TEXT_OPTION(struct options, ids, "ids", "I.npy",
                       "also write the rows that were found, int32 [queries, neighbors]"),
    SW_SEARCH_NET_ROWS(struct options, net, SW_SEARCH_EVAL_SPLIT),
    SW_SEARCH_LAYER_ROW(struct options, layer),
    SW_SEARCH_MODEL_ROWS(struct options, model),
    SW_SEARCH_INPUT_ROWS(struct options, inputs, texts),
    SW_SEARCH_SHEET_ROWS(struct options, sheet),
    SW_SEARCH_THREADS_OPTION(struct options),
    {0},
};

static void json_labels(struct sw_json_writer *w, const struct sw_row_labels *l, int64_t row)
{
    sw_json_open_array(w, "labels");
    for (int c = 0; c < l->classes; c++)
        if (sw_row_has_label(l, row, c))
            sw_json_int(w, NULL, c);
    sw_json_close_array(w);
}

static void print_json(struct sw_bytes *out, const struct sw_search_ask *s)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_string(&w, "kind", s->index.kind->name);
    sw_json_string(&w, "distance", sw_search_ask_unit(s));
    sw_json_int(&w, "rows", s->index.count);
    sw_json_int(&w, "queries", s->count);
    sw_json_real(&w, "read_share", (double)s->read / ((double)s->count * (double)s->index.count));
    sw_json_real(&w, "seconds", s->seconds);
    sw_json_open_array(&w, "neighbors");

    for (int64_t q = 0; q < s->count; q++) {
        sw_json_open_array(&w, NULL);
        for (int64_t i = 0; i < s->k; i++) {
            const struct sw_neighbor n = s->found[q * s->k + i];

            sw_json_open_object(&w, NULL);
            sw_json_int(&w, "id", n.id);
            sw_json_real(&w, "distance", sw_search_ask_shown(s, n));
            if (s->index.has_labels)
                json_labels(&w, &s->index.labels, n.id);
            sw_json_close_object(&w);
        }
        sw_json_close_array(&w);
    }

    sw_json_close_array(&w);
    sw_cli_json_end(&w);
}

static void text_labels(struct sw_bytes *out, const struct sw_row_labels *l, int64_t row)
{
    const char *before = "  ";

    for (int c = 0; c < l->classes; c++)
        if (sw_row_has_label(l, row, c)) {
            sw_bytes_printf(out, "%s%d", before, c);
            before = ",";
        }
}

static void print_text(struct sw_bytes *out, const struct sw_search_ask *s)
{
    sw_bytes_printf(out, "%8s %10s %12s%s\n", "query", "id", sw_search_ask_unit(s),
                    s->index.has_labels ? "  labels" : "");

    for (int64_t i = 0; i < s->count * s->k; i++) {
        sw_bytes_printf(out, "%8lld %10lld %12.6g", (long long)(i / s->k),
                        (long long)s->found[i].id, sw_search_ask_shown(s, s->found[i]));
        if (s->index.has_labels)
            text_labels(out, &s->index.labels, s->found[i].id);
        sw_bytes_add(out, "\n");
    }
}

static int write_ids(const struct sw_search_ask *s, const char *path, struct sw_err *err)
{
    const int64_t shape[] = {s->count, s->k};
    int32_t *ids = sw_calloc((size_t)s->count, (size_t)s->k * sizeof *ids);
    if (!ids)
        return sw_err_nomem(err, path, (size_t)s->count * (size_t)s->k * sizeof *ids);

    for (int64_t i = 0; i < s->count * s->k; i++)
        ids[i] = (int32_t)s->found[i].id;

    int rc = sw_npy_write(path, SW_I32, 2, shape, ids, err);
    sw_free(ids);
    return rc;
}

/* What a net computes the queries of. */
static struct sw_search_net_source source_of(const struct options *o)
{
    return (struct sw_search_net_source){.files = (const char *const *)o->common.args + 1,
                                         .file_count = o->common.arg_count - 1,
                                         .inputs = &o->inputs,
                                         .texts = &o->texts};
}

static int check_options(const struct options *o)
{
    const struct sw_search_net_source from = source_of(o);

    int code = sw_search_net_check(verb, &o->net, &o->common);
    if (code == SW_EXIT_DONE)
        code = sw_search_model_check(verb, &o->model);
    if (code == SW_EXIT_DONE)
        code = sw_search_sheet_check(verb, &o->sheet);
    if (code == SW_EXIT_DONE)
        code = sw_search_net_check_source(verb, &o->net, &from);
    if (code != SW_EXIT_DONE)
        return code;
    if (o->layer && !o->net.recipe)
        return sw_cli_usage(verb, "--layer needs --recipe");
    if (o->vectors && o->net.recipe)
        return sw_cli_usage(verb, "--vectors and --recipe are mutually exclusive");
    if (o->common.arg_count > 1 && !o->net.recipe)
        return sw_cli_usage(verb, "files of queries need --recipe");
    return o->vectors || o->net.recipe
               ? SW_EXIT_DONE
               : sw_cli_usage(verb, "--vectors=Q.npy or --recipe is missing");
}

/* Computes the queries with the net, and collects what a sheet shows of them. */
static int compute(const struct options *o, struct sw_search_net *net,
                   struct sw_search_sheet_queries *shown, struct sw_search_array *queries,
                   struct sw_err *err)
{
    const struct sw_search_net_source from = source_of(o);

    int rc = sw_search_net_open(net, &o->net, &o->common, err);
    if (rc == SW_OK)
        rc = sw_search_net_vectors(net, o->layer, &from, SW_METRIC_EUCLIDEAN, queries,
                                   &shown->files, err);
    for (int i = 0; rc == SW_OK && i < o->texts.count; i++)
        rc = sw_search_lines_add(&shown->texts, o->texts.items[i], strlen(o->texts.items[i]), err);
    if (rc != SW_OK || !o->sheet.file || !sw_search_net_uses_section(&from))
        return rc;

    rc = sw_search_net_labels(net, &shown->labels, err);
    return rc == SW_ERR_NOTFOUND ? SW_OK : rc;
}

static int ask(const struct options *o, struct sw_search_net *net,
               struct sw_search_sheet_queries *shown, struct sw_search_ask *s, struct sw_err *err)
{
    struct sw_search_array queries = {0};
    const struct sw_search_ask_args args = {.index = o->common.args[0],
                                            .queries = o->vectors,
                                            .computed = o->net.recipe ? &queries : NULL,
                                            .model = &o->model,
                                            .k = o->k,
                                            .candidates = o->candidates,
                                            .threads = o->threads};

    int rc = o->net.recipe ? compute(o, net, shown, &queries, err) : SW_OK;
    if (rc == SW_OK)
        rc = sw_search_ask(s, &args, err);
    sw_search_array_fini(&queries);
    return rc;
}

static int run(void *options)
{
    const struct options *o = options;
    struct sw_search_net net = {0};
    struct sw_search_ask s = {0};
    struct sw_search_sheet_queries shown = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = ask(o, &net, &shown, &s, &err);
    if (rc == SW_OK && o->ids)
        rc = write_ids(&s, o->ids, &err);
    if (rc == SW_OK && o->sheet.file)
        rc = sw_search_sheet_draw(&o->sheet, &s, &shown, &err);
    if (rc == SW_OK && o->common.json)
        print_json(&out, &s);
    else if (rc == SW_OK && !o->common.quiet)
        print_text(&out, &s);

    code = rc == SW_OK ? sw_cli_print(&out) : sw_search_net_refuse(&net, rc, &err);
    sw_search_ask_fini(&s);
    sw_search_sheet_queries_fini(&shown);
    sw_search_net_close(&net);
    sw_bytes_fini(&out);
    return code;
}

static const struct options defaults = {.k = SW_SEARCH_USUAL_NEIGHBORS};

const struct sw_verb sw_search_query = {
    .name = "query",
    .help = "find nearest neighbors in an index",
    .typed = verb,
    .usage = "[OPTION]... --vectors=Q.npy INDEX\n"
             "[OPTION]... --recipe=RUN|RECIPE INDEX [FILE]...\n"
             "[OPTION]... --recipe=RUN|RECIPE --text=WORDS INDEX",
    .about =
        "Finds the nearest rows of an index for each query: nearest first, equal ones by row.\n"
        "Kinds exact and va give the exact answer, mih that of codes.\n" SW_SEARCH_NET_ABOUT
        "\n\n" SW_SEARCH_ARRAYS_ABOUT,
    .more = "Distances are euclidean, 1 - cosine, the dot product (largest first), or bits.",
    .takes = SW_CLI_JSON | SW_CLI_QUIET | SW_SEARCH_NET_TAKES,
    SW_CLI_OPTIONS(struct options, rows),
    .defaults = &defaults,
    .min_args = 1,
    .max_args = -1,
    .arg_name = "INDEX",
    .run = run,
};
