/* Skip-gram (Mikolov, Sutskever, Chen, Corrado, Dean, "Distributed Representations of Words and
 * Phrases and their Compositionality", NIPS 2013), as the program word2vec.c trains it.
 *
 * An occurrence of word w is left out with probability 1 - keep(w) (section 2.3; the layers have
 * the formula). Of the words that remain, each is a center with its own reach, 1 to window, all
 * equally likely; the words at most that far before or behind it are its contexts. The score of
 * context c and output o is s = x_c . v_o. With negative sampling (Eq 4) the outputs of a center
 * are its word, with label 1, and words drawn at random, with label 0; a drawn word that is the
 * center is left out. With a hierarchical softmax (Eq 3) they are the nodes of the path from the
 * root to the word in a binary tree, labelled with the branch. For both, the loss of a pair is
 *
 *   - log sigma(s) for label 1, - log sigma(-s) for label 0;  slope = sigma(s) - label
 *
 * and the gradients are dx_c = sum of slope v_o, dv_o = sum of slope x_c. word2vec.c draws other
 * negatives for every context of a center; here they share them, so that a vector is loaded once
 * for all of them (Ji, Satish, Li, Dubey, "Parallelizing Word2Vec in Shared and Distributed
 * Memory", 2016). Sums have the order of the text for any number of threads. */
#include "kernels/skip_gram.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"
#include "kernels/ops/embedding.h"
#include <string.h>

enum { TERMS = 64, PAIRS = 64, LANES = 16, COLUMNS = 16 /* a cache line */ };

/* ---- Drawing ---- */

/* The random words of a row of text. */
struct words {
    struct sw_philox key;
    uint64_t step;
    uint32_t row;
    int64_t have; /* the words are those of [have, have + SW_DRAW_WORDS); -1: none yet */
    uint32_t word[SW_DRAW_WORDS];
};

SW_KERNEL static void draw(struct words *w)
{
    uint32_t offset[SW_DRAW_LANES], word[4][SW_DRAW_LANES];

    for (uint32_t i = 0; i < SW_DRAW_LANES; i++)
        offset[i] = i;
    sw_draw_blocks(w->key, w->step, w->row, (uint32_t)(w->have / 4), offset, word);
    sw_draw_in_order(word, w->word);
}

static uint32_t word_at(struct words *w, int64_t i)
{
    const int64_t first = i / SW_DRAW_WORDS * SW_DRAW_WORDS;

    if (w->have != first) {
        w->have = first;
        draw(w);
    }

    return w->word[i - first];
}

static int32_t pick_negatives(const struct sw_skip_gram_words *k, struct words *w, int64_t at,
                              int32_t token, int32_t *out)
{
    int32_t count = 0;

    out[count++] = token * 2 + 1;
    for (int64_t i = 0; i < k->negatives; i++) {
        const uint32_t first = word_at(w, at + 2 * i), second = word_at(w, at + 2 * i + 1);
        const int32_t drawn = sw_skip_gram_draw(k, first, second);
        if (drawn != token)
            out[count++] = drawn * 2;
    }

    return count;
}

static int32_t pick_path(const struct sw_skip_gram_words *k, int32_t token, int32_t *out)
{
    const int64_t from = sw_skip_gram_path_begin(k, token), n = k->path_end[token] - from;

    for (int64_t i = 0; i < n; i++)
        out[i] = k->path[from + i];
    return (int32_t)n;
}

static void pick_row(const struct sw_skip_gram_args *a, int64_t r, int32_t *row)
{
    const struct sw_skip_gram_shape *s = &a->shape;
    const struct sw_skip_gram_words *k = &a->words;
    const int32_t *token = a->token + r * s->length;
    struct words w = {.key = a->key,
                      .step = a->step->step,
                      .row = (uint32_t)(a->step->first_row + r),
                      .have = -1};
    int32_t *center = row + 1;

    row[0] = 0;
    for (int64_t t = 0; t < s->length; t++) {
        const int64_t at = sw_skip_gram_first_word(k, t);
        if (token[t] < 0 || !sw_skip_gram_keeps(k, token[t], word_at(&w, at)))
            continue;

        int32_t *output = center + SW_PICK_FIRST_OUTPUT;
        row[0]++;
        center[SW_PICK_POSITION] = (int32_t)t;
        center[SW_PICK_REACH] = sw_skip_gram_reach(s, word_at(&w, at + 1));
        center[SW_PICK_OUTPUTS] = k->alias ? pick_negatives(k, &w, at + 2, token[t], output)
                                           : pick_path(k, token[t], output);
        center += sw_picks_per_center(s);
    }
}

/* ---- Scores ---- */

/* s[i] = v . x[i]; four at a time share the loads of v. */
SW_KERNEL_INLINE void products(const float *restrict v, const float *const *x, int64_t n,
                               int64_t width, float *s)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        const float *restrict x0 = x[i], *restrict x1 = x[i + 1], *restrict x2 = x[i + 2],
                              *restrict x3 = x[i + 3];
        float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
        for (int64_t e = 0; e < width; e++) {
            a += v[e] * x0[e];
            b += v[e] * x1[e];
            c += v[e] * x2[e];
            d += v[e] * x3[e];
        }
        s[i] = a;
        s[i + 1] = b;
        s[i + 2] = c;
        s[i + 3] = d;
    }

    for (; i < n; i++) {
        const float *restrict x0 = x[i];
        float a = 0;
#pragma omp simd reduction(+ : a)
        for (int64_t e = 0; e < width; e++)
            a += v[e] * x0[e];
        s[i] = a;
    }
}

/* Replaces PAIRS scores by slopes and adds the losses to lanes; sign: 1 for label 1, -1 for label
 * 0, 0 for no pair. */
SW_KERNEL_INLINE void losses(const float *restrict sign, float *restrict s, float *restrict lane)
{
    for (int64_t from = 0; from < PAIRS; from += LANES) {
#pragma omp simd
        for (int64_t i = 0; i < LANES; i++) {
            const float side = sign[from + i], x = side * s[from + i];
            const float e = sw_v_exp(-sw_v_abs(x)), small = 1.0f / (1.0f + e);
            lane[i] += ((x < 0 ? -x : 0.0f) + sw_v_log1p_unit(e)) * sw_v_abs(side);
            s[from + i] = -side * (x < 0 ? small : e * small);
        }
    }
}

/* Replaces the scores of a center by slopes; returns the loss. */
SW_KERNEL_INLINE float center_losses(const int32_t *output, int64_t outputs, int64_t contexts,
                                     float *s)
{
    const int64_t pairs = outputs * contexts;
    float lane[LANES] = {0}, sum = 0;

    for (int64_t first = 0, o = 0, c = 0; first < pairs; first += PAIRS) {
        const int64_t n = pairs - first < PAIRS ? pairs - first : PAIRS;
        float sign[PAIRS] = {0}, score[PAIRS] = {0};

        memcpy(score, s + first, (size_t)n * sizeof *s);
        for (int64_t i = 0; i < n; i++) {
            sign[i] = output[o] & 1 ? 1.0f : -1.0f;
            c++;
            o += c == contexts;
            c = c == contexts ? 0 : c;
        }
        losses(sign, score, lane);
        memcpy(s + first, score, (size_t)n * sizeof *s);
    }

    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

/* The outputs of the next center are loaded while this one is computed. */
static void load_next(const struct sw_skip_gram_shape *s, const int32_t *row, int64_t k,
                      const float *table)
{
    const int32_t *next = sw_pick_center(s, row, k + 1);

    for (int32_t o = 0; k + 1 < row[0] && o < next[SW_PICK_OUTPUTS]; o++)
        sw_load_ahead(table + (next[SW_PICK_FIRST_OUTPUT + o] >> 1) * s->width, s->width);
}

SW_KERNEL static void score_center(const struct sw_skip_gram_args *a, const int32_t *row, int64_t k,
                                   const float *x, float *slope)
{
    const struct sw_skip_gram_shape *s = &a->shape;
    const int32_t *center = sw_pick_center(s, row, k), *output = center + SW_PICK_FIRST_OUTPUT;
    const struct sw_pick_reach reach = sw_pick_reach_of(row, center, k);
    const float *context[2 * SW_SKIP_GRAM_WINDOW];
    int64_t n = 0;

    load_next(s, row, k, a->output);
    for (int64_t c = reach.from; c < reach.to; c++)
        if (c != k)
            context[n++] = x + sw_pick_center(s, row, c)[SW_PICK_POSITION] * s->width;

    for (int32_t o = 0; o < center[SW_PICK_OUTPUTS]; o++)
        products(a->output + (output[o] >> 1) * s->width, context, n, s->width, slope + 1 + o * n);
    slope[0] = center_losses(output, center[SW_PICK_OUTPUTS], n, slope + 1);
}

static int check_tokens(const struct sw_skip_gram_args *a, int64_t rows, struct sw_err *err)
{
    const int64_t length = a->shape.length;

    for (int64_t i = 0; i < rows * length; i++)
        if (a->token[i] < -1 || a->token[i] >= a->shape.vocabulary)
            return sw_tokens_report_bad(i / length, i % length, a->token[i], a->shape.vocabulary,
                                        err);

    return SW_OK;
}

static void sum_losses(const struct sw_skip_gram_args *a, int64_t rows)
{
    const struct sw_skip_gram_shape *s = &a->shape;
    double sum = 0;

    memset(a->loss, 0, (size_t)s->rows * sizeof *a->loss);
    for (int64_t r = 0; r < rows; r++) {
        const float *slope = a->slope + r * s->length * sw_slopes_per_center(s);
        double of_row = 0;
        for (int64_t k = 0; k < a->picks[r * sw_picks_per_row(s)]; k++)
            of_row += (double)slope[k * sw_slopes_per_center(s)];
        a->loss[r] = (float)of_row;
        sum += of_row;
    }

    *a->result = (struct sw_result){(double)a->weight * sum, (double)rows};
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_skip_gram_args *a = args;
    const struct sw_skip_gram_shape *s = &a->shape;
    const int64_t rows = sw_op_valid_rows(a->step, s->rows);

    int rc = check_tokens(a, rows, l->err);
    if (rc != SW_OK)
        return rc;

    for (int64_t r = rows; r < s->rows; r++)
        a->picks[r * sw_picks_per_row(s)] = 0;

    int team = sw_team_size(l->threads, rows * s->length * s->window * s->outputs * s->width);
#pragma omp parallel num_threads(team) if (team > 1)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++)
            pick_row(a, r, a->picks + r * sw_picks_per_row(s));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows * s->length; i++) {
            const int64_t r = i / s->length, k = i % s->length;
            const int32_t *row = a->picks + r * sw_picks_per_row(s);
            if (k < row[0])
                score_center(a, row, k, a->x + r * s->length * s->width,
                             a->slope + i * sw_slopes_per_center(s));
        }
    }

    sum_losses(a, rows);
    return SW_OK;
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_skip_gram_args *a = args;
    const struct sw_skip_gram_shape *s = &a->shape;
    const struct sw_skip_gram_words *k = &a->words;

    SW_ARRAY(out, k, keep, sw_op_floats(s->vocabulary));
    SW_ARRAY_OR_NULL(out, k, below, (size_t)k->drawn * sizeof *k->below);
    SW_ARRAY_OR_NULL(out, k, alias, (size_t)k->drawn * sizeof *k->alias);
    SW_ARRAY_OR_NULL(out, k, path, (size_t)k->path_count * sizeof *k->path);
    SW_ARRAY_OR_NULL(out, k, path_end, (size_t)s->vocabulary * sizeof *k->path_end);
    SW_ARRAY(out, a, token, sw_op_floats(s->rows * s->length));
    SW_ARRAY(out, a, x, sw_op_floats(s->rows * s->length * s->width));
    SW_ARRAY(out, a, output, sw_op_matrix(s->output_rows, s->width));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, picks, sw_skip_gram_pick_bytes(s));
    SW_ARRAY(out, a, slope, sw_skip_gram_slope_bytes(s));
    SW_ARRAY(out, a, loss, sw_op_floats(s->rows));
    SW_ARRAY(out, a, result, sizeof *a->result);
}

const struct sw_op sw_op_skip_gram = {"skip_gram", sizeof(struct sw_skip_gram_args), arrays,
                                      forward};

/* ---- Gradient ---- */

/* Multiples of vectors that are added to one vector. */
struct terms {
    int n;
    float factor[TERMS];
    const float *x[TERMS];
};

/* y += factor . x, elements [from, to). */
SW_KERNEL static void add_terms(const struct terms *t, struct sw_range e, float *restrict y)
{
    int i = 0;

    for (; i + 4 <= t->n; i += 4) {
        const float *restrict x0 = t->x[i], *restrict x1 = t->x[i + 1], *restrict x2 = t->x[i + 2],
                              *restrict x3 = t->x[i + 3];
        const float a = t->factor[i], b = t->factor[i + 1], c = t->factor[i + 2],
                    d = t->factor[i + 3];
#pragma omp simd
        for (int64_t j = e.from; j < e.to; j++)
            y[j] += a * x0[j] + b * x1[j] + c * x2[j] + d * x3[j];
    }

    for (; i < t->n; i++) {
        const float *restrict x0 = t->x[i];
        const float a = t->factor[i];
#pragma omp simd
        for (int64_t j = e.from; j < e.to; j++)
            y[j] += a * x0[j];
    }
}

static void add(struct terms *t, float factor, const float *x, struct sw_range e, float *y)
{
    t->factor[t->n] = factor;
    t->x[t->n++] = x;
    if (t->n < TERMS)
        return;

    add_terms(t, e, y);
    t->n = 0;
}

/* The gradient of the vector of center j as a context of the centers around it. */
static void context_gradient(const struct sw_skip_gram_gradient_args *a, const int32_t *row,
                             int64_t j, const float *slope, float scale, float *dx)
{
    const struct sw_skip_gram_shape *s = &a->shape;
    const struct sw_range all = {0, s->width};
    const int64_t from = j > s->window ? j - s->window : 0;
    struct terms t = {0};

    for (int64_t k = from; k < row[0] && k <= j + s->window; k++) {
        const int32_t *center = sw_pick_center(s, row, k);
        const struct sw_pick_reach reach = sw_pick_reach_of(row, center, k);
        if (k == j || j < reach.from || j >= reach.to)
            continue;

        const int64_t n = reach.to - reach.from - 1;
        const float *of = slope + k * sw_slopes_per_center(s) + 1 + j - reach.from - (j > k);
        for (int32_t o = 0; o < center[SW_PICK_OUTPUTS]; o++)
            add(&t, scale * of[o * n],
                a->output + (center[SW_PICK_FIRST_OUTPUT + o] >> 1) * s->width, all, dx);
    }

    add_terms(&t, all, dx);
}

/* The gradients of the outputs of center k, in some columns. */
static void output_gradients(const struct sw_skip_gram_gradient_args *a, const int32_t *row,
                             int64_t k, const float *x, const float *slope, float scale,
                             struct sw_range columns)
{
    const struct sw_skip_gram_shape *s = &a->shape;
    const int32_t *center = sw_pick_center(s, row, k);
    const struct sw_pick_reach reach = sw_pick_reach_of(row, center, k);
    const float *of = slope + k * sw_slopes_per_center(s) + 1;

    for (int32_t o = 0; o < center[SW_PICK_OUTPUTS]; o++) {
        float *y = a->doutput +
                   sw_row_list_find(a->listed, center[SW_PICK_FIRST_OUTPUT + o] >> 1) * s->width;
        struct terms t = {0};

        for (int64_t c = reach.from; c < reach.to; c++)
            if (c != k)
                add(&t, scale * *of++, x + sw_pick_center(s, row, c)[SW_PICK_POSITION] * s->width,
                    columns, y);
        add_terms(&t, columns, y);
    }
}

static void list_rows(const struct sw_skip_gram_gradient_args *a, int64_t rows)
{
    const struct sw_skip_gram_shape *s = &a->shape;

    sw_row_list_begin(a->listed);
    for (int64_t r = 0; r < rows && a->listed; r++) {
        const int32_t *row = a->picks + r * sw_picks_per_row(s);
        for (int64_t k = 0; k < row[0]; k++) {
            const int32_t *center = sw_pick_center(s, row, k);
            for (int32_t o = 0; o < center[SW_PICK_OUTPUTS]; o++)
                sw_row_list_add(a->listed, center[SW_PICK_FIRST_OUTPUT + o] >> 1);
        }
    }
}

static void context_gradients(const struct sw_host_launch *l,
                              const struct sw_skip_gram_gradient_args *a, int64_t rows, float scale)
{
    const struct sw_skip_gram_shape *s = &a->shape;
    int team = sw_team_size(l->threads, rows * s->length * s->window * s->outputs * s->width);

    sw_kernel_zero_rows(l->threads, 0, s->rows * s->length, s->width, a->dx);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * s->length; i++) {
        const int64_t r = i / s->length, j = i % s->length;
        const int32_t *row = a->picks + r * sw_picks_per_row(s);
        if (j >= row[0])
            continue;

        const int64_t at = r * s->length + sw_pick_center(s, row, j)[SW_PICK_POSITION];
        context_gradient(a, row, j, a->slope + r * s->length * sw_slopes_per_center(s), scale,
                         a->dx + at * s->width);
    }
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_skip_gram_gradient_args *a = args;
    const struct sw_skip_gram_shape *s = &a->shape;
    const int64_t rows = sw_op_valid_rows(a->step, s->rows);
    const float scale = a->weight * a->step->backward_scale;

    if (a->dx)
        context_gradients(l, a, rows, scale);

    list_rows(a, rows);
    sw_kernel_zero_rows(l->threads, 0, sw_row_list_count(a->listed, s->output_rows), s->width,
                        a->doutput);

    int team = sw_team_size(l->threads, rows * s->length * s->window * s->outputs * s->width);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range columns = sw_team_range(s->width, COLUMNS);
        for (int64_t r = 0; r < rows && columns.from < columns.to; r++) {
            const int32_t *row = a->picks + r * sw_picks_per_row(s);
            for (int64_t k = 0; k < row[0]; k++)
                output_gradients(a, row, k, a->x + r * s->length * s->width,
                                 a->slope + r * s->length * sw_slopes_per_center(s), scale,
                                 columns);
        }
    }

    return SW_OK;
}

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_skip_gram_gradient_args *a = args;
    const struct sw_skip_gram_shape *s = &a->shape;

    SW_ARRAY(out, a, x, sw_op_floats(s->rows * s->length * s->width));
    SW_ARRAY(out, a, output, sw_op_matrix(s->output_rows, s->width));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, picks, sw_skip_gram_pick_bytes(s));
    SW_ARRAY(out, a, slope, sw_skip_gram_slope_bytes(s));
    SW_ARRAY_OR_NULL(out, a, dx, sw_op_floats(s->rows * s->length * s->width));
    SW_ARRAY(out, a, doutput, sw_op_matrix(s->output_rows, s->width));
}

const struct sw_op sw_op_skip_gram_gradient = {
    "skip_gram_gradient", sizeof(struct sw_skip_gram_gradient_args), gradient_arrays, gradient};
