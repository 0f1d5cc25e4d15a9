/* k-means: the exact search assigns rows to centroids. The contract is in search/clusters.h. */
#include "search/clusters.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "search/exact.h"
#include <string.h>

enum { MOST_ROUNDS = 50 };

struct work {
    const struct sw_vectors *v;
    int count;
    struct sw_neighbor *near; /* [rows]: the nearest centroid */
    int32_t *cluster;         /* [rows]: that of the round before */
    double *sum;              /* [count][dims] */
    int64_t *rows;            /* [count] */
};

/* Different rows: the first places of a random order (Fisher and Yates). */
static void begin(struct work *w, uint64_t seed, float *out)
{
    const struct sw_philox key =
        sw_philox_stream(seed, SW_PURPOSE_INIT, sw_hash_name("search.clusters"));
    const size_t bytes = (size_t)w->v->dims * sizeof *out;

    for (int64_t row = 0; row < w->v->count; row++)
        w->cluster[row] = (int32_t)row;

    for (int c = 0; c < w->count; c++) {
        const uint64_t left = (uint64_t)(w->v->count - c);
        const int64_t at = c + (int64_t)(sw_philox_word(key, 0, 0, (uint32_t)c) % left);
        const int32_t row = w->cluster[at];

        w->cluster[at] = w->cluster[c];
        w->cluster[c] = row;
        memcpy(out + (int64_t)c * w->v->dims, sw_vector(w->v, row), bytes);
    }

    for (int64_t row = 0; row < w->v->count; row++)
        w->cluster[row] = -1;
}

/* Whether a row has another centroid than before. */
static bool changed(struct work *w)
{
    bool any = false;

    for (int64_t row = 0; row < w->v->count; row++) {
        any = any || w->cluster[row] != (int32_t)w->near[row].id;
        w->cluster[row] = (int32_t)w->near[row].id;
    }

    return any;
}

static void move_centroids(struct work *w, float *out)
{
    const int dims = w->v->dims;

    memset(w->sum, 0, (size_t)w->count * (size_t)dims * sizeof *w->sum);
    memset(w->rows, 0, (size_t)w->count * sizeof *w->rows);

    for (int64_t row = 0; row < w->v->count; row++) {
        double *sum = w->sum + (int64_t)w->cluster[row] * dims;

        for (int d = 0; d < dims; d++)
            sum[d] += (double)sw_vector(w->v, row)[d];
        w->rows[w->cluster[row]]++;
    }

    for (int c = 0; c < w->count; c++) {
        float *centroid = out + (int64_t)c * dims;

        if (w->rows[c]) {
            for (int d = 0; d < dims; d++)
                centroid[d] = (float)(w->sum[(int64_t)c * dims + d] / (double)w->rows[c]);
            continue;
        }

        int64_t far = 0;
        for (int64_t row = 1; row < w->v->count; row++)
            if (w->near[row].distance > w->near[far].distance)
                far = row;
        w->near[far].distance = 0;
        memcpy(centroid, sw_vector(w->v, far), (size_t)dims * sizeof *centroid);
    }
}

int sw_clusters_of(const struct sw_vectors *v, int count, uint64_t seed, int threads, float *out,
                   struct sw_err *err)
{
    struct work w = {.v = v, .count = count};
    const struct sw_vectors centroids = {out, count, v->dims};
    int rc = SW_OK;

    if (count < 1 || count > v->count)
        return sw_err_set(err, SW_ERR_INVALID, "%d clusters of %lld rows, expected 1 to as many",
                          count, (long long)v->count);

    w.near = sw_calloc((size_t)v->count, sizeof *w.near);
    w.cluster = sw_calloc((size_t)v->count, sizeof *w.cluster);
    w.sum = sw_calloc((size_t)count * (size_t)v->dims, sizeof *w.sum);
    w.rows = sw_calloc((size_t)count, sizeof *w.rows);
    if (!w.near || !w.cluster || !w.sum || !w.rows)
        rc = sw_err_nomem(err, "clusters", (size_t)v->count * sizeof *w.near);
    else
        begin(&w, seed, out);

    for (int round = 0; rc == SW_OK && round < MOST_ROUNDS; round++) {
        rc = sw_exact_search(&centroids, SW_METRIC_EUCLIDEAN, v, 1, threads, w.near, err);
        if (rc != SW_OK || !changed(&w))
            break;
        move_centroids(&w, out);
    }

    sw_free(w.near);
    sw_free(w.cluster);
    sw_free(w.sum);
    sw_free(w.rows);
    return rc;
}
