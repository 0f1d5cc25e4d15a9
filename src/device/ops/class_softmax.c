/* The words of the softmax in two levels on the CPU (kernels/ops/class_softmax.h): products of the
 * rows of a class with its words, in tiles of fixed size, so that they depend on the labels and the
 * shape only. Formulas of a row: kernels/cpu/class_softmax.c. */
#include "kernels/ops/class_softmax.h"

#include "device/cpu/rounded.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax.h"
#include "kernels/ops/softmax_loss.h"
#include <string.h>

enum { ROW_TILE = 128, WORD_TILE = 256, BIAS_TILE = 64 };

/* Some rows of a class and some of its words. */
struct tile {
    int64_t row, rows;   /* positions */
    int64_t word, words; /* word: the first one's number */
    int64_t column;      /* of the first word, within the class */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tiles_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Returns the rows that have a class; without any rows there is no array of groups. */
static int64_t grouped_rows(const struct sw_word_classes *k, int64_t rows, const int32_t *begin)
{
    return rows > 0 ? begin[k->classes] : 0;
}

/* Returns tile i of all rows of a class with WORD_TILE of its words, `across` tiles per class. */
static struct tile word_tile(const struct sw_word_classes *k, const int32_t *begin, int64_t across,
                             int64_t i)
{
    const int64_t c = i / across, column = i % across * WORD_TILE, n = sw_class_words(k, c);
    return (struct tile){.row = begin[c],
                         .rows = begin[c + 1] - begin[c],
                         .word = sw_class_first(k, c) + column,
                         .words = column < n ? least(WORD_TILE, n - column) : 0,
                         .column = column};
}

/* Returns tile i of ROW_TILE rows of a class with all of its words. */
static struct tile row_tile(const struct sw_word_classes *k, const int32_t *begin, int64_t down,
                            int64_t i)
{
    const int64_t c = i / down, row = begin[c] + i % down * ROW_TILE;
    return (struct tile){.row = row,
                         .rows = row < begin[c + 1] ? least(ROW_TILE, begin[c + 1] - row) : 0,
                         .word = sw_class_first(k, c),
                         .words = sw_class_words(k, c)};
}

/* ---- Forward ---- */

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_class_words_args *a = args;

    SW_ARRAY(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, order, sw_op_floats(a->rows));
    SW_ARRAY(out, a, begin, a->rows > 0 ? sw_op_floats(a->kind.classes + 1) : 0);
    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->width));
    SW_ARRAY(out, a, weight, sw_op_matrix(a->kind.words, a->width));
    SW_ARRAY(out, a, bias, sw_op_floats(a->kind.words));
    SW_ARRAY(out, a, grouped, sw_op_matrix(a->rows, a->width));
    SW_ARRAY(out, a, prob, sw_op_matrix(a->rows, a->widest));
    SW_ARRAY(out, a, result, sizeof *a->result);
}

static double loss_at(const void *user, int64_t i)
{
    return sw_kernel_class_row(user, i);
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_class_words_args *a = args;
    const int64_t across = tiles_of(a->widest, WORD_TILE), width = a->width;
    const int64_t rows = grouped_rows(&a->kind, a->rows, a->begin);

    if (rows == 0)
        return SW_OK;
    for (int64_t i = 0; i < rows; i++)
        memcpy(a->grouped + i * width, a->x + a->order[i] * width, (size_t)width * sizeof *a->x);

#pragma omp parallel for num_threads(l->threads) if (l->threads > 1) schedule(dynamic, 8)
    for (int64_t i = 0; i < a->kind.classes * across; i++) {
        const struct tile t = word_tile(&a->kind, a->begin, across, i);
        if (t.rows > 0 && t.words > 0)
            sw_cpu_gemm(l->precision,
                        sw_product_of(t.rows, t.words, width,
                                      sw_stored(a->grouped + t.row * width, width),
                                      sw_transposed(a->weight + t.word * width, width),
                                      a->prob + t.row * a->widest + t.column, a->widest));
    }

    const int64_t cost = sw_class_words(&a->kind, a->kind.classes / 2) * SW_EXP_COST;
    a->result->sum += (double)a->factor * sw_sum_over_rows(l->threads, rows, cost, loss_at, a);
    return SW_OK;
}

const struct sw_op sw_op_class_words = {"class_words", sizeof(struct sw_class_words_args), arrays,
                                        forward};

/* ---- Gradient ---- */

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_class_words_gradient_args *a = args;

    SW_ARRAY(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY_OR_NULL(out, a, counted, sizeof *a->counted);
    SW_ARRAY(out, a, order, sw_op_floats(a->rows));
    SW_ARRAY(out, a, begin, a->rows > 0 ? sw_op_floats(a->kind.classes + 1) : 0);
    SW_ARRAY(out, a, weight, sw_op_matrix(a->kind.words, a->width));
    SW_ARRAY(out, a, grouped, sw_op_matrix(a->rows, a->width));
    SW_ARRAY(out, a, prob, sw_op_matrix(a->rows, a->widest));
    SW_ARRAY(out, a, dweight, sw_op_matrix(a->kind.words, a->width));
    SW_ARRAY(out, a, dbias, sw_op_floats(a->kind.words));
    SW_ARRAY_OR_NULL(out, a, dgrouped, sw_op_matrix(a->rows, a->width));
    SW_ARRAY_OR_NULL(out, a, dx, sw_op_matrix(a->rows, a->width));
}

/* The gradients of a tile of words; words of classes without rows have none. */
static void word_gradient(const struct sw_class_words_gradient_args *a, enum sw_precision precision,
                          const struct tile *t)
{
    float *dweight = a->dweight + t->word * a->width, *dbias = a->dbias + t->word;
    const float *dscore = a->prob + t->row * a->widest + t->column;

    if (t->rows == 0) {
        memset(dweight, 0, (size_t)(t->words * a->width) * sizeof *dweight);
        memset(dbias, 0, (size_t)t->words * sizeof *dbias);
        return;
    }

    sw_cpu_gemm(precision,
                sw_product_of(t->words, a->width, t->rows, sw_transposed(dscore, a->widest),
                              sw_stored(a->grouped + t->row * a->width, a->width), dweight,
                              a->width));
    for (int64_t j = 0; j < t->words; j += BIAS_TILE)
        sw_kernel_sum_columns(t->rows, least(BIAS_TILE, t->words - j), a->widest, dscore + j,
                              dbias + j);
}

static void source_gradient(const struct sw_class_words_gradient_args *a,
                            const struct sw_host_launch *l, int64_t rows)
{
    const int64_t down = tiles_of(rows, ROW_TILE), width = a->width;

#pragma omp parallel for num_threads(l->threads) if (l->threads > 1) schedule(dynamic, 8)
    for (int64_t i = 0; i < a->kind.classes * down; i++) {
        const struct tile t = row_tile(&a->kind, a->begin, down, i);
        if (t.rows > 0)
            sw_cpu_gemm(l->precision,
                        sw_product_of(t.rows, width, t.words,
                                      sw_stored(a->prob + t.row * a->widest, a->widest),
                                      sw_stored(a->weight + t.word * width, width),
                                      a->dgrouped + t.row * width, width));
    }

    for (int64_t i = 0; i < rows; i++) {
        float *to = a->dx + a->order[i] * width;
        for (int64_t j = 0; j < width; j++)
            to[j] += a->dgrouped[i * width + j];
    }
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_class_words_gradient_args *a = args;
    const struct sw_softmax_gradient_args scaled = {.batch_rows = a->batch_rows,
                                                    .weight = a->factor,
                                                    .labels = a->labels,
                                                    .step = a->step,
                                                    .counted = a->counted};
    const float scale = sw_softmax_gradient_scale(&scaled);
    const int64_t across = tiles_of(a->widest, WORD_TILE);
    const int64_t rows = grouped_rows(&a->kind, a->rows, a->begin);
    int team = sw_team_size(l->threads, rows * a->kind.words / a->kind.classes);

    if (rows == 0) {
        memset(a->dweight, 0, (size_t)(a->kind.words * a->width) * sizeof *a->dweight);
        memset(a->dbias, 0, (size_t)a->kind.words * sizeof *a->dbias);
        return SW_OK;
    }

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        sw_kernel_class_row_gradient(a, scale, i);

#pragma omp parallel for num_threads(l->threads) if (l->threads > 1) schedule(dynamic, 8)
    for (int64_t i = 0; i < a->kind.classes * across; i++) {
        const struct tile t = word_tile(&a->kind, a->begin, across, i);
        if (t.words > 0)
            word_gradient(a, l->precision, &t);
    }

    if (a->dx)
        source_gradient(a, l, rows);
    return SW_OK;
}

const struct sw_op sw_op_class_words_gradient = {
    "class_words_backward", sizeof(struct sw_class_words_gradient_args), gradient_arrays, gradient};
