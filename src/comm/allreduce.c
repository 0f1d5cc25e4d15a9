/* Peers. A bucket is cut into shares, one a rank. For its own share a rank fetches the others'
 * (scatter), adds them up in its stage and puts the sum into its bucket; when all have, each
 * fetches the sums of the other shares (gather). Events order all of it:
 *
 *     made[r]    on r's compute stream: its bucket is complete
 *     summed[r]  on r's stream here: its share is the sum, and it reads no other's bucket
 *     done[r]    the same: its bucket is the sum, and it reads no other's sums
 *
 * Who takes a bucket waits for done of all ranks: it may write where others have read. */
#include "comm/allreduce.h"

#include "base/os.h"
#include "base/tree.h"
#include "device/ops/fold.h"
#include "sync/thread.h"

enum { ALIGN = 16 }; /* elements: 64 bytes */

struct passage {
    struct sw_event *made, *summed, *done; /* owned */
};

struct rank {
    struct sw_device *device; /* borrowed */
    struct sw_stream *stream; /* owned; used under the lock */
    float *memory;            /* owned: buckets, then the stage */
    struct passage *at;       /* owned [buckets] */
};

struct bucket {
    int64_t elements, offset;
    int given;       /* ranks, of the round under way; under the lock, as are the others */
    uint64_t rounds; /* that are queued */
};

struct sw_allreduce {
    struct rank *rank; /* owned [ranks] */
    int ranks;
    struct bucket *bucket; /* owned [buckets] */
    int *order;            /* owned [buckets] */
    int buckets;
    int64_t stage_at, share; /* elements: where the stage begins, and a share in it at most */
    size_t bytes;            /* of a rank's memory */
    struct sw_mutex lock;    /* guards what says so, and the streams */
    struct sw_cond changed;
    int next; /* in the order: the one to queue; under the lock */
    bool closed;
};

static int64_t aligned(int64_t elements)
{
    return (elements + ALIGN - 1) / ALIGN * ALIGN;
}

/* Shares are whole lines, so that copies stay aligned. */
static void share_of(int64_t elements, int ranks, int r, int64_t *first, int64_t *count)
{
    int64_t lines, from;
    sw_part((elements + ALIGN - 1) / ALIGN, ranks, r, &from, &lines);
    *first = from * ALIGN;
    *count = lines * ALIGN;
    if (*first + *count > elements)
        *count = elements > *first ? elements - *first : 0;
}

static int64_t largest_share(const int64_t *elements, int buckets, int ranks)
{
    int64_t most = 0, first, count;
    for (int b = 0; b < buckets; b++) {
        share_of(elements[b], ranks, 0, &first, &count);
        most = count > most ? count : most;
    }
    return aligned(most);
}

size_t sw_allreduce_bytes(const int64_t *elements, int buckets, int ranks)
{
    int64_t all = largest_share(elements, buckets, ranks) * ranks;
    for (int b = 0; b < buckets; b++)
        all += aligned(elements[b]);
    return (size_t)all * sizeof(float);
}

/* ---- Life ---- */

static int init_rank(struct sw_allreduce *a, struct rank *r, struct sw_err *err)
{
    void *memory;
    r->at = sw_calloc((size_t)a->buckets, sizeof *r->at);
    if (!r->at)
        return sw_err_nomem(err, "an all-reduce", (size_t)a->buckets * sizeof *r->at);
    int rc = sw_device_alloc(r->device, a->bytes, "gradients that are added up", &memory, err);
    if (rc != SW_OK)
        return rc;
    r->memory = memory;
    sw_device_name(r->device, r->memory, (size_t)a->stage_at * sizeof(float), "gradients");
    sw_device_name(r->device, r->memory + a->stage_at,
                   a->bytes - (size_t)a->stage_at * sizeof(float), "gradients of other devices");
    rc = sw_stream_new(r->device, 1, &r->stream, err);
    if (rc == SW_OK)
        sw_stream_name(r->stream, "all-reduce");
    for (int b = 0; b < a->buckets && rc == SW_OK; b++) {
        rc = sw_event_new(r->device, &r->at[b].made, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->device, &r->at[b].summed, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->device, &r->at[b].done, err);
    }
    return rc;
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
        a->bucket[b] = (struct bucket){.elements = args->elements[b], .offset = a->stage_at};
        a->order[b] = args->order[b];
        a->stage_at += aligned(args->elements[b]);
    }
    a->share = largest_share(args->elements, args->buckets, args->ranks);
    a->bytes = sw_allreduce_bytes(args->elements, args->buckets, args->ranks);
    int rc = SW_OK;
    for (int r = 0; r < a->ranks && rc == SW_OK; r++) {
        a->rank[r].device = args->devices[r];
        rc = init_rank(a, &a->rank[r], err);
    }
    return rc;
}

int sw_allreduce_new(const struct sw_allreduce_args *args, struct sw_allreduce **out,
                     struct sw_err *err)
{
    if (args->ranks < 2 || args->ranks > SW_ALLREDUCE_RANKS)
        return sw_err_set(err, SW_ERR_INVALID, "%d devices cannot add up gradients: 2 to %d can",
                          args->ranks, SW_ALLREDUCE_RANKS);
    struct sw_allreduce *a = sw_calloc(1, sizeof *a);
    if (!a)
        return sw_err_nomem(err, "an all-reduce", sizeof *a);
    sw_mutex_init(&a->lock);
    sw_cond_init(&a->changed);
    int rc = make(a, args, err);
    if (rc != SW_OK) {
        sw_allreduce_free(a);
        return rc;
    }
    *out = a;
    return SW_OK;
}

static void free_rank(const struct sw_allreduce *a, struct rank *r)
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
    sw_cond_fini(&a->changed);
    sw_mutex_fini(&a->lock);
    sw_free(a);
}

float *sw_allreduce_bucket(const struct sw_allreduce *a, int rank, int bucket)
{
    return a->rank[rank].memory + a->bucket[bucket].offset;
}

/* ---- Queueing a bucket; the lock is held ---- */

static int fetch(struct sw_allreduce *a, int to, float *dst, int from, const float *src,
                 int64_t count, struct sw_err *err)
{
    return sw_copy_peer(a->rank[to].stream, a->rank[to].device, dst, a->rank[from].device, src,
                        (size_t)count * sizeof(float), err);
}

/* Rank r's share becomes the sum over all. */
static int sum_share(struct sw_allreduce *a, int r, int b, struct sw_err *err)
{
    struct rank *own = &a->rank[r];
    float *stage = own->memory + a->stage_at;
    int64_t first, count;
    int rc = SW_OK;
    share_of(a->bucket[b].elements, a->ranks, r, &first, &count);
    struct sw_fold_args sum = {.count = a->ranks, .n = count, .y = stage + r * a->share};
    for (int q = 0; q < a->ranks && rc == SW_OK; q++) {
        float *place = stage + q * a->share;
        const float *theirs = sw_allreduce_bucket(a, q, b) + first;
        sum.x[q] = q == r ? theirs : place;
        sum.ends[q] = q + 1;
        rc = sw_event_wait(own->stream, a->rank[q].at[b].made, err);
        if (rc == SW_OK && q != r && count > 0)
            rc = fetch(a, r, place, q, theirs, count, err);
    }
    if (rc == SW_OK && count > 0)
        rc = sw_op_fold(own->stream, &sum, err);
    if (rc == SW_OK && count > 0)
        rc = sw_copy(own->stream, sw_allreduce_bucket(a, r, b) + first, sum.y,
                     (size_t)count * sizeof(float), err);
    return rc == SW_OK ? sw_event_record(own->stream, own->at[b].summed, err) : rc;
}

/* Rank r fetches the sums of all other shares. */
static int gather_shares(struct sw_allreduce *a, int r, int b, struct sw_err *err)
{
    struct rank *own = &a->rank[r];
    int64_t first, count;
    int rc = SW_OK;
    for (int q = 0; q < a->ranks && rc == SW_OK; q++) {
        share_of(a->bucket[b].elements, a->ranks, q, &first, &count);
        rc = sw_event_wait(own->stream, a->rank[q].at[b].summed, err);
        if (rc == SW_OK && q != r && count > 0)
            rc = fetch(a, r, sw_allreduce_bucket(a, r, b) + first, q,
                       sw_allreduce_bucket(a, q, b) + first, count, err);
    }
    return rc == SW_OK ? sw_event_record(own->stream, own->at[b].done, err) : rc;
}

static int queue_bucket(struct sw_allreduce *a, int b, struct sw_err *err)
{
    int rc = SW_OK;
    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = sum_share(a, r, b, err);
    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = gather_shares(a, r, b, err);
    return rc;
}

/* All that are complete and whose turn has come. */
static int queue_complete(struct sw_allreduce *a, struct sw_err *err)
{
    int rc = SW_OK;
    for (;;) {
        struct bucket *b = &a->bucket[a->order[a->next]];
        if (b->given < a->ranks)
            return rc;
        rc = queue_bucket(a, a->order[a->next], err);
        if (rc != SW_OK)
            return rc;
        b->given = 0;
        b->rounds++;
        a->next = (a->next + 1) % a->buckets;
        sw_cond_broadcast(&a->changed);
    }
}

/* ---- What ranks do ---- */

int sw_allreduce_give(struct sw_allreduce *a, int rank, int bucket, uint64_t round,
                      struct sw_stream *compute, struct sw_err *err)
{
    int rc = sw_event_record(compute, a->rank[rank].at[bucket].made, err);
    if (rc != SW_OK)
        return rc;
    sw_mutex_lock(&a->lock);
    struct bucket *b = &a->bucket[bucket];
    if (a->closed)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    else if (b->rounds + 1 != round)
        rc =
            sw_err_set(err, SW_ERR_INVALID, "bucket %d is given in round %llu, but it has had %llu",
                       bucket, (unsigned long long)round, (unsigned long long)b->rounds);
    else {
        b->given++;
        rc = queue_complete(a, err);
    }
    sw_mutex_unlock(&a->lock);
    return rc;
}

int sw_allreduce_wait(struct sw_allreduce *a, int bucket, uint64_t round, int timeout_ms)
{
    int64_t deadline_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;
    sw_mutex_lock(&a->lock);
    const struct bucket *b = &a->bucket[bucket];
    while (b->rounds < round && !a->closed) {
        int64_t left_ns = deadline_ns - sw_os()->monotonic_ns();
        if (left_ns <= 0 ||
            !sw_cond_wait_ms(&a->changed, &a->lock, (int)((left_ns + 999999) / 1000000)))
            break;
    }
    int rc = b->rounds >= round ? SW_OK : a->closed ? SW_ERR_CANCELLED : SW_ERR_BUSY;
    sw_mutex_unlock(&a->lock);
    return rc;
}

int sw_allreduce_take(struct sw_allreduce *a, int rank, int bucket, struct sw_stream *compute,
                      struct sw_err *err)
{
    int rc = SW_OK;
    (void)rank;
    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = sw_event_wait(compute, a->rank[r].at[bucket].done, err);
    return rc;
}

int64_t sw_allreduce_round_bytes(const struct sw_allreduce *a, int from, int to)
{
    int64_t elements = 0, first, theirs, own;
    for (int b = 0; b < a->buckets && from != to; b++) {
        share_of(a->bucket[b].elements, a->ranks, to, &first, &theirs);
        share_of(a->bucket[b].elements, a->ranks, from, &first, &own);
        elements += theirs + own; /* to be added up, and the sum */
    }
    return elements * (int64_t)sizeof(float);
}

void sw_allreduce_close_v(void *allreduce)
{
    struct sw_allreduce *a = allreduce;
    sw_mutex_lock(&a->lock);
    a->closed = true;
    sw_cond_broadcast(&a->changed);
    sw_mutex_unlock(&a->lock);
}
