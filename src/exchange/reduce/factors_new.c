/* Makes and frees the exchange of factors: arrays, events and streams of every rank, and the logs
 * of layers. */
#include "exchange/reduce/factors_private.h"

#include "base/os.h"

enum { ALIGN = 16 }; /* elements: 64 bytes */

static int64_t aligned(int64_t elements)
{
    return (elements + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t elements_of(const struct sw_factors_layer *l, int64_t batch_rows)
{
    int64_t rows = batch_rows * l->steps;
    return aligned(rows * l->inputs) + aligned(rows * l->outputs);
}

/* Rounds of a group that another one may have yet to read. */
static int depth_of(int groups, int64_t staleness)
{
    return groups > 1 ? (int)(2 * staleness + 2) : 1;
}

static int arrays_of(const struct sw_factors_args *a)
{
    return 1 + (a->groups - 1) * depth_of(a->groups, a->staleness);
}

size_t sw_factors_bytes(const struct sw_factors_args *a)
{
    int64_t elements = 0;
    for (int i = 0; i < a->count; i++)
        elements += arrays_of(a) * elements_of(&a->layers[i], a->batch_rows);
    return (size_t)elements * sizeof(float);
}

int64_t sw_factors_most_updates(int groups, int64_t staleness)
{
    return (int64_t)groups * depth_of(groups, staleness);
}

/* ---- Life ---- */

static int init_readers(struct sw_factors *f, struct sw_factors_rank *r, struct sw_err *err)
{
    size_t count = (size_t)f->count * SW_FACTORS_READERS;

    r->reader = sw_calloc(count, sizeof *r->reader);
    for (size_t i = 0; r->reader && i < count; i++) {
        r->reader[i].rounds = sw_calloc((size_t)f->groups, sizeof(uint64_t));
        if (!r->reader[i].rounds)
            return sw_err_nomem(err, "factors of gradients", (size_t)f->groups * sizeof(uint64_t));
    }

    return r->reader ? SW_OK : sw_err_nomem(err, "factors of gradients", count * sizeof *r->reader);
}

static int init_events(struct sw_factors *f, struct sw_factors_rank *r, struct sw_err *err)
{
    const size_t arrays = (size_t)f->count * (size_t)f->arrays;
    int rc = SW_OK;

    r->made = sw_calloc((size_t)f->count, sizeof(void *));
    r->at = sw_calloc(arrays, sizeof *r->at);
    if (!r->made || !r->at)
        return sw_err_nomem(err, "factors of gradients", arrays * sizeof *r->at);

    for (int i = 0; i < f->count && rc == SW_OK; i++)
        rc = sw_event_new(r->device, &r->made[i], err);
    for (size_t i = 0; i < arrays && rc == SW_OK; i++) {
        rc = sw_event_new(r->device, &r->at[i].arrived, err);
        if (rc == SW_OK && i % (size_t)f->arrays > 0)
            rc = sw_event_new(r->device, &r->at[i].used, err);
    }

    return rc;
}

static int init_rank(struct sw_factors *f, struct sw_factors_rank *r, struct sw_err *err)
{
    void *memory;

    int rc = sw_device_alloc(r->device, f->bytes, "factors of gradients", &memory, err);
    if (rc != SW_OK)
        return rc;

    r->memory = memory;
    sw_device_name(r->device, r->memory, f->bytes, "factors of gradients");

    rc = sw_stream_new_urgent(r->device, 1, &r->stream, err);
    if (rc != SW_OK)
        return rc;

    sw_stream_name(r->stream, "factors");

    rc = init_readers(f, r, err);
    return rc == SW_OK ? init_events(f, r, err) : rc;
}

static int init_layer(struct sw_factors *f, struct sw_factors_layer_state *l,
                      const struct sw_factors_args *args, const struct sw_factors_layer *shape,
                      struct sw_err *err)
{
    size_t log = (size_t)f->log_entries;

    *l = (struct sw_factors_layer_state){
        .shape = *shape,
        .elements = elements_of(shape, args->batch_rows),
        .dy_at = aligned(args->batch_rows * shape->steps * shape->inputs),
        .rounds = sw_calloc((size_t)f->groups, sizeof *l->rounds),
        .log = sw_calloc(log, sizeof *l->log)};

    return l->rounds && l->log ? SW_OK
                               : sw_err_nomem(err, "factors of gradients", log * sizeof *l->log);
}

static int make(struct sw_factors *f, const struct sw_factors_args *args, struct sw_err *err)
{
    int64_t at = 0;

    f->rank = sw_calloc((size_t)args->ranks, sizeof *f->rank);
    f->layer = sw_calloc((size_t)args->count, sizeof *f->layer);
    if (!f->rank || !f->layer)
        return sw_err_nomem(err, "factors of gradients", (size_t)args->count * sizeof *f->layer);

    f->ranks = args->ranks;
    f->count = args->count;

    f->bytes = sw_factors_bytes(args);
    for (int i = 0; i < f->count; i++) {
        int rc = init_layer(f, &f->layer[i], args, &args->layers[i], err);
        if (rc != SW_OK)
            return rc;

        f->layer[i].at = at;
        at += f->arrays * f->layer[i].elements;
    }

    for (int r = 0; r < f->ranks; r++) {
        f->rank[r].device = args->devices[r];
        int rc = init_rank(f, &f->rank[r], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_factors_new(const struct sw_factors_args *args, struct sw_factors **out, struct sw_err *err)
{
    struct sw_factors *f = sw_calloc(1, sizeof *f);
    if (!f)
        return sw_err_nomem(err, "factors of gradients", sizeof *f);

    f->groups = args->groups;
    f->group_size = args->ranks / args->groups;
    f->staleness = args->staleness;
    f->depth = depth_of(args->groups, args->staleness);
    f->arrays = arrays_of(args);
    f->log_entries = sw_factors_most_updates(args->groups, args->staleness);
    sw_mutex_init(&f->lock);

    int rc = sw_rounds_init(&f->rounds, "factors", args->count * f->groups, f->group_size, err);
    if (rc != SW_OK)
        goto out;
    rc = make(f, args, err);
    if (rc != SW_OK)
        goto out;

    *out = f;
    return SW_OK;

out:
    sw_factors_free(f);
    return rc;
}

static void free_rank(const struct sw_factors *f, struct sw_factors_rank *r)
{
    for (int i = 0; r->made && i < f->count; i++)
        sw_event_free(r->device, r->made[i]);
    for (int i = 0; r->at && i < f->count * f->arrays; i++) {
        sw_event_free(r->device, r->at[i].arrived);
        sw_event_free(r->device, r->at[i].used);
    }
    for (int i = 0; r->reader && i < f->count * SW_FACTORS_READERS; i++)
        sw_free(r->reader[i].rounds);

    sw_free(r->made);
    sw_free(r->at);
    sw_free(r->reader);
    sw_device_free(r->device, r->memory, f->bytes);
}

void sw_factors_free(struct sw_factors *f)
{
    if (!f)
        return;

    for (int r = 0; r < f->ranks; r++)
        sw_stream_free(f->rank[r].stream);
    for (int r = 0; r < f->ranks; r++)
        free_rank(f, &f->rank[r]);
    for (int i = 0; i < f->count; i++) {
        sw_free(f->layer[i].rounds);
        sw_free(f->layer[i].log);
    }

    sw_free(f->rank);
    sw_free(f->layer);
    sw_rounds_fini(&f->rounds);
    sw_mutex_fini(&f->lock);
    sw_free(f);
}
