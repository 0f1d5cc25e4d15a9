/* Factors between devices: memory, and the copies that bring every rank all rows. Events order what
 * devices do:
 *
 *     made[r]     on r's compute stream: its rows are complete, and it reads no rows of the
 *                 previous round any more
 *     arrived[r]  on r's copy stream: it has the rows of all ranks
 *
 * A rank that pulls a layer waits for `arrived` of all ranks, because it may then overwrite rows
 * that others have read. */
#include "exchange/reduce/factors.h"

#include "base/os.h"
#include "device/send_limit.h"
#include "exchange/reduce/rounds.h"

enum { ALIGN = 16 }; /* elements: 64 bytes */

struct events {
    struct sw_event *made, *arrived; /* owned */
};

struct rank {
    struct sw_device *device; /* borrowed */
    struct sw_stream *stream; /* owned; used by the rank that queues */
    float *memory;            /* owned */
    struct events *at;        /* owned [layers] */
    int64_t first, rows;      /* of the batch */
};

struct layer {
    struct sw_factors_layer shape;
    int64_t x_at, dy_at; /* elements */
};

struct sw_factors {
    struct rank *rank; /* owned [ranks] */
    int ranks;
    struct layer *layer; /* owned [count] */
    int count;
    size_t bytes;            /* of a rank's memory */
    struct sw_rounds rounds; /* of the layers; one rank at a time uses the streams */
};

static int64_t aligned(int64_t elements)
{
    return (elements + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t elements_of(const struct sw_factors_layer *l, int64_t batch_rows)
{
    int64_t rows = batch_rows * l->steps;
    return aligned(rows * l->inputs) + aligned(rows * l->outputs);
}

size_t sw_factors_bytes(const struct sw_factors_layer *layers, int count, int64_t batch_rows)
{
    int64_t elements = 0;
    for (int i = 0; i < count; i++)
        elements += elements_of(&layers[i], batch_rows);
    return (size_t)elements * sizeof(float);
}

/* ---- Life ---- */

static int init_rank(struct sw_factors *f, struct rank *r, struct sw_err *err)
{
    void *memory;

    r->at = sw_calloc((size_t)f->count, sizeof *r->at);
    if (!r->at)
        return sw_err_nomem(err, "factors of gradients", (size_t)f->count * sizeof *r->at);

    int rc = sw_device_alloc(r->device, f->bytes, "factors of gradients", &memory, err);
    if (rc != SW_OK)
        return rc;

    r->memory = memory;
    sw_device_name(r->device, r->memory, f->bytes, "factors of gradients");

    rc = sw_stream_new_urgent(r->device, 1, &r->stream, err);
    if (rc != SW_OK)
        return rc;

    sw_stream_name(r->stream, "factors");

    for (int i = 0; i < f->count; i++) {
        rc = sw_event_new(r->device, &r->at[i].made, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_event_new(r->device, &r->at[i].arrived, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
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

    f->bytes = sw_factors_bytes(args->layers, args->count, args->batch_rows);
    for (int i = 0; i < f->count; i++) {
        const struct sw_factors_layer *l = &args->layers[i];

        f->layer[i] =
            (struct layer){.shape = *l,
                           .x_at = at,
                           .dy_at = at + aligned(args->batch_rows * l->steps * l->inputs)};
        at += elements_of(l, args->batch_rows);
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

    int rc = sw_rounds_init(&f->rounds, "factors", args->count, args->ranks, err);
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

static void free_rank(const struct sw_factors *f, struct rank *r)
{
    for (int i = 0; r->at && i < f->count; i++) {
        sw_event_free(r->device, r->at[i].made);
        sw_event_free(r->device, r->at[i].arrived);
    }

    sw_free(r->at);
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
    sw_free(f->rank);
    sw_free(f->layer);
    sw_rounds_fini(&f->rounds);
    sw_free(f);
}

void sw_factors_set_rows(struct sw_factors *f, int rank, int64_t first, int64_t rows)
{
    f->rank[rank].first = first;
    f->rank[rank].rows = rows;
}

float *sw_factors_x(const struct sw_factors *f, int rank, int layer)
{
    return f->rank[rank].memory + f->layer[layer].x_at;
}

float *sw_factors_dy(const struct sw_factors *f, int rank, int layer)
{
    return f->rank[rank].memory + f->layer[layer].dy_at;
}

/* ---- Queueing a layer, by one rank at a time ---- */

/* Copies rank q's rows of an array to rank r; `columns` are those of a row of the batch. */
static int fetch(struct sw_factors *f, int r, int q, int64_t at, int64_t columns,
                 struct sw_err *err)
{
    const struct rank *from = &f->rank[q], *to = &f->rank[r];
    int64_t first = at + from->first * columns;
    return sw_send_peer(to->stream, to->device, to->memory + first, from->device,
                        from->memory + first, (size_t)(from->rows * columns) * sizeof(float), err);
}

static int gather(struct sw_factors *f, int r, int i, struct sw_err *err)
{
    struct rank *own = &f->rank[r];
    const struct layer *l = &f->layer[i];

    int rc = sw_event_wait(own->stream, own->at[i].made, err);
    if (rc != SW_OK)
        return rc;

    for (int q = 0; q < f->ranks; q++) {
        if (q == r || f->rank[q].rows == 0)
            continue;

        rc = sw_event_wait(own->stream, f->rank[q].at[i].made, err);
        if (rc != SW_OK)
            return rc;
        rc = fetch(f, r, q, l->x_at, l->shape.steps * l->shape.inputs, err);
        if (rc != SW_OK)
            return rc;
        rc = fetch(f, r, q, l->dy_at, l->shape.steps * l->shape.outputs, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_event_record(own->stream, own->at[i].arrived, err);
}

static int gather_all(void *factors, int i, struct sw_err *err)
{
    struct sw_factors *f = factors;

    for (int r = 0; r < f->ranks; r++) {
        int rc = gather(f, r, i, err);
        if (rc != SW_OK)
            return rc;
    }

    sw_rounds_next(&f->rounds, i);
    return SW_OK;
}

/* ---- What ranks do ---- */

int sw_factors_push(struct sw_factors *f, int rank, int layer, uint64_t round,
                    struct sw_stream *compute, struct sw_err *err)
{
    int rc = sw_event_record(compute, f->rank[rank].at[layer].made, err);
    if (rc != SW_OK)
        return rc;
    return sw_rounds_arrive(&f->rounds, layer, round, gather_all, f, err);
}

int sw_factors_wait(struct sw_factors *f, int layer, uint64_t round, int timeout_ms)
{
    return sw_rounds_wait(&f->rounds, layer, round, timeout_ms);
}

int sw_factors_take(struct sw_factors *f, int layer, struct sw_stream *compute, struct sw_err *err)
{
    for (int r = 0; r < f->ranks; r++) {
        int rc = sw_event_wait(compute, f->rank[r].at[layer].arrived, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int64_t sw_factors_round_bytes(const struct sw_factors *f, int from, int to)
{
    int64_t columns = 0;

    for (int i = 0; i < f->count && from != to; i++) {
        const struct sw_factors_layer *l = &f->layer[i].shape;
        columns += l->steps * (l->inputs + l->outputs);
    }

    return f->rank[from].rows * columns * (int64_t)sizeof(float);
}

void sw_factors_close_v(void *factors)
{
    struct sw_factors *f = factors;
    sw_rounds_close(&f->rounds);
}
