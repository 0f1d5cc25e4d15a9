/* Draws the filters of a layer as images: the patterns that its weights respond to. */
#include "base/os.h"
#include "cli/checkpoint/values.h"
#include "cli/checkpoint/weights_verb.h"
#include "cli/plot/picture.h"
#include "ui/plot_pictures.h"
#include <math.h>
#include <string.h>

enum { MOST_TILES = 1024 };

/* Views a tensor as `count` images of 1 or 3 channels; returns false if that is impossible. The
 * weight [M, C, Kh, Kw] of a convolution has one image for each output, with only the first channel
 * if C is neither 1 nor 3. So has the weight [M, n] of an inner product if n is a square or three
 * times a square. */
static bool as_tiles(const struct sw_st_entry *e, struct sw_plot_tiles *t)
{
    if (e->ndim == 4 && e->shape[2] * e->shape[3] > 1) {
        t->count = (int)e->shape[0];
        t->channels = e->shape[1] == 3 ? 3 : 1;
        t->h = (int)e->shape[2];
        t->w = (int)e->shape[3];
        return true;
    }

    if (e->ndim != 2)
        return false;

    for (int channels = 1; channels <= 3; channels += 2) {
        int side = (int)lround(sqrt((double)e->shape[1] / channels));
        if (e->shape[1] != (int64_t)channels * side * side || side < 4)
            continue;

        *t = (struct sw_plot_tiles){
            .count = (int)e->shape[0], .channels = channels, .h = side, .w = side};
        return true;
    }

    return false;
}

static bool is_weight(const struct sw_st_entry *e)
{
    return sw_str_ends(e->name, ".weight") && !sw_str_starts(e->name, "updater.") &&
           !sw_str_starts(e->name, "state.");
}

/* How likely the tensor is the first layer; smaller is more likely. A layer that reads images of 1
 * or 3 channels comes before those that read activations. */
static int rank(const struct sw_st_entry *e)
{
    if (e->ndim == 4)
        return e->shape[1] == 3 || e->shape[1] == 1 ? 0 : 2;
    return 1;
}

static const struct sw_st_entry *choose(const struct sw_st_file *f, const char *name)
{
    const struct sw_st_entry *best = NULL;
    struct sw_plot_tiles t;

    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        if (name ? !sw_str_eq(e->name, name) : !is_weight(e) || !as_tiles(e, &t))
            continue;

        if (!best || rank(e) < rank(best) ||
            (rank(e) == rank(best) && strcmp(e->name, best->name) < 0))
            best = e;
    }

    return best;
}

/* Reads the filters as floats. Of a filter with more than three channels only the first channel is
 * read. */
static int read_tiles(const struct sw_st_file *f, const struct sw_st_entry *e,
                      struct sw_plot_tiles *t, float **out, struct sw_err *err)
{
    size_t tile = (size_t)t->channels * (size_t)t->h * (size_t)t->w;
    size_t stored = e->ndim == 4 ? (size_t)e->shape[1] * (size_t)t->h * (size_t)t->w : tile;
    struct sw_values v = {0};
    size_t at = 0;

    *out = sw_calloc((size_t)t->count * tile, sizeof **out);
    if (!*out)
        return sw_err_nomem(err, "filters", (size_t)t->count * tile * sizeof **out);

    int rc = sw_values_begin(&v, f, e, err);
    while (rc == SW_OK && (rc = sw_values_next(&v, err)) == SW_OK && v.n)
        for (size_t i = 0; i < v.n; i++, at++)
            if (at / stored < (size_t)t->count && at % stored < tile)
                (*out)[at / stored * tile + at % stored] = (float)v.piece[i];

    sw_values_fini(&v);
    t->values = *out;
    return rc;
}

int sw_weights_plot(const struct sw_weights_options *o, const struct sw_weights_file *file,
                    struct sw_bytes *out)
{
    struct sw_plot_tiles t = {0};
    struct sw_err err;
    float *values = NULL;
    char title[256];
    int rc = SW_OK;
    const struct sw_st_entry *e = choose(file->f, o->tensor);

    if (!e && o->tensor)
        rc = sw_err_set(&err, SW_ERR_NOTFOUND, "%s has no tensor %s", file->path, o->tensor);
    else if (!e)
        rc =
            sw_err_set(&err, SW_ERR_INVALID,
                       "%s has no weights that can be drawn as images: those of a convolution with "
                       "kernels above 1x1, or of an inner product that reads square images",
                       file->path);
    else if (!as_tiles(e, &t))
        rc = sw_err_set(&err, SW_ERR_INVALID, "%s cannot be drawn as images", e->name);

    if (rc == SW_OK) {
        int all = t.count;

        t.count = all > MOST_TILES ? MOST_TILES : all;
        snprintf(title, sizeof title, "%.100s: %s%d filters of %dx%dx%d", e->name,
                 all > t.count ? "the first " : "", t.count, t.channels, t.h, t.w);
        t.title = title;
        rc = read_tiles(file->f, e, &t, &values, &err);
    }

    if (rc == SW_OK)
        rc = sw_picture_draw_tiles(o->plot, &t, &err);
    sw_free(values);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    if (!o->common.quiet)
        sw_bytes_printf(out, "%s: %s\n", o->plot, title);
    return sw_cli_print(out);
}
