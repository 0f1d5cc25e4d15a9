/* Draws the confusion matrix and the worst records of a report by class, and predicted values. */
#include "cli/plot/class_plot.h"
#include "base/os.h"
#include "cli/plot/picture.h"
#include "ui/plot_pictures.h"
#include <stdio.h>
#include <string.h>

enum { CAPTION = 96, LINES = 3, MOST_CLOUDS = 9, CLOUD = 560 /* pixels of a side */ };

int sw_draw_confusion(const char *path, const struct sw_class_report *r, const char *split,
                      struct sw_err *err)
{
    const struct sw_class_score all = sw_class_report_macro(r);
    const bool named = r->names && r->names[r->classes - 1];
    struct sw_plot *plot = NULL;
    char title[256];

    if (r->sets)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "--plot draws a confusion matrix, but records of data %s can have several "
            "labels: use --report",
            split);

    snprintf(title, sizeof title, "%.60s: %lld of %lld correct (%.2f %%)", split,
             (long long)all.right, (long long)all.count,
             all.count ? 100 * (double)all.right / (double)all.count : 0);

    const struct sw_plot_confusion c = {.counts = r->counts,
                                        .classes = (int)r->classes,
                                        .title = title,
                                        .names = named ? (const char *const *)r->names : NULL};
    const struct sw_plot_size size = sw_plot_confusion_size(&c);

    int rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), (int)size.w, (int)size.h, err);
    if (rc != SW_OK)
        return rc;

    sw_plot_confusion(plot, (struct sw_plot_box){0, 0, size.w, size.h}, &c);
    return sw_plot_end(plot, err);
}

/* Fills the lines below an image: the prediction, the truth, and the file or the record. */
static void caption(const struct sw_class_report *r, int i, char line[LINES][CAPTION])
{
    const struct sw_class_sample *w = &r->worst[i];
    const char *slash = strrchr(w->where, '/');
    char text[24];

    snprintf(line[0], CAPTION, "%.60s %.1f %%", sw_class_report_name(r, w->predicted, text),
             100 * w->of_predicted);
    snprintf(line[1], CAPTION, "true: %.60s %.1f %%", sw_class_report_name(r, w->label, text),
             100 * w->of_label);
    if (*w->where)
        snprintf(line[2], CAPTION, "%.90s", slash ? slash + 1 : w->where);
    else
        snprintf(line[2], CAPTION, "record %lld", (long long)w->record);
}

static int draw_sheet(const char *path, const struct sw_plot_sheet *s, struct sw_err *err)
{
    const struct sw_plot_size size = sw_plot_sheet_size(s);
    struct sw_plot *plot = NULL;

    int rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), (int)size.w, (int)size.h, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_plot_sheet(plot, (struct sw_plot_box){0, 0, size.w, size.h}, s, err);
    if (rc == SW_OK)
        return sw_plot_end(plot, err);

    sw_plot_abandon(plot);
    return rc;
}

int sw_draw_worst(const char *path, const struct sw_class_report *r, const char *split,
                  struct sw_err *err)
{
    const size_t lines = (size_t)r->worst_count * LINES;
    char title[128];

    if (!r->pictures)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--plot with --worst draws images, but data %s has none of 1 or 3 "
                          "channels: leave out --worst for the confusion matrix",
                          split);

    char(*text)[CAPTION] = sw_calloc(lines + 1, sizeof *text);
    const char **captions = sw_calloc(lines + 1, sizeof *captions);
    int rc = text && captions ? SW_OK : sw_err_nomem(err, "captions", lines * sizeof *text);

    for (int i = 0; i < r->worst_count && rc == SW_OK; i++)
        caption(r, i, text + (size_t)i * LINES);
    for (size_t i = 0; i < lines && rc == SW_OK; i++)
        captions[i] = text[i];

    snprintf(title, sizeof title, "%.60s: highest loss, prediction above truth", split);
    const struct sw_plot_sheet s = {.tiles = {.values = r->pictures,
                                              .count = r->worst_count,
                                              .channels = (int)r->picture[0],
                                              .h = (int)r->picture[1],
                                              .w = (int)r->picture[2],
                                              .title = title},
                                    .captions = captions,
                                    .lines = LINES};
    if (rc == SW_OK)
        rc = draw_sheet(path, &s, err);
    sw_free(captions);
    sw_free(text);

    return rc;
}

/* Sets xy to target and prediction of value c of all rows. */
static void take_points(const struct sw_value_report *r, int64_t c, float *xy)
{
    for (int64_t i = 0; i < r->rows; i++) {
        const float *row = r->points + 2 * i * r->columns;
        xy[2 * i] = row[c];
        xy[2 * i + 1] = row[r->columns + c];
    }
}

int sw_draw_values(const char *path, const struct sw_value_report *r, const char *split,
                   struct sw_err *err)
{
    const int n = (int)r->columns, across = n < 3 ? n : 3, down = (n + 2) / 3;
    struct sw_plot *plot = NULL;

    if (r->columns > MOST_CLOUDS)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--plot draws a scatter plot of each predicted value, but layer %s "
                          "compares %lld of them: the limit is %d",
                          r->layer, (long long)r->columns, MOST_CLOUDS);

    float *xy = sw_calloc((size_t)r->rows + 1, 2 * sizeof *xy);
    int rc = xy ? sw_plot_begin(&plot, path, sw_picture_format_of(path), across * CLOUD,
                                down * CLOUD, err)
                : sw_err_nomem(err, "points", (size_t)r->rows * 2 * sizeof *xy);

    for (int c = 0; c < n && rc == SW_OK; c++) {
        char title[160], number[24] = "";

        if (n > 1)
            snprintf(number, sizeof number, " %d", c + 1);
        snprintf(title, sizeof title, "%.60s, %lld records: prediction%s over target", split,
                 (long long)r->rows, number);
        take_points(r, c, xy);
        sw_plot_scatter(plot, (struct sw_plot_box){c % 3 * CLOUD, c / 3 * CLOUD, CLOUD, CLOUD},
                        &(struct sw_plot_scatter){
                            .xy = xy, .count = r->rows, .title = title, .diagonal = true});
    }
    sw_free(xy);

    return rc == SW_OK ? sw_plot_end(plot, err) : rc;
}
