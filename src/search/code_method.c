/* The methods, and the checks that all of them need. The contract is in search/code_method.h. */
#include "search/code_method.h"

#include "base/str.h"
#include <math.h>

static const double largest = 1e18, least_difference = 1e-18;

const struct sw_code_method *const sw_code_methods[] = {
    &sw_code_hyperplanes, &sw_code_spectral, &sw_code_cvh, &sw_code_lcmh, &sw_code_cmssh, NULL};

const struct sw_code_method *sw_code_method_find(const char *name)
{
    for (int i = 0; sw_code_methods[i]; i++)
        if (sw_str_eq(sw_code_methods[i]->name, name))
            return sw_code_methods[i];

    return NULL;
}

static int check(const struct sw_code_method *m, const struct sw_code_fit *f, struct sw_err *err)
{
    const int64_t rows = f->view[0].count, others = f->view[1].count;

    if (m->views == 1 && others)
        return sw_err_set(err, SW_ERR_INVALID, "method %s learns from the rows of one view",
                          m->name);
    if (m->views == 2 && rows != others)
        return sw_err_set(err, SW_ERR_INVALID,
                          "method %s learns from pairs: %lld rows of one view, %lld of the other",
                          m->name, (long long)rows, (long long)others);
    if (rows < 2)
        return sw_err_set(err, SW_ERR_INVALID, "method %s learns from 2 rows or more", m->name);
    if (f->labels && f->labels->count != rows)
        return sw_err_set(err, SW_ERR_INVALID, "%lld labels of %lld rows: each row needs one",
                          (long long)f->labels->count, (long long)rows);
    if (f->labels && !(m->takes & SW_CODE_LABELS))
        return sw_err_set(err, SW_ERR_INVALID, "method %s takes no labels", m->name);
    if (f->ridge != 0 && !(m->takes & SW_CODE_RIDGE))
        return sw_err_set(err, SW_ERR_INVALID, "method %s takes no ridge", m->name);
    if (f->ridge != 0 && !(f->ridge >= SW_CODE_LEAST_RIDGE && f->ridge <= SW_CODE_MOST_RIDGE))
        return sw_err_set(err, SW_ERR_INVALID, "a ridge of %g, expected %g to %g", f->ridge,
                          SW_CODE_LEAST_RIDGE, SW_CODE_MOST_RIDGE);
    if (f->clusters && !(m->takes & SW_CODE_CLUSTERS))
        return sw_err_set(err, SW_ERR_INVALID, "method %s takes no clusters", m->name);
    if (f->bits < 1 || f->bits > SW_CODE_MOST_BITS)
        return sw_err_set(err, SW_ERR_INVALID, "codes of %d bits, expected 1 to %d", f->bits,
                          SW_CODE_MOST_BITS);
    return SW_OK;
}

/* Distances between rows, and what planes are divided by, have to stay within 32-bit floats. */
static int check_scale(const struct sw_vectors *v, const char *what, struct sw_err *err)
{
    double most = 0, differs = 0;

    for (int64_t row = 0; row < v->count; row++)
        for (int d = 0; d < v->dims; d++) {
            const double x = (double)sw_vector(v, row)[d];

            most = fmax(most, fabs(x));
            differs = fmax(differs, fabs(x - (double)v->at[d]));
        }

    if (most > largest)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has a number of size %g, expected at most %g: divide its vectors",
                          what, most, largest);
    if (differs == 0)
        return sw_err_set(err, SW_ERR_INVALID, "all rows of %s are equal", what);
    if (differs < least_difference)
        return sw_err_set(err, SW_ERR_INVALID,
                          "rows of %s differ by %g at most, expected %g or more: multiply its "
                          "vectors",
                          what, differs, least_difference);
    return SW_OK;
}

static int check_scales(const struct sw_code_method *m, const struct sw_code_fit *f,
                        struct sw_err *err)
{
    static const char *const names[] = {"the first view", "the second view"};
    int rc = SW_OK;

    for (int v = 0; rc == SW_OK && v < m->views && !m->any_scale; v++)
        rc = check_scale(&f->view[v], m->views == 1 ? "the view" : names[v], err);
    return rc;
}

int sw_code_method_fit(const struct sw_code_method *m, const struct sw_code_fit *f,
                       struct sw_encoder view[SW_CODE_VIEWS], struct sw_err *err)
{
    struct sw_code_fit full = *f;

    view[0] = view[1] = (struct sw_encoder){0};

    int rc = check(m, f, err);
    if (rc == SW_OK)
        rc = check_scales(m, f, err);
    if (rc != SW_OK)
        return rc;

    if (full.ridge == 0)
        full.ridge = m->usual_ridge;
    if (!full.clusters)
        full.clusters =
            full.view[0].count < m->usual_clusters ? (int)full.view[0].count : m->usual_clusters;
    rc = m->fit(&full, view, err);
    for (int v = 0; rc != SW_OK && v < SW_CODE_VIEWS; v++)
        sw_encoder_fini(&view[v]);
    return rc;
}
