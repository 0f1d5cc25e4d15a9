/* Draws queries beside what was found for them. Reading order: lists, thumbnails, labels, the
 * sheet. The contract is in cli/search/sheet.h. */
#include "cli/search/sheet.h"

#include "base/os.h"
#include "cli/plot/picture.h"
#include "data/picture.h"
#include "data/picture_files.h"
#include "ui/plot_results.h"
#include <string.h>

enum { MOST_QUERIES = 40, MOST_NEIGHBORS = 20, SIDE = SW_PLOT_THUMBNAIL, NOTE = 48 };

/* The images and texts of the index's rows, or of queries. */
struct side {
    struct sw_search_lines pictures, texts;
    const char *list; /* of pictures, whose folder their paths are relative to; or NULL */
    const char *name; /* "query" */
};

struct sheet {
    const struct sw_search_ask *s;
    struct side row, query;
    const struct sw_row_labels *labels; /* of queries; NULL: unknown */
    struct sw_search_labels read;
    int queries, neighbors;
    int64_t right, judged; /* results that share a label with their query, and all of these */
    struct sw_plot_cell *cells;
    char (*text)[NOTE]; /* of cells: notes */
    uint8_t *pixels;    /* of cells: SIDE * SIDE * 3 bytes each */
    struct sw_decoder *decoder;
};

/* ---- Options ----------------------------------------------------------------------------------
 */

int sw_search_sheet_check(const char *verb, const struct sw_search_sheet_options *o)
{
    const char *first = o->pictures         ? "--pictures"
                        : o->texts          ? "--texts"
                        : o->query_pictures ? "--query-pictures"
                        : o->query_texts    ? "--query-texts"
                        : o->query_labels   ? "--query-labels"
                                            : NULL;

    if (!o->file)
        return first ? sw_cli_usage(verb, "%s needs --sheet", first) : SW_EXIT_DONE;
    if (!sw_picture_is_named_by(verb, "--sheet", o->file))
        return SW_EXIT_USAGE;
    return o->pictures || o->texts
               ? SW_EXIT_DONE
               : sw_cli_usage(verb, "--sheet needs --pictures=LIST or --texts=LIST, which say what "
                                    "the indexed rows are");
}

/* ---- Lists ------------------------------------------------------------------------------------
 */

static int read_list(struct sw_search_lines *l, const char *path, const char *what, int64_t count,
                     struct sw_err *err)
{
    int rc = path ? sw_search_lines_read(l, path, err) : SW_OK;

    if (rc == SW_OK && path && l->count != count)
        rc = sw_err_set(err, SW_ERR_INVALID, "%s: %d lines, expected %lld, one for each %s", path,
                        l->count, (long long)count, what);
    return rc;
}

static int read_lists(struct side *side, const char *pictures, const char *texts, int64_t count,
                      struct sw_err *err)
{
    side->list = pictures;

    int rc = read_list(&side->pictures, pictures, side->name, count, err);
    return rc == SW_OK ? read_list(&side->texts, texts, side->name, count, err) : rc;
}

static void side_fini(struct side *side)
{
    sw_search_lines_fini(&side->pictures);
    sw_search_lines_fini(&side->texts);
}

/* What lists do not say comes from the queries themselves. */
static const char *query_picture(const struct sheet *sh, const struct sw_search_sheet_queries *q,
                                 int64_t i)
{
    const char *file = sw_search_line(&q->files, i);

    if (sh->query.list)
        return sw_search_line(&sh->query.pictures, i);
    return file && sw_is_picture_name(file) ? file : NULL;
}

static const char *query_text(const struct sheet *sh, const struct sw_search_sheet_queries *q,
                              int64_t i)
{
    const char *text = sw_search_line(&sh->query.texts, i);

    return text ? text : sw_search_line(&q->texts, i);
}

/* ---- Thumbnails -------------------------------------------------------------------------------
 */

/* The mean of the pixels that a pixel of the thumbnail covers. */
static void shrink(const struct sw_pixels *from, uint8_t *rgb, int w, int h)
{
    const unsigned char *data = from->data;

    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) {
                const int64_t top = y * from->height / h, bottom = (y + 1) * from->height / h;
                const int64_t left = x * from->width / w, right = (x + 1) * from->width / w;
                int64_t sum = 0;

                for (int64_t i = top; i < bottom; i++)
                    for (int64_t j = left; j < right; j++)
                        sum += data[c * from->channel_step + i * from->row_step +
                                    j * from->pixel_step];
                rgb[3 * (y * w + x) + c] = (uint8_t)(sum / ((bottom - top) * (right - left)));
            }
}

/* Decodes an image into a cell; small ones keep their size. */
static int decode(struct sheet *sh, const void *bytes, size_t count, struct sw_plot_cell *cell,
                  uint8_t *rgb, struct sw_err *err)
{
    const struct sw_picture file = {.encoded = true, .data = bytes, .bytes = count};
    struct sw_picture_head head;
    struct sw_pixels pixels;
    int64_t height, width;

    int rc = sw_decoder_open(sh->decoder, &file, &head, err);
    if (rc != SW_OK)
        return rc;

    const int64_t longer = head.width > head.height ? head.width : head.height;
    const int64_t side = longer < SIDE ? longer : SIDE;
    const int w = (int)(head.width * side / longer), h = (int)(head.height * side / longer);

    cell->w = w > 0 ? w : 1;
    cell->h = h > 0 ? h : 1;
    sw_decoder_shrink(sh->decoder, cell->h, cell->w, &height, &width);
    rc = sw_decoder_read(sh->decoder, 3, (struct sw_picture_part){0, 0, height, width}, &pixels,
                         err);
    if (rc != SW_OK)
        return rc;

    shrink(&pixels, rgb, cell->w, cell->h);
    cell->rgb = rgb;
    return SW_OK;
}

/* The path of a picture: the first column of a line, relative to the folder of the list. */
static char *path_of(const char *list, const char *line)
{
    const char *slash = list ? strrchr(list, '/') : NULL;
    const int length = (int)strcspn(line, "\t");

    if (!slash || *line == '/')
        return sw_format("%.*s", length, line);
    return sw_format("%.*s%.*s", (int)(slash - list) + 1, list, length, line);
}

static int load(struct sheet *sh, const char *list, const char *line, struct sw_plot_cell *cell,
                uint8_t *rgb, struct sw_err *err)
{
    char *bytes = NULL, *path = path_of(list, line);
    size_t count = 0;
    if (!path)
        return sw_err_nomem(err, "the path of an image", strlen(line));

    int rc = sw_os_read_file(path, SW_PICTURE_MAX_BYTES, &bytes, &count, err);
    if (rc == SW_OK) {
        rc = decode(sh, bytes, count, cell, rgb, err);
        rc = rc == SW_OK ? rc : sw_err_prefix(err, rc, "%s", path);
    }

    sw_free(bytes);
    sw_free(path);
    return rc;
}

/* ---- Labels -----------------------------------------------------------------------------------
 */

static int find_labels(struct sheet *sh, const struct sw_search_sheet_options *o,
                       const struct sw_search_sheet_queries *q, struct sw_err *err)
{
    const struct sw_row_labels *of_rows = &sh->s->index.labels;

    int rc = o->query_labels ? sw_search_labels_read(&sh->read, o->query_labels, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    const struct sw_row_labels *l = o->query_labels ? &sh->read.labels : &q->labels.labels;
    if (l->count == 0 || (!o->query_labels && !sh->s->index.has_labels))
        return SW_OK;

    const char *what = o->query_labels ? o->query_labels : "the section";
    if (!sh->s->index.has_labels)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--query-labels: the index has no labels: build it with --labels");
    if (l->count != sh->s->count)
        return sw_err_set(err, SW_ERR_INVALID, "%s: %lld labels of %lld queries", what,
                          (long long)l->count, (long long)sh->s->count);
    if (!l->single != !of_rows->single || (l->sets && l->classes != of_rows->classes))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: the labels of queries (%s of %d classes) and of the index (%s of "
                          "%d) differ in their form",
                          what, l->single ? "one" : "a set", l->classes,
                          of_rows->single ? "one" : "a set", of_rows->classes);

    sh->labels = l;
    return SW_OK;
}

/* ---- Cells ------------------------------------------------------------------------------------
 */

static int fill_query(struct sheet *sh, const struct sw_search_sheet_queries *q, int query,
                      struct sw_err *err)
{
    const size_t at = (size_t)query * (size_t)(sh->neighbors + 1);
    struct sw_plot_cell *cell = &sh->cells[at];
    const char *picture = query_picture(sh, q, query);

    snprintf(sh->text[at], NOTE, "query %d", query);
    cell->note = sh->text[at];
    cell->text = query_text(sh, q, query);
    return picture ? load(sh, sh->query.list, picture, cell, sh->pixels + at * SIDE * SIDE * 3, err)
                   : SW_OK;
}

static int fill_result(struct sheet *sh, int query, int rank, struct sw_err *err)
{
    const size_t at = (size_t)query * (size_t)(sh->neighbors + 1) + 1 + (size_t)rank;
    const struct sw_neighbor n = sh->s->found[query * sh->s->k + rank];
    struct sw_plot_cell *cell = &sh->cells[at];
    const char *picture = sw_search_line(&sh->row.pictures, n.id);

    snprintf(sh->text[at], NOTE, "%lld: %.3g", (long long)n.id, sw_search_ask_shown(sh->s, n));
    cell->note = sh->text[at];
    cell->text = sw_search_line(&sh->row.texts, n.id);
    if (sh->labels) {
        const bool right = sw_row_labels_share(sh->labels, query, &sh->s->index.labels, n.id);

        cell->verdict = right ? SW_PLOT_RELEVANT : SW_PLOT_IRRELEVANT;
        sh->right += right;
        sh->judged++;
    }

    return picture ? load(sh, sh->row.list, picture, cell, sh->pixels + at * SIDE * SIDE * 3, err)
                   : SW_OK;
}

static int fill_cells(struct sheet *sh, const struct sw_search_sheet_queries *q, struct sw_err *err)
{
    const size_t count = (size_t)sh->queries * (size_t)(sh->neighbors + 1);

    sh->cells = sw_calloc(count, sizeof *sh->cells);
    sh->text = sw_calloc(count, sizeof *sh->text);
    sh->pixels = sw_calloc(count, SIDE * SIDE * 3);
    if (!sh->cells || !sh->text || !sh->pixels)
        return sw_err_nomem(err, "a contact sheet", count * SIDE * SIDE * 3);

    int rc = sw_decoder_new(&sh->decoder, err);
    for (int i = 0; rc == SW_OK && i < sh->queries; i++) {
        rc = fill_query(sh, q, i, err);
        for (int rank = 0; rc == SW_OK && rank < sh->neighbors; rank++)
            rc = fill_result(sh, i, rank, err);
    }

    return rc;
}

static int draw(const struct sheet *sh, const char *path, struct sw_err *err)
{
    char title[160], share[64] = "";
    struct sw_plot *plot = NULL;

    if (sh->judged)
        snprintf(share, sizeof share, ", %.1f %% share a label",
                 100 * (double)sh->right / (double)sh->judged);
    snprintf(title, sizeof title, "%d of %lld quer%s, %d nearest%s", sh->queries,
             (long long)sh->s->count, sh->s->count == 1 ? "y" : "ies", sh->neighbors, share);

    const struct sw_plot_results r = {sh->cells, sh->queries, sh->neighbors + 1, title};
    const struct sw_plot_size size = sw_plot_results_size(&r);

    int rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), (int)size.w, (int)size.h, err);
    if (rc != SW_OK)
        return rc;

    sw_plot_results(plot, (struct sw_plot_box){0, 0, size.w, size.h}, &r);
    return sw_plot_end(plot, err);
}

int sw_search_sheet_draw(const struct sw_search_sheet_options *o, const struct sw_search_ask *s,
                         const struct sw_search_sheet_queries *q, struct sw_err *err)
{
    struct sheet sh = {.s = s, .row.name = "row of the index", .query.name = "query"};

    sh.queries = (int)(s->count < MOST_QUERIES ? s->count : MOST_QUERIES);
    sh.neighbors = (int)(s->k < MOST_NEIGHBORS ? s->k : MOST_NEIGHBORS);

    int rc = read_lists(&sh.row, o->pictures, o->texts, s->index.count, err);
    if (rc == SW_OK)
        rc = read_lists(&sh.query, o->query_pictures, o->query_texts, s->count, err);
    if (rc == SW_OK)
        rc = find_labels(&sh, o, q, err);
    if (rc == SW_OK)
        rc = fill_cells(&sh, q, err);
    if (rc == SW_OK)
        rc = draw(&sh, o->file, err);

    side_fini(&sh.row);
    side_fini(&sh.query);
    sw_search_labels_fini(&sh.read);
    sw_decoder_free(sh.decoder);
    sw_free(sh.cells);
    sw_free(sh.text);
    sw_free(sh.pixels);
    return rc;
}

void sw_search_sheet_queries_fini(struct sw_search_sheet_queries *q)
{
    sw_search_lines_fini(&q->files);
    sw_search_lines_fini(&q->texts);
    sw_search_labels_fini(&q->labels);
}
