/* singa-ws search index: builds an index of vectors or codes. */
#include "search/index.h"
#include "base/json.h"
#include "base/os.h"
#include "cli/search/model.h"
#include "cli/search/net.h"
#include "cli/search/verb.h"

static const char verb[] = "search index";

struct options {
    struct sw_cli_common common;
    const char *out, *kind, *metric, *labels, *layer;
    struct sw_search_net_options net;
    struct sw_search_model_options model;
    struct sw_cli_list inputs, texts;
    int64_t bits, seed, threads;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, out, "out", "FILE", "index file to write"),
    SW_CLI_TEXT_OPTION(struct options, kind, "kind", "KIND",
                       "exact, va, codes or mih; default: exact"),
    SW_CLI_TEXT_OPTION(struct options, metric, "metric", "METRIC",
                       "distance of vectors: euclidean, cosine or dot; default: euclidean"),
    SW_CLI_INT_OPTION(struct options, bits, "bits", "N", 1,
                      "va: bits of a dimension, 1, 2, 4 or 8 (4); codes, mih: bits of a code (64)"),
    SW_CLI_INT_OPTION(struct options, seed, "seed", "N", 0,
                      "seed of the hyperplanes that make codes of vectors; default: 1"),
    SW_CLI_TEXT_OPTION(struct options, labels, "labels", "L.npy",
                       "labels of the rows, which search query shows; default with --recipe and "
                       "no FILE: those of the data, if they have any"),
    SW_SEARCH_NET_ROWS(struct options, net, SW_SEARCH_EVAL_SPLIT),
    SW_SEARCH_LAYER_ROW(struct options, layer),
    SW_SEARCH_MODEL_ROWS(struct options, model),
    SW_SEARCH_INPUT_ROWS(struct options, inputs, texts),
    SW_SEARCH_THREADS_OPTION(struct options),
    {0},
};

static void print_text(struct sw_bytes *out, const struct sw_index *x, const struct options *o,
                       double seconds)
{
    char bytes[32], time[32];

    sw_bytes_printf(out, "kind         %s\n", x->kind->name);
    sw_bytes_printf(out, "rows         %lld\n", (long long)x->count);
    if (x->has_vectors)
        sw_bytes_printf(out, "vectors      %d floats, %s\n", x->vectors.dims,
                        sw_metric_name(x->metric));
    if (x->kind->holds_codes)
        sw_bytes_printf(out, "codes        %d bits\n", x->codes.bits);
    if (x->va.bits)
        sw_bytes_printf(out, "cells        %d bits of a dimension\n", x->va.bits);
    if (x->multi.parts)
        sw_bytes_printf(out, "substrings   %d\n", x->multi.parts);
    if (x->has_labels)
        sw_bytes_printf(out, "classes      %d\n", x->labels.classes);

    sw_bytes_printf(out, "file         %s, %s\n", o->out,
                    sw_human_bytes(bytes, (double)x->file.file_bytes));
    sw_bytes_printf(out, "time         %s\n", sw_human_seconds(time, seconds));
}

static void print_json(struct sw_bytes *out, const struct sw_index *x, const struct options *o,
                       double seconds)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_string(&w, "kind", x->kind->name);
    sw_json_int(&w, "rows", x->count);
    sw_json_int(&w, "dims", x->vectors.dims);
    sw_json_string(&w, "metric", x->has_vectors ? sw_metric_name(x->metric) : NULL);
    sw_json_int(&w, "bits", x->kind->usual_bits ? (int64_t)x->file.header.bits : 0);
    sw_json_int(&w, "substrings", x->multi.parts);
    sw_json_int(&w, "classes", x->labels.classes);
    sw_json_int(&w, "bytes", (int64_t)x->file.file_bytes);
    sw_json_string(&w, "out", o->out);
    sw_json_real(&w, "seconds", seconds);
    sw_cli_json_end(&w);
}

/* What was written is opened as any reader would, so that the summary is of the file. */
static int show(const struct options *o, double seconds)
{
    struct sw_bytes out = {0};
    struct sw_index x;
    struct sw_err err;

    int rc = sw_index_open(&x, o->out, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    if (o->common.json)
        print_json(&out, &x, o, seconds);
    else if (!o->common.quiet)
        print_text(&out, &x, o, seconds);

    const int code = sw_cli_print(&out);
    sw_bytes_fini(&out);
    sw_index_close(&x);
    return code;
}

/* What a net computes the vectors of. */
static struct sw_search_net_source source_of(const struct options *o)
{
    return (struct sw_search_net_source){.files = (const char *const *)o->common.args,
                                         .file_count = o->common.arg_count,
                                         .inputs = &o->inputs,
                                         .texts = &o->texts};
}

static int check_options(const struct options *o, struct sw_index_args *a)
{
    const struct sw_search_net_source from = source_of(o);

    int code = sw_search_net_check(verb, &o->net, &o->common);
    if (code == SW_EXIT_DONE)
        code = sw_search_model_check(verb, &o->model);
    if (code == SW_EXIT_DONE)
        code = sw_search_net_check_source(verb, &o->net, &from);
    if (code != SW_EXIT_DONE)
        return code;
    if (o->layer && !o->net.recipe)
        return sw_cli_usage(verb, "--layer needs --recipe");
    if (!o->net.recipe && o->common.arg_count != 1)
        return sw_cli_usage(verb, o->common.arg_count
                                      ? "one VECTORS.npy is indexed without --recipe"
                                      : "VECTORS.npy or --recipe is missing");
    if (!o->out)
        return sw_cli_usage(verb, "--out=FILE is missing");

    a->kind = sw_index_kind_find(o->kind ? o->kind : "exact");
    if (!a->kind)
        return sw_cli_usage(verb, "--kind=%s: must be exact, va, codes or mih", o->kind);
    if (o->metric && !sw_metric_parse(o->metric, &a->metric))
        return sw_cli_usage(verb, "--metric=%s: must be euclidean, cosine or dot", o->metric);
    if (o->bits > SW_CODE_MOST_BITS)
        return sw_cli_usage(verb, "--bits=%lld: must be 1 to %d", (long long)o->bits,
                            SW_CODE_MOST_BITS);
    if (o->seed && !a->kind->holds_codes)
        return sw_cli_usage(verb, "--seed is for kinds codes and mih");

    a->bits = (int)o->bits;
    a->seed = o->seed ? (uint64_t)o->seed : 1;
    return SW_EXIT_DONE;
}

static int read_arrays(const struct options *o, const struct sw_index_args *args,
                       struct sw_search_array *array, struct sw_err *err)
{
    const char *path = o->common.args[0];

    const bool encoded = o->model.model;

    return sw_search_array_read(array, path, encoded ? SW_METRIC_EUCLIDEAN : args->metric,
                                args->kind->holds_codes && !encoded, err);
}

/* Encodes what was read or computed by the model, if there is one; options for vectors are none for
 * codes. */
static int encode(const struct options *o, const struct sw_index_args *args,
                  struct sw_search_array *array, struct sw_err *err)
{
    const char *source = o->model.model ? o->model.model : o->common.args[0];

    int rc = sw_search_model_apply(&o->model, args->kind->holds_codes, args->threads, array, err);
    if (rc != SW_OK)
        return rc;
    if (o->metric && array->set.codes.count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--metric=%s: %s holds codes, which are compared by "
                          "their bits",
                          o->metric, source);
    if (o->seed && array->set.codes.count)
        return sw_err_set(err, SW_ERR_INVALID, "--seed: %s holds codes already", source);
    return o->model.model && array->set.vectors.count
               ? sw_vectors_check(&array->set.vectors, args->metric, "the values", err)
               : SW_OK;
}

/* The rows of the net, and without files the labels of its data. */
static int compute(const struct options *o, const struct sw_index_args *args,
                   struct sw_search_net *net, struct sw_search_array *array,
                   struct sw_search_labels *labels, struct sw_err *err)
{
    const struct sw_search_net_source from = source_of(o);

    int rc = sw_search_net_open(net, &o->net, &o->common, err);
    if (rc == SW_OK)
        rc = sw_search_net_vectors(net, o->layer, &from, args->metric, array, NULL, err);
    if (rc != SW_OK || !sw_search_net_uses_section(&from) || o->labels)
        return rc;

    rc = sw_search_net_labels(net, labels, err);
    return rc == SW_ERR_NOTFOUND ? SW_OK : rc;
}

static int run(void *options)
{
    const struct options *o = options;
    const int64_t began = sw_os()->monotonic_ns();
    struct sw_index_args args = {0};
    struct sw_search_net net = {0};
    struct sw_search_array array = {0};
    struct sw_search_labels labels = {0};
    struct sw_err err;

    int code = check_options(o, &args);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = sw_search_threads(o->threads, &args.threads, &err);
    if (rc == SW_OK)
        rc = o->net.recipe ? compute(o, &args, &net, &array, &labels, &err)
                           : read_arrays(o, &args, &array, &err);
    if (rc == SW_OK)
        rc = encode(o, &args, &array, &err);
    if (rc == SW_OK && o->labels)
        rc = sw_search_labels_read(&labels, o->labels, &err);

    args.set = array.set;
    args.labels = labels.owned ? &labels.labels : NULL;
    if (rc == SW_OK)
        rc = sw_index_write(&args, o->out, &err);

    code = rc == SW_OK ? show(o, (double)(sw_os()->monotonic_ns() - began) * 1e-9)
                       : sw_search_net_refuse(&net, rc, &err);
    sw_search_array_fini(&array);
    sw_search_labels_fini(&labels);
    sw_search_net_close(&net);
    return code;
}

const struct sw_verb sw_search_index = {
    .name = "index",
    .help = "build an index of vectors or codes",
    .typed = verb,
    .usage = "[OPTION]... --out=FILE VECTORS.npy\n"
             "[OPTION]... --out=FILE --recipe=RUN|RECIPE [FILE]...",
    .about = "Builds an index, which search query and search recall ask:\n"
             "  exact  the vectors alone, all of which are compared\n"
             "  va     a VA-file: the same answer, and few vectors are read (euclidean, cosine)\n"
             "  codes  binary codes, all of which are compared; those of vectors say on which\n"
             "         side of random hyperplanes they lie\n"
             "  mih    codes with multi-index hashing: the same answer, and few are "
             "compared\n" SW_SEARCH_NET_ABOUT "\n\n" SW_SEARCH_ARRAYS_ABOUT,
    .more = "The file appears only when it is complete.",
    .takes = SW_CLI_JSON | SW_CLI_QUIET | SW_SEARCH_NET_TAKES,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = -1,
    .arg_name = "VECTORS.npy",
    .run = run,
};
