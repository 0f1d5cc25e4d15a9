/* singa-ws search project: draws vectors as points in the plane of their principal components. */
#include "base/json.h"
#include "base/os.h"
#include "cli/plot/picture.h"
#include "cli/search/net.h"
#include "cli/search/verb.h"
#include "search/plane.h"
#include "tensor/npy.h"
#include <string.h>

static const char verb[] = "search project";

enum { SETS = 2, UNSET = -1, USUAL_PAIRS = 25, MOST_PAIRS = 10000, WIDTH = 900, HEIGHT = 700 };

struct options {
    struct sw_cli_common common;
    const char *plot, *output, *labels, *names;
    struct sw_cli_list layers;
    struct sw_search_net_options net;
    int64_t pairs;
};

static const struct sw_cli_option options_of_project[] = {
    SW_CLI_TEXT_OPTION(struct options, plot, "plot", "FILE", "draw to FILE.png or FILE.svg"),
    SW_CLI_TEXT_OPTION(struct options, output, "output", "XY.npy",
                       "write the points, float32 [rows, 2]; those of the second set come last"),
    SW_CLI_TEXT_OPTION(struct options, labels, "labels", "L.npy",
                       "labels of the rows, which become colors; default: those of the index, or "
                       "with --recipe of the data"),
    SW_CLI_TEXT_OPTION(struct options, names, "class-names", "FILE",
                       "file with the name of a class in each line; default: those of the net"),
    SW_CLI_INT_OPTION(struct options, pairs, "pairs", "N", 0,
                      "of two sets: connect N rows with their partners; default: 25"),
    SW_SEARCH_NET_ROWS(struct options, net, SW_SEARCH_EVAL_SPLIT),
    SW_CLI_LIST_OPTION(struct options, layers, "layer", "LAYER",
                       "with --recipe: layer to project, once or twice; default: the two that its "
                       "loss compares"),
    {0},
};

/* One set of vectors: of an array, an index, or a layer. */
struct set {
    struct sw_vectors vectors;
    const char *name;
    struct sw_index index; /* or */
    struct sw_search_array array;
    float *bits; /* owned: codes as vectors of 0 and 1 */
};

struct view {
    struct sw_search_net net;
    struct set set[SETS];
    int sets;
    int64_t rows;  /* of all sets */
    int64_t pairs; /* that are connected */
    struct sw_search_labels read;
    struct sw_search_lines names;
    int *colors; /* owned [rows]; NULL: no labels */
    float *xy;   /* owned [rows][2] */
    double share[2];
};

/* ---- Read -------------------------------------------------------------------------------------
 */

static int unpack_codes(struct set *set, const struct sw_codes *codes, struct sw_err *err)
{
    set->bits = sw_calloc((size_t)codes->count, (size_t)codes->bits * sizeof *set->bits);
    if (!set->bits)
        return sw_err_nomem(err, "codes", (size_t)codes->count * (size_t)codes->bits);

    for (int64_t row = 0; row < codes->count; row++)
        for (int b = 0; b < codes->bits; b++)
            set->bits[row * codes->bits + b] =
                (float)(codes->at[row * codes->words + b / 64] >> (b % 64) & 1);
    set->vectors = (struct sw_vectors){set->bits, codes->count, codes->bits};
    return SW_OK;
}

static int read_set(struct set *set, const char *path, struct sw_err *err)
{
    const char *slash = strrchr(path, '/');

    set->name = slash ? slash + 1 : path;

    int rc = sw_str_ends(path, ".npy")
                 ? sw_search_array_read(&set->array, path, SW_METRIC_EUCLIDEAN, false, err)
                 : sw_index_open(&set->index, path, err);
    if (rc != SW_OK)
        return rc;

    set->vectors = set->index.has_vectors ? set->index.vectors : set->array.set.vectors;
    return set->index.codes.count && !set->index.has_vectors
               ? unpack_codes(set, &set->index.codes, err)
               : SW_OK;
}

static int read_sets(struct view *v, const struct options *o, struct sw_err *err)
{
    int rc = SW_OK;

    v->sets = o->common.arg_count;
    for (int i = 0; rc == SW_OK && i < v->sets; i++)
        rc = read_set(&v->set[i], o->common.args[i], err);
    return rc;
}

static int compute_sets(struct view *v, const struct options *o, struct sw_err *err)
{
    int rc = sw_search_net_open(&v->net, &o->net, &o->common, err);
    if (rc == SW_OK && !o->layers.count)
        rc = sw_search_net_pair(&v->net, err);
    if (rc != SW_OK)
        return rc;

    v->sets = o->layers.count ? o->layers.count : SETS;
    for (int i = 0; rc == SW_OK && i < v->sets; i++) {
        struct set *set = &v->set[i];

        set->name = o->layers.count ? o->layers.items[i] : v->net.pair[i];
        rc = sw_search_net_vectors(&v->net, set->name, NULL, SW_METRIC_EUCLIDEAN, &set->array, NULL,
                                   err);
        set->vectors = set->array.set.vectors;
    }

    return rc;
}

/* ---- Colors -----------------------------------------------------------------------------------
 */

/* The first label of a row; -1: it has none. */
static int first_label(const struct sw_row_labels *l, int64_t row)
{
    for (int c = 0; !l->single && c < l->classes; c++)
        if (sw_row_has_label(l, row, c))
            return c;
    return l->single ? l->single[row] : -1;
}

static int find_labels(struct view *v, const struct options *o, const struct sw_row_labels **out,
                       struct sw_err *err)
{
    int rc = SW_OK;

    *out = NULL;
    if (o->labels)
        rc = sw_search_labels_read(&v->read, o->labels, err);
    else if (o->net.recipe)
        rc = sw_search_net_labels(&v->net, &v->read, err);
    rc = !o->labels && rc == SW_ERR_NOTFOUND ? SW_OK : rc;

    if (rc == SW_OK && v->read.owned)
        *out = &v->read.labels;
    for (int i = 0; rc == SW_OK && !*out && i < v->sets; i++)
        if (v->set[i].index.has_labels)
            *out = &v->set[i].index.labels;
    return rc;
}

static int find_colors(struct view *v, const struct options *o, struct sw_err *err)
{
    const struct sw_row_labels *labels;

    int rc = find_labels(v, o, &labels, err);
    if (rc == SW_OK && !labels && o->names)
        rc = sw_err_set(err, SW_ERR_INVALID, "--class-names=%s: the rows have no labels", o->names);
    if (rc != SW_OK || (!labels && v->sets == 1))
        return rc;

    v->colors = sw_calloc((size_t)v->rows, sizeof *v->colors);
    if (!v->colors)
        return sw_err_nomem(err, "colors", (size_t)v->rows * sizeof *v->colors);

    int64_t at = 0;
    for (int i = 0; i < v->sets; i++) {
        const int64_t count = v->set[i].vectors.count;

        if (labels && labels->count != count)
            return sw_err_set(err, SW_ERR_INVALID,
                              "%lld labels of %lld rows in %s: each row needs one",
                              (long long)labels->count, (long long)count, v->set[i].name);
        for (int64_t row = 0; row < count; row++)
            v->colors[at++] = labels ? first_label(labels, row) : i;
        if (!labels)
            rc = sw_search_lines_add(&v->names, v->set[i].name, strlen(v->set[i].name), err);
        if (rc != SW_OK)
            return rc;
    }

    return labels && o->names ? sw_search_lines_read(&v->names, o->names, err) : SW_OK;
}

/* ---- The view ---------------------------------------------------------------------------------
 */

static int project(struct view *v, const struct options *o, struct sw_err *err)
{
    struct sw_vectors sets[SETS];

    int rc = o->net.recipe ? compute_sets(v, o, err) : read_sets(v, o, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < v->sets; i++) {
        sets[i] = v->set[i].vectors;
        v->rows += sets[i].count;
    }

    rc = find_colors(v, o, err);
    if (rc != SW_OK)
        return rc;

    v->xy = sw_calloc((size_t)v->rows, 2 * sizeof *v->xy);
    return v->xy ? sw_plane_project(sets, v->sets, v->xy, v->share, err)
                 : sw_err_nomem(err, "points", (size_t)v->rows * 2 * sizeof *v->xy);
}

/* Counts the rows whose partners are shown, evenly spread. */
static int count_pairs(struct view *v, const struct options *o, struct sw_err *err)
{
    const int64_t rows = v->set[0].vectors.count;
    const bool paired = v->sets == SETS && v->set[1].vectors.count == rows;
    const int64_t pairs = o->pairs == UNSET ? USUAL_PAIRS : o->pairs;

    if (!paired && o->pairs > 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--pairs=%lld: pairs are rows of two sets of the same size",
                          (long long)o->pairs);
    v->pairs = !paired ? 0 : pairs < rows ? pairs : rows;
    return SW_OK;
}

static int draw(const struct view *v, const struct options *o, struct sw_err *err)
{
    const struct sw_search_lines *names = v->names.count ? &v->names : &v->net.class_names;
    const int64_t pairs = v->pairs, rows = v->set[0].vectors.count;
    const char *name[SETS] = {v->set[0].name, v->set[1].name};
    struct sw_plot *plot = NULL;
    char title[256];

    const char **of_class = sw_calloc((size_t)names->count + 1, sizeof *of_class);
    int64_t(*links)[2] = sw_calloc((size_t)pairs + 1, sizeof *links);
    int rc = of_class && links ? SW_OK : sw_err_nomem(err, "a plot", 0);

    for (int i = 0; rc == SW_OK && i < names->count; i++)
        of_class[i] = sw_search_line(names, i);
    for (int64_t i = 0; rc == SW_OK && i < pairs; i++) {
        links[i][0] = i * rows / pairs;
        links[i][1] = links[i][0] + rows;
    }

    snprintf(title, sizeof title, "%.60s%s%.60s: two principal components, %.0f %% and %.0f %%",
             name[0], name[1] ? " and " : "", name[1] ? name[1] : "", 100 * v->share[0],
             100 * v->share[1]);
    const struct sw_plot_scatter s = {.xy = v->xy,
                                      .labels = v->colors,
                                      .count = v->rows,
                                      .title = title,
                                      .names = of_class,
                                      .name_count = names->count,
                                      .squares = v->set[1].vectors.count,
                                      .kinds = {name[1] ? name[0] : NULL, name[1]},
                                      .links = (const int64_t(*)[2])links,
                                      .link_count = (int)pairs};

    if (rc == SW_OK)
        rc = sw_plot_begin(&plot, o->plot, sw_picture_format_of(o->plot), WIDTH, HEIGHT, err);
    if (rc == SW_OK) {
        sw_plot_scatter(plot, (struct sw_plot_box){0, 0, WIDTH, HEIGHT}, &s);
        rc = sw_plot_end(plot, err);
    }

    sw_free(of_class);
    sw_free(links);
    return rc;
}

/* ---- The report -------------------------------------------------------------------------------
 */

static void print_text(struct sw_bytes *out, const struct view *v, const struct options *o)
{
    for (int i = 0; i < v->sets; i++)
        sw_bytes_printf(out, "rows         %lld of %d numbers, %s\n",
                        (long long)v->set[i].vectors.count, v->set[i].vectors.dims, v->set[i].name);
    sw_bytes_printf(out, "variance     %.2f %% and %.2f %% along the two axes\n", 100 * v->share[0],
                    100 * v->share[1]);
    if (o->plot)
        sw_bytes_printf(out, "plot         %s\n", o->plot);
    if (o->output)
        sw_bytes_printf(out, "output       %s: %lldx2\n", o->output, (long long)v->rows);
}

static void print_json(struct sw_bytes *out, const struct view *v, const struct options *o)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_int(&w, "rows", v->rows);
    sw_json_int(&w, "dims", v->set[0].vectors.dims);
    sw_json_open_array(&w, "variance");
    sw_json_real(&w, NULL, v->share[0]);
    sw_json_real(&w, NULL, v->share[1]);
    sw_json_close_array(&w);
    sw_json_string(&w, "plot", o->plot);
    sw_json_string(&w, "output", o->output);
    sw_cli_json_end(&w);
}

/* ---- The sub-verb -----------------------------------------------------------------------------
 */

static int check_options(const struct options *o)
{
    if (sw_search_net_check(verb, &o->net, &o->common) != SW_EXIT_DONE)
        return SW_EXIT_USAGE;
    if (o->layers.count && !o->net.recipe)
        return sw_cli_usage(verb, "--layer needs --recipe");
    if (o->layers.count > SETS)
        return sw_cli_usage(verb, "--layer: at most two layers");
    if (o->net.recipe && o->common.arg_count)
        return sw_cli_usage(verb, "--recipe and files are mutually exclusive");
    if (!o->net.recipe && !o->common.arg_count)
        return sw_cli_usage(verb, "VECTORS.npy, INDEX or --recipe is missing");
    if (o->pairs > MOST_PAIRS)
        return sw_cli_usage(verb, "--pairs=%lld: must be 0 to %d", (long long)o->pairs, MOST_PAIRS);
    if (!o->plot && !o->output)
        return sw_cli_usage(verb, "--plot=FILE or --output=XY.npy is missing");
    if (!o->plot && (o->pairs != UNSET || o->names))
        return sw_cli_usage(verb, "--%s needs --plot", o->names ? "class-names" : "pairs");
    return !o->plot || sw_picture_is_named(verb, o->plot) ? SW_EXIT_DONE : SW_EXIT_USAGE;
}

static void close_all(struct view *v)
{
    for (int i = 0; i < SETS; i++) {
        sw_index_close(&v->set[i].index);
        sw_search_array_fini(&v->set[i].array);
        sw_free(v->set[i].bits);
    }

    sw_search_net_close(&v->net);
    sw_search_labels_fini(&v->read);
    sw_search_lines_fini(&v->names);
    sw_free(v->colors);
    sw_free(v->xy);
}

static int run(void *options)
{
    const struct options *o = options;
    struct view v = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = project(&v, o, &err);
    if (rc == SW_OK)
        rc = count_pairs(&v, o, &err);
    if (rc == SW_OK && o->output)
        rc = sw_npy_write(o->output, SW_F32, 2, (const int64_t[]){v.rows, 2}, v.xy, &err);
    if (rc == SW_OK && o->plot)
        rc = draw(&v, o, &err);
    if (rc == SW_OK && o->common.json)
        print_json(&out, &v, o);
    else if (rc == SW_OK && !o->common.quiet)
        print_text(&out, &v, o);

    code = rc == SW_OK ? sw_cli_print(&out) : sw_search_net_refuse(&v.net, rc, &err);
    close_all(&v);
    sw_bytes_fini(&out);
    return code;
}

static const struct options defaults = {.pairs = UNSET};

const struct sw_verb sw_search_project = {
    .name = "project",
    .help = "draw vectors as points in the plane of their principal components",
    .typed = verb,
    .usage = "[OPTION]... --plot=FILE INDEX|X.npy [INDEX|Y.npy]\n"
             "[OPTION]... --plot=FILE --recipe=RUN|RECIPE",
    .about = "Projects vectors, or the bits of codes, on the two axes along which they vary most,\n"
             "and draws a point for each row in the color of its label. Two sets share the axes,\n"
             "such as codes of images and of texts; row i of one belongs to row i of the other,\n"
             "and lines connect some of these pairs.\n"
             "With --recipe a trained net computes the vectors, from a section of its data.\n\n"
             "" SW_SEARCH_ARRAYS_ABOUT,
    .takes = SW_CLI_JSON | SW_CLI_QUIET | SW_SEARCH_NET_TAKES,
    SW_CLI_OPTIONS(struct options, options_of_project),
    .defaults = &defaults,
    .max_args = SETS,
    .arg_name = "VECTORS.npy",
    .run = run,
};
