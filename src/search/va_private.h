/* Internal to search/va_*.c: the coordinates that a VA-file partitions. */
#pragma once

#include "search/va_file.h"

/* What a vector is multiplied by before it is approximated: 1, or for cosine 1 / |v|. */
static inline double sw_va_scale(enum sw_metric m, const float *v, int dims)
{
    return m == SW_METRIC_COSINE ? 1 / sqrt(sw_vector_norm2(v, dims)) : 1;
}

/* Intervals of a dimension. */
static inline int sw_va_intervals(int bits)
{
    return 1 << bits;
}
