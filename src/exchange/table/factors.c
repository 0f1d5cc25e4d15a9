/* Gradients from factors, in the parameter table. Slices of such a parameter are ranges of whole
 * outputs, at least as many as servers, since making a gradient is work; a bias has the slices of
 * its weight. Every server owns a run of them, so that it needs one contiguous part of dy. A
 * gradient is made, slice by slice, where sums are made otherwise, and exists once per update
 * group. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

#include "base/os.h"
#include "device/op.h"
#include "kernels/ops/rebuild.h"

/* Updates of exchanged factors are counted by one table, and have one order (reduce/factors.h). */
static int check_exchanged(const struct sw_table *t, struct sw_err *err)
{
    if (sw_table_has_outer(t) || t->args.remote_groups > 0 || t->args.others > 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "factors that devices exchange cannot be summed over several tables");
    if (t->args.rule->is_async && (t->args.rule->races || t->args.staleness < 0))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "factors that devices exchange need a staleness bound");
    return SW_OK;
}

int sw_table_add_factors(struct sw_table *t, const struct sw_table_factors *f, int *number,
                         struct sw_err *err)
{
    int rc = f->home == SW_FACTORS_EXCHANGED ? check_exchanged(t, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    if (t->factor_count == t->factor_capacity) {
        int capacity = t->factor_capacity ? 2 * t->factor_capacity : 4;
        struct sw_table_factors *more =
            sw_realloc_array(t->factors, (size_t)capacity, sizeof *more);
        if (!more)
            return sw_err_nomem(err, "factors of gradients", (size_t)capacity * sizeof *more);

        t->factors = more;
        t->factor_capacity = capacity;
    }

    struct sw_table_factors *own = &t->factors[t->factor_count];
    *own = *f;
    own->weight = own->bias = -1;
    own->x = own->dy = NULL;

    if (f->home != SW_FACTORS_EXCHANGED) {
        size_t arrays = (size_t)t->local_groups * (size_t)t->args.servers;

        own->x = sw_calloc(arrays, sizeof *own->x);
        own->dy = sw_calloc(arrays, sizeof *own->dy);
        if (!own->x || !own->dy) {
            sw_free(own->x);
            sw_free(own->dy);
            return sw_err_nomem(err, "factors of gradients", arrays * sizeof *own->x);
        }
    }

    *number = ++t->factor_count;
    return SW_OK;
}

void sw_factor_free(struct sw_table *t)
{
    for (int i = 0; i < t->factor_count; i++) {
        sw_free(t->factors[i].x);
        sw_free(t->factors[i].dy);
    }

    sw_free(t->factors);
}

int sw_table_factor_count(const struct sw_table *t)
{
    return t->factor_count;
}

const struct sw_table_factors *sw_table_factors_at(const struct sw_table *t, int i)
{
    return &t->factors[i];
}

const struct sw_table_factors *sw_table_factors_of(const struct sw_table *t, int param)
{
    int f = t->params[param].factors;
    return f < 0 ? NULL : &t->factors[f];
}

/* ---- Slices ---- */

int sw_factor_slices(const struct sw_table *t, const struct sw_param *p)
{
    const struct sw_table_factors *f = &t->factors[p->factors];
    int64_t pieces = (f->outputs * f->inputs + t->args.slice_elements - 1) / t->args.slice_elements;

    pieces = pieces < t->args.servers ? t->args.servers : pieces;
    pieces = pieces > f->outputs ? f->outputs : pieces;
    return p->frozen ? 0 : (int)pieces;
}

void sw_factor_make_slices(struct sw_table *t, int param)
{
    struct sw_param *p = &t->params[param];
    const struct sw_table_factors *f = &t->factors[p->factors];
    int64_t first, outputs, each = p->layout.ndim > 1 ? f->inputs : 1;
    int slices = sw_factor_slices(t, p);

    p->first_slice = t->slice_count;

    p->slice_count = slices;
    for (int i = 0; i < slices; i++) {
        sw_part(f->outputs, slices, i, &first, &outputs);
        t->slices[t->slice_count++] =
            (struct sw_slice){.param = param, .from = first * each, .count = outputs * each};
    }
}

int sw_factor_server(const struct sw_table *t, const struct sw_slice *s)
{
    const struct sw_table_factors *f = sw_table_factors_of(t, s->param);
    const struct sw_param *p = &t->params[s->param];
    return f ? (int)((s - &t->slices[p->first_slice]) * t->args.servers / p->slice_count) : -1;
}

void sw_table_factor_range(const struct sw_table *t, const struct sw_table_factors *f, int server,
                           int64_t *first, int64_t *count)
{
    const struct sw_param *p = &t->params[f->weight];

    *first = *count = 0;
    for (int i = p->first_slice; i < p->first_slice + p->slice_count; i++) {
        const struct sw_slice *s = &t->slices[i];
        if (s->server != server)
            continue;

        *first = *count ? *first : s->from / f->inputs;
        *count += s->count / f->inputs;
    }
}

/* ---- Memory ---- */

static size_t aligned(int64_t elements)
{
    return ((size_t)elements * sizeof(float) + SW_TABLE_ALIGN_BYTES - 1) / SW_TABLE_ALIGN_BYTES *
           SW_TABLE_ALIGN_BYTES;
}

static int copies_of(const struct sw_table *t, const struct sw_table_factors *f)
{
    return f->home == SW_FACTORS_SHARED ? 1 : f->home == SW_FACTORS_BY_SERVER ? t->args.servers : 0;
}

/* Does a server read that copy? */
static bool is_read(const struct sw_table *t, const struct sw_table_factors *f, int copy)
{
    return f->home == SW_FACTORS_SHARED || sw_table_has_slices(t, copy, f->weight);
}

/* Sets the addresses of all arrays, from `memory` on, unless that is NULL; returns the bytes of
 * all. */
static size_t lay_out(const struct sw_table *t, char *memory)
{
    size_t at = 0;

    for (int i = 0; i < t->factor_count; i++) {
        const struct sw_table_factors *f = &t->factors[i];
        int copies = copies_of(t, f);

        for (int n = 0; n < t->local_groups * copies; n++) {
            if (!is_read(t, f, n % copies))
                continue;

            size_t x_bytes = aligned(f->rows * f->inputs), dy_bytes = aligned(f->rows * f->outputs);
            if (memory) {
                f->x[n] = (float *)(void *)(memory + at);
                f->dy[n] = (float *)(void *)(memory + at + x_bytes);
            }

            at += x_bytes + dy_bytes;
        }
    }

    return at;
}

size_t sw_factor_bytes(const struct sw_table *t)
{
    return lay_out(t, NULL);
}

void sw_factor_point(struct sw_table *t, char *memory)
{
    lay_out(t, memory);
}

/* Binds a server's copy, and the gradients that it makes, to the server's NUMA nodes. */
void sw_factor_place(struct sw_table *t)
{
    const struct sw_table_args *a = &t->args;

    for (int i = 0; i < t->factor_count; i++) {
        const struct sw_table_factors *f = &t->factors[i];
        int copies = copies_of(t, f);

        for (int n = 0; n < t->local_groups * copies && copies == a->servers; n++) {
            uint64_t nodes = a->server_nodes(a->nodes_user, n % copies);

            if (!f->x[n])
                continue;

            sw_device_place(a->device, f->x[n], aligned(f->rows * f->inputs), nodes);
            sw_device_place(a->device, f->dy[n], aligned(f->rows * f->outputs), nodes);
        }
    }

    for (int i = 0; i < t->slice_count; i++) {
        const struct sw_slice *s = &t->slices[i];
        uint64_t nodes = a->server_nodes(a->nodes_user, s->server);
        bool made = t->params[s->param].factors >= 0 && !sw_table_is_exchanged(t, s->param);
        for (int r = 0; r < t->update_groups && made; r++)
            sw_device_place(a->device, t->params[s->param].view[r].gradient + s->from,
                            (size_t)s->count * sizeof(float), nodes);
    }
}

static int array_of(const struct sw_table *t, const struct sw_table_factors *f, int group,
                    int server)
{
    int copies = copies_of(t, f);
    return group * copies + (copies > 1 ? server : 0);
}

float *sw_table_factor_x(const struct sw_table *t, const struct sw_table_factors *f, int group,
                         int server)
{
    return f->x[array_of(t, f, group, server)];
}

float *sw_table_factor_dy(const struct sw_table *t, const struct sw_table_factors *f, int group,
                          int server)
{
    return f->dy[array_of(t, f, group, server)];
}

/* ---- Gradients ---- */

int sw_factor_rebuild(const struct sw_table *t, const struct sw_slice *s, int group, float *out,
                      struct sw_err *err)
{
    const struct sw_table_factors *f = sw_table_factors_of(t, s->param);
    if (!f)
        return SW_OK;

    bool is_weight = s->param == f->weight;
    int64_t inputs = is_weight ? f->inputs : 1;
    const struct sw_rebuild_args a = {
        .rows = f->rows,
        .outputs = s->count / inputs,
        .inputs = inputs,
        .dy_step = f->outputs,
        .x = is_weight ? sw_table_factor_x(t, f, group, s->server) : NULL,
        .dy = sw_table_factor_dy(t, f, group, s->server) + s->from / inputs,
        .out = out};
    return sw_op_compute(&sw_op_rebuild, sw_math_team(), t->args.precision, &a, err);
}
