/* All-reduce by copies between devices: a reduce-scatter and an all-gather. A bucket is cut into
 * shards, one per rank. A rank fetches the others' parts of its own shard (scatter), sums them in
 * its stage and puts the sum into its bucket; when all have done so, each fetches the sums of the
 * other shards (gather). A sum follows base/tree.h over the ranks, so it has the bits that servers
 * compute, whichever rank was last and however the bucket is cut. */
#include "base/tree.h"
#include "device/op.h"
#include "device/send_limit.h"
#include "exchange/reduce/allreduce_private.h"
#include "kernels/ops/fold.h"

void sw_allreduce_shard(int64_t elements, int ranks, int r, int64_t *first, int64_t *count)
{
    int64_t lines, from;

    sw_part((elements + SW_ALLREDUCE_ALIGN - 1) / SW_ALLREDUCE_ALIGN, ranks, r, &from, &lines);
    *first = from * SW_ALLREDUCE_ALIGN;
    *count = lines * SW_ALLREDUCE_ALIGN;
    if (*first + *count > elements)
        *count = elements > *first ? elements - *first : 0;
}

static int64_t largest_shard(const int64_t *elements, int buckets, int ranks)
{
    int64_t most = 0, first, count;

    for (int b = 0; b < buckets; b++) {
        sw_allreduce_shard(elements[b], ranks, 0, &first, &count);
        most = count > most ? count : most;
    }

    return sw_allreduce_aligned(most);
}

static int64_t stage(const int64_t *elements, int buckets, int ranks)
{
    return largest_shard(elements, buckets, ranks) * ranks;
}

static int fetch(struct sw_allreduce *a, int to, float *dst, int from, const float *src,
                 int64_t count, struct sw_err *err)
{
    return sw_send_peer(a->rank[to].stream, a->rank[to].device, dst, a->rank[from].device, src,
                        (size_t)count * sizeof(float), err);
}

/* Queues the reduction of rank r's shard. */
static int sum_shard(struct sw_allreduce *a, int r, int b, struct sw_err *err)
{
    struct sw_allreduce_rank *own = &a->rank[r];
    float *stage = own->memory + a->stage_at;
    int64_t first, count;
    int rc = SW_OK;

    sw_allreduce_shard(a->bucket[b].elements, a->ranks, r, &first, &count);

    struct sw_fold_args sum = {.count = a->ranks, .n = count, .y = stage + r * a->shard_elements};
    for (int q = 0; q < a->ranks; q++) {
        float *place = stage + q * a->shard_elements;
        const float *theirs = sw_allreduce_place(a, q, b) + first;

        sum.x[q] = q == r ? theirs : place;
        sum.ends[q] = q + 1;

        rc = sw_event_wait(own->stream, a->rank[q].at[b].made, err);
        if (rc != SW_OK)
            return rc;

        if (q != r && count > 0)
            rc = fetch(a, r, place, q, theirs, count, err);
        if (rc != SW_OK)
            return rc;
    }

    if (count > 0)
        rc = sw_op_run(own->stream, &sw_op_fold, &sum, err);
    if (rc != SW_OK)
        return rc;

    if (count > 0)
        rc = sw_copy(own->stream, sw_allreduce_place(a, r, b) + first, sum.y,
                     (size_t)count * sizeof(float), err);

    if (rc != SW_OK)
        return rc;

    return sw_event_record(own->stream, own->at[b].summed, err);
}

/* Queues the copies of all other shards' sums to rank r. */
static int gather_shards(struct sw_allreduce *a, int r, int b, struct sw_err *err)
{
    struct sw_allreduce_rank *own = &a->rank[r];
    int64_t first, count;

    for (int q = 0; q < a->ranks; q++) {
        sw_allreduce_shard(a->bucket[b].elements, a->ranks, q, &first, &count);

        int rc = sw_event_wait(own->stream, a->rank[q].at[b].summed, err);
        if (rc != SW_OK)
            return rc;

        if (q != r && count > 0)
            rc = fetch(a, r, sw_allreduce_place(a, r, b) + first, q,
                       sw_allreduce_place(a, q, b) + first, count, err);

        if (rc != SW_OK)
            return rc;
    }

    return sw_event_record(own->stream, own->at[b].done, err);
}

static int queue(struct sw_allreduce *a, int b, struct sw_err *err)
{
    for (int r = 0; r < a->ranks; r++) {
        int rc = sum_shard(a, r, b, err);
        if (rc != SW_OK)
            return rc;
    }

    for (int r = 0; r < a->ranks; r++) {
        int rc = gather_shards(a, r, b, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

const struct sw_allreduce_backend sw_allreduce_copies = {
    .min_ranks = 2, .stage = stage, .queue = queue, .reads_others = true};
