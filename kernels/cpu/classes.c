/* Which classes a row of scores names, against the row's label or labels: top-k hits, and counts
 * per class. Of equal scores the one of the lower class comes first; a NaN is never named. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <stddef.h>
#include <string.h>

static const float present_above = 0.5f; /* targets are 0 and 1, or shares of 1 */

/* Scores that come before the label's. */
SW_KERNEL static int64_t rank_of_label(const float *x, int64_t label, int64_t n)
{
    float mine = x[label];
    int64_t after = 0;
#pragma omp simd reduction(+ : after)
    for (int64_t j = 0; j < n; j++)
        after += x[j] < mine || (x[j] == mine && j > label);
    return n - 1 - after;
}

int64_t sw_kernel_top_k_hits(int threads, int64_t rows, int64_t classes, int64_t top_k,
                             const float *x, const int32_t *label, int64_t ignore)
{
    int team = sw_team_size(threads, rows * classes);
    int64_t hits = 0;
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static) reduction(+ : hits)
    for (int64_t r = 0; r < rows; r++)
        hits += label[r] != ignore && rank_of_label(x + r * classes, label[r], classes) < top_k;
    return hits;
}

/* The class of the best score among the labels of a row; -1 without labels. Where all their scores
 * are NaN it is any of them. */
static int64_t best_label(const float *x, const float *target, int64_t n)
{
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++)
        if (target[j] > present_above && (best < 0 || !(x[j] <= x[best])))
            best = j;
    return best;
}

int64_t sw_kernel_top_k_hits_of_many(int threads, int64_t rows, int64_t classes, int64_t top_k,
                                     const float *x, const float *target, int64_t *counted)
{
    int team = sw_team_size(threads, rows * classes);
    int64_t hits = 0, with_label = 0;
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)                          \
    reduction(+ : hits, with_label)
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * classes;
        int64_t best = best_label(row, target + r * classes, classes);
        with_label += best >= 0;
        hits += best >= 0 && rank_of_label(row, best, classes) < top_k;
    }
    *counted = with_label;
    return hits;
}

/* ---- Counts per class ---- */

enum { BOTH, NAMED, BOTH_AGAIN, PRESENT, COUNTS };

static void name(double *counts, int64_t c, bool present)
{
    counts[c * COUNTS + NAMED]++;
    counts[c * COUNTS + BOTH] += present;
    counts[c * COUNTS + BOTH_AGAIN] += present;
}

static bool is_present(int64_t c, int64_t label, const float *target)
{
    return target ? target[c] > present_above : c == label;
}

/* The best score that comes after score x[last]; -1 when there is none. last -1: of all. */
static int64_t next_best(const float *x, int64_t last, int64_t n)
{
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++) {
        bool after = last < 0 ? x[j] == x[j] : x[j] < x[last] || (x[j] == x[last] && j > last);
        if (after && (best < 0 || x[j] > x[best]))
            best = j;
    }
    return best;
}

static void count_row(double *counts, int64_t classes, int64_t top_k, float threshold,
                      const float *x, int64_t label, const float *target)
{
    for (int64_t c = 0; c < classes; c++)
        counts[c * COUNTS + PRESENT] += is_present(c, label, target);
    int64_t c = -1;
    for (int64_t i = 0; i < top_k && (c = next_best(x, c, classes)) >= 0; i++)
        name(counts, c, is_present(c, label, target));
    for (c = 0; c < classes && top_k == 0; c++)
        if (x[c] > threshold)
            name(counts, c, is_present(c, label, target));
}

void sw_kernel_count_classes(int64_t rows, int64_t classes, int64_t top_k, float threshold,
                             const float *x, const int32_t *label, int64_t ignore,
                             const float *target, double *counts)
{
    memset(counts, 0, (size_t)(classes * COUNTS) * sizeof *counts);
    for (int64_t r = 0; r < rows; r++) {
        if (label && label[r] == ignore)
            continue;
        /* With one column, label 1 is that column and 0 is none. */
        int64_t mine = !label ? -1 : classes == 1 ? label[r] - 1 : label[r];
        count_row(counts, classes, top_k, threshold, x + r * classes, mine,
                  target ? target + r * classes : NULL);
    }
}
