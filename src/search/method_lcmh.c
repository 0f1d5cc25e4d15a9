/* Linear cross-modal hashing (Zhu, Huang, Shen and Zhao, "Linear cross-modal hashing for efficient
 * multimedia search", ACM MM 2013): each view is partitioned into k clusters, a row is represented
 * by its distances to the k centroids, P_i, and linear maps W_i bring the codes B_i = P_i W_i of
 * both views together: minimize |B_1 - B_2|^2 where columns of B_i have zero mean and are not
 * correlated, an eigenproblem of k rows (search/cca.h). Distances are euclidean; codes are the
 * signs. */
#include "base/os.h"
#include "search/cca.h"
#include "search/clusters.h"
#include "search/code_method.h"
#include <string.h>

struct work {
    struct sw_vectors p[SW_CODE_VIEWS]; /* owned: rows by their distances */
    struct sw_cca cca;
};

/* Rows that differ may still be as far from every centroid. */
static int check_distances(const struct sw_vectors *p, int v, struct sw_err *err)
{
    for (int64_t row = 1; row < p->count; row++)
        if (memcmp(sw_vector(p, row), p->at, (size_t)p->dims * sizeof *p->at) != 0)
            return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "the rows of the %s view are all as far from its %d centroids: use another "
                      "number of clusters",
                      v ? "second" : "first", p->dims);
}

/* Clusters a view, and represents its rows. */
static int prepare(const struct sw_code_fit *f, int v, struct sw_encoder *e, struct work *w,
                   struct sw_err *err)
{
    const struct sw_vectors *rows = &f->view[v];

    e->dims = rows->dims;
    e->bits = f->bits;
    e->anchors = f->clusters;

    float *anchors = sw_encoder_room(e, SW_ENCODER_ANCHORS, err);
    if (!anchors)
        return SW_ERR_NOMEM;
    w->cca.center[v] = sw_encoder_room(e, SW_ENCODER_CENTER, err);
    if (!w->cca.center[v])
        return SW_ERR_NOMEM;
    w->cca.direction[v] = sw_encoder_room(e, SW_ENCODER_PLANES, err);
    if (!w->cca.direction[v])
        return SW_ERR_NOMEM;

    float *p = sw_calloc((size_t)rows->count, (size_t)f->clusters * sizeof *p);
    if (!p)
        return sw_err_nomem(err, "distances to centroids", (size_t)rows->count * sizeof *p);
    w->p[v] = (struct sw_vectors){p, rows->count, f->clusters};
    w->cca.view[v] = &w->p[v];

    int rc = sw_clusters_of(rows, f->clusters, f->seed + (uint64_t)v, f->threads, anchors, err);
    if (rc == SW_OK)
        rc = sw_encoder_features_of(e, rows, f->threads, p, err);
    return rc == SW_OK ? check_distances(&w->p[v], v, err) : rc;
}

static int fit(const struct sw_code_fit *f, struct sw_encoder *view, struct sw_err *err)
{
    struct work w = {.cca = {.count = f->bits, .ridge = f->ridge}};
    int rc = SW_OK;

    if (f->bits > f->clusters)
        return sw_err_set(err, SW_ERR_INVALID, "%d bits, expected at most the %d clusters", f->bits,
                          f->clusters);

    for (int v = 0; rc == SW_OK && v < SW_CODE_VIEWS; v++)
        rc = prepare(f, v, &view[v], &w, err);
    if (rc == SW_OK)
        rc = sw_cca_fit(&w.cca, err);

    for (int v = 0; v < SW_CODE_VIEWS; v++)
        sw_free((void *)(uintptr_t)w.p[v].at);
    return rc;
}

const struct sw_code_method sw_code_lcmh = {
    .name = "lcmh",
    .help = "linear cross-modal hashing, by distances to centroids (Zhu 2013)",
    .views = 2,
    .takes = SW_CODE_RIDGE | SW_CODE_CLUSTERS | SW_CODE_SEED,
    .usual_ridge = 0.1,
    .usual_clusters = 100,
    .fit = fit,
};
