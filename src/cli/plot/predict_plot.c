/* Collects the rows that `predict` computes and draws them at the end: as images, a confusion
 * matrix or a scatter plot. sw_predict_plot_begin decides which, from the shape of a row. The
 * contract is in cli/plot/predict_plot.h. */
#include "cli/plot/predict_plot.h"

#include "base/os.h"
#include "cli/plot/picture.h"
#include "recipe/recipe.h"
#include "ui/plot_pictures.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CLASSES = 1000, MOST_PICTURES = 256, CLOUD_W = 820, CLOUD_H = 700 };

const char *sw_predict_label_layer(const struct sw_recipe *recipe)
{
    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s))
        if (s->type[0] && sw_str_eq(s->type[0]->name, "input") &&
            sw_str_eq(sw_section_text(s, "field"), "label"))
            return s->name;

    return NULL;
}

/* ---- Labels -----------------------------------------------------------------------------------
 */

int sw_predict_plot_labels(struct sw_predict_plot *p, const struct sw_predict_info *info,
                           struct sw_err *err)
{
    int64_t per_row = 1;

    for (int i = 0; i < info->ndim; i++)
        per_row *= info->dim[i];
    if (per_row != 1)
        return SW_OK; /* several labels per row: no single color */

    p->labels = sw_calloc((size_t)info->rows + 1, sizeof *p->labels);
    return p->labels ? SW_OK : sw_err_nomem(err, "labels", (size_t)info->rows * sizeof *p->labels);
}

void sw_predict_plot_add_labels(struct sw_predict_plot *p, int64_t count, const float *values)
{
    for (int64_t i = 0; p->labels && i < count; i++)
        p->labels[p->label_count++] =
            values[i] >= 0 && values[i] < MOST_CLASSES ? (int)lroundf(values[i]) : -1;
}

/* ---- Rows -------------------------------------------------------------------------------------
 */

/* Whether a row has the size of an image of the data, with 1 or 3 channels. */
static bool are_pictures(const struct sw_predict_info *info, int64_t width)
{
    const int64_t *p = info->picture;
    return width > 2 && width == p[0] * p[1] * p[2] && (p[0] == 1 || p[0] == 3);
}

static int64_t picture_count(const struct sw_predict_plot *p)
{
    return p->rows < MOST_PICTURES ? p->rows : MOST_PICTURES;
}

static int begin_pictures(struct sw_predict_plot *p, struct sw_err *err)
{
    const size_t n = (size_t)(picture_count(p) * p->width);
    p->pictures = sw_calloc(n + 1, sizeof *p->pictures);
    return p->pictures ? SW_OK : sw_err_nomem(err, "images", n * sizeof *p->pictures);
}

static int begin_classes(struct sw_predict_plot *p, const struct sw_predict_info *info,
                         struct sw_err *err)
{
    const struct sw_lexicon *names = info->class_names;

    p->counts = sw_calloc((size_t)p->width * (size_t)p->width, sizeof *p->counts);
    if (names && names->count >= p->width)
        p->names = sw_calloc((size_t)p->width, sizeof *p->names);
    for (int c = 0; p->names && c < p->width; c++)
        p->names[c] = sw_lexicon_word(names, c, NULL);

    return p->counts ? SW_OK : sw_err_nomem(err, "rows of a plot", 0);
}

int sw_predict_plot_begin(struct sw_predict_plot *p, const struct sw_predict_info *info,
                          struct sw_err *err)
{
    int64_t width = 1;

    for (int i = 0; i < info->ndim; i++)
        width *= info->dim[i];
    p->width = (int)width;
    p->rows = info->rows;
    if (are_pictures(info, width))
        return begin_pictures(p, err);

    bool codes = width == 2 && (p->codes || !p->labels);
    if (!codes && (width < 2 || width > MOST_CLASSES))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "--plot: layer %s outputs %lld elements per row, which cannot be drawn: "
            "use a layer with 2 outputs (a scatter plot), 2 to %d classes (a confusion "
            "matrix), or as many outputs as an image of the data",
            info->layer, (long long)width, MOST_CLASSES);

    if (!codes && !p->labels)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "--plot: a confusion matrix needs data with a field `label`, one per row");

    if (!codes)
        return begin_classes(p, info, err);

    p->xy = sw_calloc((size_t)p->rows + 1, 2 * sizeof *p->xy);
    return p->xy ? SW_OK : sw_err_nomem(err, "rows of a plot", 0);
}

static int best_of(const float *row, int width)
{
    int best = 0;

    for (int i = 1; i < width; i++)
        if (row[i] > row[best])
            best = i;

    return best;
}

void sw_predict_plot_rows(struct sw_predict_plot *p, int64_t count, const float *values)
{
    for (int64_t r = 0; r < count && p->at < p->rows; r++, p->at++) {
        const float *row = values + r * p->width;
        int label = p->at < p->label_count ? p->labels[p->at] : -1;

        if (p->pictures) {
            if (p->at < picture_count(p))
                memcpy(p->pictures + p->at * p->width, row, (size_t)p->width * sizeof *row);
        } else if (p->xy) {
            p->xy[2 * p->at] = row[0];
            p->xy[2 * p->at + 1] = row[1];
        } else if (label >= 0 && label < p->width) {
            p->counts[label * p->width + best_of(row, p->width)]++;
        }
    }
}

/* ---- The picture ------------------------------------------------------------------------------
 */

static int draw_codes(const struct sw_predict_plot *p, const char *title, struct sw_err *err)
{
    struct sw_plot *plot = NULL;
    struct sw_plot_scatter s = {.xy = p->xy,
                                .labels = p->label_count == p->at ? p->labels : NULL,
                                .count = p->at,
                                .title = title};

    int rc = sw_plot_begin(&plot, p->path, sw_picture_format_of(p->path), CLOUD_W, CLOUD_H, err);
    if (rc != SW_OK)
        return rc;

    sw_plot_scatter(plot, (struct sw_plot_box){0, 0, CLOUD_W, CLOUD_H}, &s);
    return sw_plot_end(plot, err);
}

static int draw_confusion(const struct sw_predict_plot *p, const char *title, struct sw_err *err)
{
    struct sw_plot *plot = NULL;
    struct sw_plot_confusion c = {p->counts, p->width, title, p->names};
    struct sw_plot_size size = sw_plot_confusion_size(&c);

    int rc =
        sw_plot_begin(&plot, p->path, sw_picture_format_of(p->path), (int)size.w, (int)size.h, err);
    if (rc != SW_OK)
        return rc;

    sw_plot_confusion(plot, (struct sw_plot_box){0, 0, size.w, size.h}, &c);
    return sw_plot_end(plot, err);
}

static int draw_pictures(const struct sw_predict_plot *p, const struct sw_predict_info *info,
                         struct sw_err *err)
{
    char title[256];
    const int count = (int)picture_count(p);

    snprintf(title, sizeof title, "%.100s of %.60s: the first %d of %lld", info->layer,
             info->split ? info->split : "arrays", count, (long long)p->at);
    return sw_picture_draw_tiles(p->path,
                                 &(struct sw_plot_tiles){.values = p->pictures,
                                                         .count = count,
                                                         .channels = (int)info->picture[0],
                                                         .h = (int)info->picture[1],
                                                         .w = (int)info->picture[2],
                                                         .title = title},
                                 err);
}

int sw_predict_plot_draw(const struct sw_predict_plot *p, const struct sw_predict_info *info,
                         struct sw_err *err)
{
    char title[256];
    int64_t right = 0, all = 0;

    if (p->pictures)
        return draw_pictures(p, info, err);

    for (int i = 0; p->counts && i < p->width * p->width; i++) {
        all += p->counts[i];
        right += i / p->width == i % p->width ? p->counts[i] : 0;
    }

    if (p->xy)
        snprintf(title, sizeof title, "%.100s of %.60s, %lld rows", info->layer,
                 info->split ? info->split : "arrays", (long long)p->at);
    else
        snprintf(title, sizeof title, "%.100s of %.60s: %lld of %lld correct (%.2f %%)",
                 info->layer, info->split ? info->split : "arrays", (long long)right,
                 (long long)all, all ? 100.0 * (double)right / (double)all : 0);

    return p->xy ? draw_codes(p, title, err) : draw_confusion(p, title, err);
}

void sw_predict_plot_fini(struct sw_predict_plot *p)
{
    sw_free(p->labels);
    sw_free(p->xy);
    sw_free(p->counts);
    sw_free(p->pictures);
    sw_free(p->names);
    *p = (struct sw_predict_plot){0};
}
