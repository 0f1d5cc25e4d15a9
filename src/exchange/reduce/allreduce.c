/* The all-reduce: creation, order and waits of buckets; the two backends that reduce a bucket are
 * in allreduce_copies.c and allreduce_library.c. A complete bucket is queued only when its turn in
 * the fixed order has come, so every device sees the same sequence (queue_complete). The locking is
 * described in rounds.h; nothing here waits for a device. */
#include "exchange/reduce/allreduce_private.h"

#include "base/os.h"

static const struct sw_allreduce_backend *backend_of(const struct sw_collective *library)
{
    return library ? &sw_allreduce_library : &sw_allreduce_copies;
}

static int64_t bytes_of(const struct sw_allreduce_backend *backend, const int64_t *elements,
                        int buckets, int ranks)
{
    int64_t all = backend->stage(elements, buckets, ranks);
    for (int b = 0; b < buckets; b++)
        all += sw_allreduce_aligned(elements[b]);
    return all * (int64_t)sizeof(float);
}

size_t sw_allreduce_bytes(const int64_t *elements, int buckets, int ranks, bool by_library)
{
    const struct sw_allreduce_backend *backend =
        by_library ? &sw_allreduce_library : &sw_allreduce_copies;
    return (size_t)bytes_of(backend, elements, buckets, ranks);
}

/* ---- Life ---- */

static int init_rank(struct sw_allreduce *a, struct sw_allreduce_rank *r, struct sw_err *err)
{
    void *memory;

    r->at = sw_calloc((size_t)a->buckets, sizeof *r->at);
    if (!r->at)
        return sw_err_nomem(err, "an all-reduce", (size_t)a->buckets * sizeof *r->at);

    int rc = sw_device_alloc(r->device, a->bytes, "gradients", &memory, err);
    if (rc != SW_OK)
        return rc;

    r->memory = memory;

    size_t buckets_bytes = (size_t)a->stage_at * sizeof(float);
    if (a->bytes > buckets_bytes) {
        sw_device_name(r->device, r->memory, buckets_bytes, "gradients");
        sw_device_name(r->device, r->memory + a->stage_at, a->bytes - buckets_bytes,
                       "gradients of other devices");
    }

    rc = sw_stream_new_urgent(r->device, 1, &r->stream, err);
    if (rc != SW_OK)
        return rc;

    sw_stream_name(r->stream, "all-reduce");

    for (int b = 0; b < a->buckets; b++) {
        rc = sw_event_new(r->device, &r->at[b].made, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_event_new(r->device, &r->at[b].summed, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_event_new(r->device, &r->at[b].done, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int make(struct sw_allreduce *a, const struct sw_allreduce_args *args, struct sw_err *err)
{
    size_t buckets = (size_t)args->buckets + 1;

    a->rank = sw_calloc((size_t)args->ranks, sizeof *a->rank);
    a->bucket = sw_calloc(buckets, sizeof *a->bucket);

    a->order = sw_calloc(buckets, sizeof *a->order);
    if (!a->rank || !a->bucket || !a->order)
        return sw_err_nomem(err, "an all-reduce", buckets * sizeof *a->bucket);

    a->ranks = args->ranks;

    a->buckets = args->buckets;
    for (int b = 0; b < a->buckets; b++) {
        a->bucket[b] =
            (struct sw_allreduce_bucket){.elements = args->elements[b], .offset = a->stage_at};
        a->order[b] = args->order[b];
        a->stage_at += sw_allreduce_aligned(args->elements[b]);
    }

    a->shard_elements = a->backend->stage(args->elements, args->buckets, args->ranks) / args->ranks;

    a->bytes = (size_t)bytes_of(a->backend, args->elements, args->buckets, args->ranks);
    for (int r = 0; r < a->ranks; r++) {
        a->rank[r].device = args->devices[r];
        int rc = init_rank(a, &a->rank[r], err);
        if (rc != SW_OK)
            return rc;
    }

    return a->backend->prepare ? a->backend->prepare(a, args->first_ms, err) : SW_OK;
}

int sw_allreduce_new(const struct sw_allreduce_args *args, struct sw_allreduce **out,
                     struct sw_err *err)
{
    const struct sw_allreduce_backend *backend = backend_of(args->library);
    if (args->ranks < backend->min_ranks || args->ranks > SW_ALLREDUCE_RANKS)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "all-reduce over %d devices is not possible: the limit is %d to %d devices",
            args->ranks, backend->min_ranks, SW_ALLREDUCE_RANKS);

    struct sw_allreduce *a = sw_calloc(1, sizeof *a);
    if (!a)
        return sw_err_nomem(err, "an all-reduce", sizeof *a);

    a->backend = backend;
    a->library = args->library;
    a->loss_ms = args->loss_ms;

    int rc = sw_rounds_init(&a->rounds, "bucket", args->buckets, args->ranks, err);
    if (rc != SW_OK)
        goto out;
    rc = make(a, args, err);
    if (rc != SW_OK)
        goto out;

    *out = a;
    return SW_OK;

out:
    if (!a->library || !a->library->hanging)
        sw_allreduce_free(a);
    return rc;
}

static void free_rank(const struct sw_allreduce *a, struct sw_allreduce_rank *r)
{
    for (int b = 0; r->at && b < a->buckets; b++) {
        sw_event_free(r->device, r->at[b].made);
        sw_event_free(r->device, r->at[b].summed);
        sw_event_free(r->device, r->at[b].done);
    }

    sw_free(r->at);
    sw_device_free(r->device, r->memory, a->bytes);
}

void sw_allreduce_free(struct sw_allreduce *a)
{
    if (!a)
        return;

    for (int r = 0; r < a->ranks; r++)
        sw_stream_free(a->rank[r].stream);
    for (int r = 0; r < a->ranks; r++)
        free_rank(a, &a->rank[r]);
    sw_free(a->rank);
    sw_free(a->bucket);
    sw_free(a->order);
    sw_rounds_fini(&a->rounds);
    sw_free(a);
}

float *sw_allreduce_bucket(const struct sw_allreduce *a, int rank, int bucket)
{
    return sw_allreduce_place(a, rank, bucket);
}

/* ---- What ranks do ---- */

/* Queues all complete buckets whose turn has come. Called by one rank at a time. */
static int queue_complete(void *allreduce, int complete, struct sw_err *err)
{
    struct sw_allreduce *a = allreduce;

    a->bucket[complete].is_complete = true; /* the next bucket in the order may be another one */

    for (;;) {
        int b = a->order[a->next];
        if (!a->bucket[b].is_complete)
            return SW_OK;

        int rc = a->backend->queue(a, b, err);
        if (rc != SW_OK)
            return rc;

        a->bucket[b].is_complete = false;
        a->next = (a->next + 1) % a->buckets;
        sw_rounds_next(&a->rounds, b);
    }
}

int sw_allreduce_push(struct sw_allreduce *a, int rank, int bucket, uint64_t round,
                      struct sw_stream *compute, struct sw_err *err)
{
    int rc = sw_event_record(compute, a->rank[rank].at[bucket].made, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_rounds_arrive(&a->rounds, bucket, round, queue_complete, a, err);

    /* If a host is lost, its name says more. */
    if (rc == SW_ERR_LIBRARY && a->loss_ms > 0 && sw_rounds_wait_closed(&a->rounds, a->loss_ms))
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    return rc;
}

int sw_allreduce_wait(struct sw_allreduce *a, int bucket, uint64_t round, int timeout_ms)
{
    return sw_rounds_wait(&a->rounds, bucket, round, timeout_ms);
}

int sw_allreduce_take(struct sw_allreduce *a, int rank, int bucket, struct sw_stream *compute,
                      struct sw_err *err)
{
    if (!a->backend->reads_others)
        return sw_event_wait(compute, a->rank[rank].at[bucket].done, err);

    for (int r = 0; r < a->ranks; r++) {
        int rc = sw_event_wait(compute, a->rank[r].at[bucket].done, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int64_t sw_allreduce_round_bytes(const struct sw_allreduce *a, int from, int to)
{
    int64_t elements = 0, first, theirs, own;

    for (int b = 0; b < a->buckets && from != to; b++) {
        sw_allreduce_shard(a->bucket[b].elements, a->ranks, to, &first, &theirs);
        sw_allreduce_shard(a->bucket[b].elements, a->ranks, from, &first, &own);
        elements += theirs + own; /* scatter, then gather */
    }

    return elements * (int64_t)sizeof(float);
}

/* Is the error to be reported, or may it still be the loss of a host? */
static bool is_due(struct sw_allreduce *a)
{
    int64_t now_ns = sw_os()->monotonic_ns();

    if (a->failed_ns == 0)
        a->failed_ns = now_ns;
    return now_ns - a->failed_ns >= (int64_t)a->loss_ms * 1000000;
}

int sw_allreduce_check(struct sw_allreduce *a, struct sw_err *err)
{
    int rc = a->library ? sw_collective_check(a->library, err) : SW_OK;
    return rc == SW_OK || is_due(a) ? rc : SW_OK;
}

int sw_allreduce_verify(struct sw_allreduce *a, struct sw_err *err)
{
    int rc = sw_collective_check(a->library, err);

    /* Last, because the close comes before the abort. */
    if (sw_rounds_is_closed(&a->rounds))
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    return rc;
}

/* First closes, for sw_allreduce_verify. A thread may be blocked in the library, which the abort
 * ends. */
void sw_allreduce_close_v(void *allreduce)
{
    struct sw_allreduce *a = allreduce;

    sw_rounds_close(&a->rounds);
    if (a->library)
        sw_collective_abort(a->library);
}
