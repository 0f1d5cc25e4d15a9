/* Initial values of parameters, whole or in parts, in the layouts in which they are stored. */
#include "exchange/table/table_private.h"

#include "base/os.h"
#include "base/str.h"
#include <string.h>

static struct sw_init_shape init_shape(const struct sw_param *p)
{
    int64_t dim[SW_MAX_DIMS], columns = 1;
    int ndim = sw_param_whole(p, dim);

    for (int i = 1; i < ndim; i++)
        columns *= dim[i];
    return (struct sw_init_shape){
        .fan_in = p->fan_in, .fan_out = p->fan_out, .rows = dim[0], .columns = columns};
}

/* A gradient array serves as buffer for the plain order; for a parameter without, such as a frozen
 * one, a buffer is allocated. */
static int init_alone(struct sw_table *t, struct sw_param *p, struct sw_err *err)
{
    struct sw_init_shape shape = init_shape(p);
    struct sw_param_runs runs = sw_param_runs(p);
    int64_t n = sw_desc_count(&p->layout);
    float *gradient = p->gradient[p->owner < 0 ? 0 : t->first_partial[p->owner]];
    float *room = gradient ? NULL : sw_calloc((size_t)n + 1, sizeof *room);
    float *plain = gradient ? gradient : room;
    if (!plain)
        return sw_err_nomem(err, "initial values", (size_t)n * sizeof *plain);

    int rc = SW_OK;
    for (int64_t r = 0; r < runs.count; r++) {
        int64_t first = runs.first + r * runs.step;
        const struct sw_init_range range = {first, first + runs.length, plain + r * runs.length};
        rc = sw_init_fill(&p->init, t->args.seed, p->name, &shape, &range, err);
        if (rc != SW_OK)
            goto out;
    }

    sw_desc_from_plain(&p->layout, plain, p->value);

out:
    if (gradient)
        memset(gradient, 0, sw_param_array_bytes(p));
    sw_free(room);

    return rc;
}

/* Copies a part of `whole`, through a buffer for the part in plain order. */
static void take_part(struct sw_param *part, const float *whole, float *room)
{
    struct sw_param_runs runs = sw_param_runs(part);

    for (int64_t r = 0; r < runs.count; r++)
        memcpy(room + r * runs.length, whole + runs.first + r * runs.step,
               (size_t)runs.length * sizeof *room);

    sw_desc_from_plain(&part->layout, room, part->value);
}

/* Values that depend on one another are computed once, for all parts. */
static int init_whole(struct sw_table *t, const struct sw_param *p, struct sw_err *err)
{
    struct sw_init_shape shape = init_shape(p);
    int64_t n = shape.rows * shape.columns;

    if (p->part_first > 0)
        return SW_OK;

    float *plain = sw_calloc(2 * (size_t)n + 1, sizeof *plain);
    if (!plain)
        return sw_err_nomem(err, "initial values", 2 * (size_t)n * sizeof *plain);

    int rc = sw_init_fill(&p->init, t->args.seed, p->name, &shape,
                          &(struct sw_init_range){0, n, plain}, err);
    for (int i = 0; i < t->param_count && rc == SW_OK; i++) {
        struct sw_param *part = &t->params[i];
        if (sw_str_eq(part->name, p->name))
            take_part(part, plain, plain + n);
    }

    sw_free(plain);
    return rc;
}

static int init_value(struct sw_table *t, struct sw_param *p, struct sw_err *err)
{
    int rc = sw_init_is_whole(&p->init) ? init_whole(t, p, err) : init_alone(t, p, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "parameter %s", p->name);
    return SW_OK;
}

int sw_table_init_values(struct sw_table *t, struct sw_err *err)
{
    for (int i = 0; i < t->param_count; i++) {
        int rc = init_value(t, &t->params[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
