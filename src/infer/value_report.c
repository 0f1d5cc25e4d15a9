/* Compares predicted values with targets, and keeps the rows with the largest error. */
#include "infer/value_report.h"
#include "base/os.h"
#include "base/str.h"
#include "data/scaling.h"
#include "data/source.h"
#include "net/net.h"
#include <math.h>
#include <string.h>

/* ---- The layer ---- */

static bool compares_values(const struct sw_net *net, int i)
{
    static const char *const types[] = {"euclidean_loss", "mae", "rmse", "r2"};
    const int target = sw_net_source(net, i, 1);
    bool known = false;

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        known |= sw_str_eq(sw_net_layer(net, i)->type->base.name, types[t]);
    return known && target >= 0 && sw_net_layer(net, target)->type->role == SW_ROLE_INPUT;
}

int sw_value_report_layer(const struct sw_net *net)
{
    int loss = -1, metric = -1;

    for (int i = 0; i < sw_net_layer_count(net); i++)
        if (compares_values(net, i))
            *(sw_net_layer(net, i)->type->role == SW_ROLE_LOSS ? &loss : &metric) = i;
    return loss >= 0 ? loss : metric;
}

int sw_value_report_begin(struct sw_value_report *r, const struct sw_net *net, int *layer,
                          struct sw_err *err)
{
    const int i = *layer = sw_value_report_layer(net);
    if (i < 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the evaluation net has no euclidean_loss, mae, rmse or r2 that compares "
                          "values with a field of the data");

    const struct sw_layer *l = sw_net_layer(net, i);
    if (l->src[0]->desc.dim[0] != sw_net_rows(net))
        return sw_err_set(err, SW_ERR_INVALID, "layer %s has several rows for a record", l->name);

    r->layer = l->name;
    r->columns = sw_desc_features(&l->src[0]->desc);
    r->integers = l->src[1]->desc.dtype == SW_I32;
    r->scaling = l->src[1]->scaling;

    const size_t most = (size_t)r->worst_most + 1, width = 2 * (size_t)r->columns;
    r->worst = sw_calloc(most, sizeof *r->worst);
    r->values = sw_calloc(most, width * sizeof *r->values);
    if (!r->worst || !r->values)
        return sw_err_nomem(err, "the worst records", most * width * sizeof *r->values);

    for (size_t k = 0; k < most; k++)
        r->worst[k].values = r->values + k * width;
    return SW_OK;
}

/* ---- Rows ---- */

/* Sets the targets and predictions of a row, in the units of the data, and returns its error. */
static double read_row(const struct sw_value_report *r, const float *value, const void *target,
                       float *out)
{
    const int64_t n = r->columns;
    double square = 0;

    for (int64_t c = 0; c < n; c++) {
        out[c] = r->integers ? (float)((const int32_t *)target)[c] : ((const float *)target)[c];
        out[n + c] = value[c];
        square += pow((double)out[n + c] - (double)out[c], 2);
    }

    if (r->scaling) {
        sw_scaling_undo(r->scaling, out);
        sw_scaling_undo(r->scaling, out + n);
    }

    const double error = n == 1 ? fabs((double)out[1] - (double)out[0]) : sqrt(square);
    return isnan(error) ? (double)INFINITY : error;
}

/* Moves the row in the first free place to its place among the worst; the last one drops out. */
static void keep_worst(struct sw_value_report *r)
{
    int at = r->worst_count;
    const struct sw_value_sample s = r->worst[at];

    for (; at > 0 && s.error > r->worst[at - 1].error; at--)
        r->worst[at] = r->worst[at - 1];
    r->worst[at] = s;
    r->worst_count += r->worst_count < r->worst_most;
}

int sw_value_report_rows(struct sw_value_report *r, const float *values, const void *targets,
                         int64_t count, struct sw_err *err)
{
    const size_t width = 2 * (size_t)r->columns * sizeof(float);

    for (int64_t i = 0; i < count; i++, r->rows++) {
        struct sw_value_sample *s = &r->worst[r->worst_count];

        s->record = r->rows;
        s->error =
            read_row(r, values + i * r->columns,
                     (const char *)targets + (size_t)(i * r->columns) * sizeof(float), s->values);
        if (r->with_points) {
            int rc = sw_grow(&r->points, width, r->rows, &r->room, 1024, "points", err);
            if (rc != SW_OK)
                return rc;
            memcpy((char *)r->points + (size_t)r->rows * width, s->values, width);
        }

        keep_worst(r);
    }

    return SW_OK;
}

int sw_value_report_finish(struct sw_value_report *r, const struct sw_source *source,
                           struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < r->worst_count && rc == SW_OK; i++)
        rc = sw_source_locate(source, &r->worst[i].record, &r->worst[i].where, err);
    return rc;
}

void sw_value_report_fini(struct sw_value_report *r)
{
    for (int i = 0; r->worst && i < r->worst_count; i++)
        sw_free(r->worst[i].where);
    sw_free(r->worst);
    sw_free(r->values);
    sw_free(r->points);
    *r = (struct sw_value_report){0};
}
