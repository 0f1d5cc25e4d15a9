/* Weights of a triangle filter for one axis: each output sample has a window of input samples whose
 * weights sum to 1. The formula is in resample.h. */
#include "data/resample.h"
#include <math.h>

/* The first of `taps` input samples that the filter around center reaches; a window that would
 * extend past an end is moved inside. */
static int64_t window_start(double center, double reach, int64_t from, int64_t taps)
{
    const int64_t first = (int64_t)floor(center - reach);
    if (first < 0)
        return 0;
    return first + taps > from ? from - taps : first;
}

static void fill_weights(float *weight, int64_t start, int64_t taps, double center, double reach)
{
    double sum = 0;

    for (int64_t k = 0; k < taps; k++)
        sum += fmax(0, 1 - fabs((double)(start + k) + 0.5 - center) / reach);

    for (int64_t k = 0; k < taps; k++) {
        const double w = fmax(0, 1 - fabs((double)(start + k) + 0.5 - center) / reach);
        weight[k] = (float)(w / sum);
    }
}

int sw_resampling_make(struct sw_resampling *a, int64_t from, int64_t to, int64_t begin,
                       int64_t count, struct sw_err *err)
{
    const double ratio = (double)from / (double)to;
    const double reach = ratio > 1 ? ratio : 1;
    int64_t taps = (int64_t)ceil(2 * reach) + 1;

    taps = taps < from ? taps : from;

    const size_t start_bytes = (size_t)(count + 15) / 16 * 16 * sizeof *a->start;
    int rc = sw_room_need(&a->room, start_bytes + (size_t)(count * taps) * sizeof *a->weight,
                          "weights of a resampling", err);
    if (rc)
        return rc;

    a->count = count;
    a->taps = taps;
    a->start = (int32_t *)(void *)a->room.memory;
    a->weight = (float *)(void *)(a->room.memory + start_bytes);

    a->first = window_start(((double)begin + 0.5) * ratio, reach, from, taps);
    for (int64_t i = 0; i < count; i++) {
        const double center = ((double)(begin + i) + 0.5) * ratio;
        const int64_t start = window_start(center, reach, from, taps);
        fill_weights(a->weight + i * taps, start, taps, center, reach);
        a->start[i] = (int32_t)(start - a->first);
    }

    a->need = count ? a->start[count - 1] + taps : 0;
    return SW_OK;
}

void sw_resampling_fini(struct sw_resampling *a)
{
    sw_room_fini(&a->room);
    *a = (struct sw_resampling){0};
}
