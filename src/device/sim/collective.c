/* Collective operations of simulated GPUs. An all-reduce is an operation on the stream of every
 * member, which blocks there until all members have arrived, as the kernels of NCCL do. Then each
 * member reduces its shard in ring order, starting with the next rank, and gathers the shards of
 * the others. The transfers take the time of the links. A member whose stream fails does not
 * arrive, and the error is reported only by sw_collective_check: the others block until they are
 * aborted or cancelled. */
#include "device/collective.h"
#include "base/os.h"
#include "base/tree.h"
#include "device/sim/memory.h"
#include "device/sim/stream.h"
#include <stdio.h>
#include <string.h>

enum { GROUP = 64 /* operations of one member */ };

struct call {
    struct sw_stream *stream;
    float *x;
    int64_t n;
};

struct member {
    struct sw_sim_device *device;
    float
        *x; /* the real address of the array that is being reduced; constant between two barriers */
    struct call *calls; /* owned [GROUP]: calls in the open group */
    int count;
};

struct sw_sim_collective {
    struct sw_collective base; /* first member */
    struct member *members;    /* owned [ranks] */
    bool open;                 /* a group is open */
    struct sw_sim_event *gate; /* happens when all members have arrived: once per barrier */
    struct sw_mutex lock;      /* guards all below, and the members' x */
    int arrived;
    uint64_t barriers;
    struct sw_err broken; /* why a member failed; code SW_OK: none failed */
};

static struct sw_sim_collective *collective_of(struct sw_collective *c)
{
    return (struct sw_sim_collective *)(void *)c;
}

/* ---- On the members' threads ---- */

/* Waits until all members have arrived; the last one opens the gate. */
static int barrier(struct sw_sim_collective *c, struct sw_sim_stream *s, struct sw_err *err)
{
    sw_mutex_lock(&c->lock);

    uint64_t number = c->barriers + 1;
    bool last = ++c->arrived == c->base.ranks;
    if (last) {
        c->arrived = 0;
        c->barriers = number;
    }

    sw_mutex_unlock(&c->lock);
    if (last)
        sw_sim_event_happen(c->gate, number, NULL);

    return sw_sim_event_block(s, c->gate, number, err);
}

/* Simulates the transfer from every other member; returns when it is complete. */
static void wait_for_transfers(struct sw_sim_collective *c, struct sw_sim_stream *s, int rank,
                               bool own, int64_t n)
{
    int64_t now_ns = sw_os()->monotonic_ns(), end_ns = now_ns, first, count;

    for (int q = 0; q < c->base.ranks; q++) {
        sw_part(n, c->base.ranks, own ? rank : q, &first, &count);
        if (q == rank || count == 0)
            continue;

        int64_t transferred_ns =
            sw_sim_link_take(s->device, c->members[rank].device, c->members[q].device,
                             (size_t)count * sizeof(float), now_ns);
        end_ns = transferred_ns > end_ns ? transferred_ns : end_ns;
    }

    sw_sim_stream_sleep(s, end_ns);
}

/* Reduces the member's shard in place: no other member reads that part of its array before the next
 * barrier. */
static void reduce_shard(const struct sw_sim_collective *c, int rank, int64_t n)
{
    int ranks = c->base.ranks;
    int64_t first, count;

    sw_part(n, ranks, rank, &first, &count);

    float *own = c->members[rank].x;
    for (int64_t i = first; i < first + count; i++) {
        float sum = c->members[(rank + 1) % ranks].x[i];
        for (int q = 2; q <= ranks; q++)
            sum += c->members[(rank + q) % ranks].x[i];
        own[i] = sum;
    }
}

static void gather_shards(const struct sw_sim_collective *c, int rank, int64_t n)
{
    int64_t first, count;

    for (int q = 0; q < c->base.ranks; q++) {
        sw_part(n, c->base.ranks, q, &first, &count);
        if (q != rank)
            memcpy(c->members[rank].x + first, c->members[q].x + first,
                   (size_t)count * sizeof(float));
    }
}

static int run_all_reduce(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_collective *c = op->u.all_reduce.collective;
    int rank = op->u.all_reduce.rank;
    int64_t n = (int64_t)(op->bytes[0] / sizeof(float));

    sw_mutex_lock(&c->lock);
    c->members[rank].x = op->p[0];
    sw_mutex_unlock(&c->lock);

    int rc = barrier(c, s, err);
    if (rc != SW_OK)
        return rc;

    wait_for_transfers(c, s, rank, true, n);
    reduce_shard(c, rank, n);

    rc = barrier(c, s, err);
    if (rc != SW_OK)
        return rc;

    wait_for_transfers(c, s, rank, false, n);
    gather_shards(c, rank, n);
    return barrier(c, s, err);
}

static void fail_all_reduce(struct sw_sim_op *op, const struct sw_err *why)
{
    struct sw_sim_collective *c = op->u.all_reduce.collective;

    sw_mutex_lock(&c->lock);
    if (c->broken.code == SW_OK && why->code != SW_ERR_CANCELLED)
        c->broken = *why;
    sw_mutex_unlock(&c->lock);
}

static const char *const all_reduce_pointers[] = {"x", NULL};
static const struct sw_sim_op_type all_reduce_type = {.name = "all_reduce",
                                                      .pointers = all_reduce_pointers,
                                                      .counted = true,
                                                      .waits = true,
                                                      .run = run_all_reduce,
                                                      .skip = fail_all_reduce,
                                                      .fail = fail_all_reduce};

/* ---- The host's side ---- */

static int group_begin(struct sw_collective *collective, struct sw_err *err)
{
    struct sw_sim_collective *c = collective_of(collective);
    if (c->open)
        return sw_err_set(err, SW_ERR_INVALID, "a group cannot begin inside another group");

    c->open = true;
    for (int r = 0; r < c->base.ranks; r++)
        c->members[r].count = 0;

    return SW_OK;
}

static int all_reduce(struct sw_collective *collective, int rank, struct sw_stream *s, float *x,
                      int64_t n, struct sw_err *err)
{
    struct sw_sim_collective *c = collective_of(collective);
    struct member *m = &c->members[rank];

    if (!c->open)
        return sw_err_set(err, SW_ERR_INVALID, "%s: all_reduce must be called inside a group",
                          s->dev->name);
    if (s->dev != &m->device->base)
        return sw_err_set(err, SW_ERR_INVALID, "%s: all_reduce: rank %d is %s", s->dev->name, rank,
                          m->device->base.name);
    if (m->count == GROUP)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: all_reduce: more than %d operations in one group", s->dev->name,
                          GROUP);

    m->calls[m->count++] = (struct call){s, x, n};
    return SW_OK;
}

/* Compares the calls of the members: members that differ would wait for one another forever. */
static int compare(const struct sw_sim_collective *c, struct sw_err *err)
{
    const struct member *a = &c->members[0];

    for (int r = 1; r < c->base.ranks; r++) {
        const struct member *b = &c->members[r];
        if (a->count != b->count)
            return sw_err_set(err, SW_ERR_INVALID,
                              "all_reduce: the group has %d operations on %s, but %d on %s",
                              a->count, a->device->base.name, b->count, b->device->base.name);

        for (int i = 0; i < a->count; i++)
            if (a->calls[i].n != b->calls[i].n)
                return sw_err_set(err, SW_ERR_INVALID,
                                  "all_reduce: %lld elements on %s, but %lld on %s",
                                  (long long)a->calls[i].n, a->device->base.name,
                                  (long long)b->calls[i].n, b->device->base.name);
    }

    return SW_OK;
}

static int push(struct sw_sim_collective *c, int rank, const struct call *call, struct sw_err *err)
{
    const struct sw_sim_op op = {.type = &all_reduce_type,
                                 .p = {call->x},
                                 .bytes = {sw_sim_floats(call->n)},
                                 .written = 1,
                                 .u.all_reduce = {c, rank}};
    return sw_sim_push(call->stream, &op, err);
}

static int group_end(struct sw_collective *collective, struct sw_err *err)
{
    struct sw_sim_collective *c = collective_of(collective);

    c->open = false;

    int rc = compare(c, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < c->members[0].count; i++)
        for (int r = 0; r < c->base.ranks; r++) {
            rc = push(c, r, &c->members[r].calls[i], err);
            if (rc != SW_OK)
                return rc;
        }

    return SW_OK;
}

static int check(struct sw_collective *collective, struct sw_err *err)
{
    struct sw_sim_collective *c = collective_of(collective);

    sw_mutex_lock(&c->lock);

    int rc = c->broken.code;
    if (rc != SW_OK && err)
        *err = c->broken;
    sw_mutex_unlock(&c->lock);

    return rc;
}

static void abort_all(struct sw_collective *collective)
{
    const struct sw_err why = {.code = SW_ERR_CANCELLED, .text = "all_reduce: aborted"};
    sw_sim_event_happen(collective_of(collective)->gate, UINT64_MAX, &why);
}

/* Aborting is done when it returns. */
static bool abort_ends(struct sw_collective *collective, int timeout_ms)
{
    return true;
}

/* ---- Life ---- */

static void close_collective(struct sw_collective *collective)
{
    struct sw_sim_collective *c = collective_of(collective);

    for (int r = 0; c->members && r < c->base.ranks; r++)
        sw_free(c->members[r].calls);
    if (c->gate)
        sw_sim_event_free((struct sw_event *)(void *)c->gate);
    sw_mutex_fini(&c->lock);
    sw_free(c->members);
    sw_free(c);
}

static int make(struct sw_sim_collective *c, struct sw_device *const *devices, struct sw_err *err)
{
    struct sw_event *gate;

    c->members = sw_calloc((size_t)c->base.ranks, sizeof *c->members);
    if (!c->members)
        return sw_err_nomem(err, "a collective", (size_t)c->base.ranks * sizeof *c->members);

    for (int r = 0; r < c->base.ranks; r++) {
        c->members[r].device = sw_sim_device_of(devices[r]);
        c->members[r].calls = sw_calloc(GROUP, sizeof *c->members[r].calls);
        if (!c->members[r].calls)
            return sw_err_nomem(err, "a collective", GROUP * sizeof *c->members[r].calls);
    }

    int rc = sw_sim_event_new(devices[0], &gate, err);
    if (rc != SW_OK)
        return rc;

    c->gate = sw_sim_event_of(gate);
    return SW_OK;
}

static int open_collective(struct sw_device *const *devices, int ranks, int timeout_ms,
                           struct sw_collective **out, struct sw_err *err)
{
    for (int r = 0; r < ranks; r++)
        for (int q = 0; q < r; q++)
            if (devices[q]->index == devices[r]->index)
                return sw_err_set(err, SW_ERR_INVALID, "%s cannot join a collective twice",
                                  devices[r]->name);

    struct sw_sim_collective *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "a collective", sizeof *c);

    sw_mutex_init(&c->lock);
    c->base.ops = &sw_sim_collectives;
    c->base.ranks = ranks;

    int rc = make(c, devices, err);
    if (rc != SW_OK) {
        close_collective(&c->base);
        return rc;
    }

    *out = &c->base;
    return SW_OK;
}

static const char *name(char *out, size_t bytes)
{
    snprintf(out, bytes, "built into sim");
    return out;
}

const struct sw_collective_ops sw_sim_collectives = {
    .name = name,
    .open = open_collective,
    .close = close_collective,
    .group_begin = group_begin,
    .all_reduce = all_reduce,
    .group_end = group_end,
    .check = check,
    .abort = abort_all,
    .abort_ends = abort_ends,
};
