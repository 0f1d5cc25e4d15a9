/* Distances between vectors, and the check of a set of them. Four partial sums in a fixed order are
 * what two-lane vectors compute without changing a bit. The contract is in search/vectors.h. */
#include "search/vectors.h"

#include "base/str.h"
#include <math.h>

static const char *const names[] = {"euclidean", "cosine", "dot"};

const char *sw_metric_name(enum sw_metric m)
{
    return names[m];
}

bool sw_metric_parse(const char *name, enum sw_metric *m)
{
    for (int i = 0; i < SW_METRIC_COUNT; i++)
        if (sw_str_eq(name, names[i])) {
            *m = (enum sw_metric)i;
            return true;
        }

    return false;
}

double sw_metric_shown(enum sw_metric m, double distance)
{
    if (m == SW_METRIC_EUCLIDEAN)
        return sqrt(distance);
    return m == SW_METRIC_DOT ? -distance : distance;
}

static double dot(const float *a, const float *b, int dims)
{
    double sum[4] = {0};
    int i = 0;

    for (; i + 4 <= dims; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < dims; i++)
        sum[0] += (double)a[i] * (double)b[i];

    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double squared_distance(const float *a, const float *b, int dims)
{
    double sum[4] = {0};
    int i = 0;

    for (; i + 4 <= dims; i += 4)
        for (int k = 0; k < 4; k++) {
            const double difference = (double)a[i + k] - (double)b[i + k];
            sum[k] += difference * difference;
        }
    for (; i < dims; i++)
        sum[0] += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);

    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

double sw_vector_norm2(const float *a, int dims)
{
    return dot(a, a, dims);
}

double sw_vector_distance(enum sw_metric m, const float *a, const float *b, int dims)
{
    if (m == SW_METRIC_EUCLIDEAN)
        return squared_distance(a, b, dims);
    if (m == SW_METRIC_DOT)
        return -dot(a, b, dims);

    return 1 - dot(a, b, dims) / (sqrt(dot(a, a, dims)) * sqrt(dot(b, b, dims)));
}

int sw_vectors_check(const struct sw_vectors *v, enum sw_metric m, const char *what,
                     struct sw_err *err)
{
    if (v->count < 1 || v->count > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %lld vectors, expected 1 to 2^31 - 1", what,
                          (long long)v->count);
    if (v->dims < 1 || v->dims > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: vectors of %d floats, expected 1 to %d", what,
                          v->dims, SW_SEARCH_MOST_DIMS);

    for (int64_t row = 0; row < v->count; row++) {
        const double norm2 = sw_vector_norm2(sw_vector(v, row), v->dims);

        if (!isfinite(norm2))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: row %lld has an element that is not finite",
                              what, (long long)row);
        if (m == SW_METRIC_COSINE && norm2 == 0)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: row %lld is zero and has no direction: cosine needs other vectors", what,
                (long long)row);
    }

    return SW_OK;
}
