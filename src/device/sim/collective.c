/* Collective operations of simulated GPUs. An all-reduce is an operation on the stream of every
 * member, which blocks there until all members have arrived (meeting.h), as the kernels of NCCL do.
 * Then each member reduces its shard in ring order, starting with the next one, and gathers the
 * shards of the others. The transfers take the time of the links; those to another host, that of
 * the link to the host. A member whose stream fails does not arrive, and the error is reported only
 * by sw_collective_check: the others block until they are aborted or cancelled. An abort is no
 * error of the stream, as with NCCL; it leaves NaN in place of the sum. */
#include "device/collective.h"
#include "base/os.h"
#include "base/tree.h"
#include "device/sim/meeting.h"
#include "device/sim/memory.h"
#include "device/sim/stream.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUP = 64 /* operations of one member */ };

struct call {
    struct sw_stream *stream;
    float *x;
    int64_t n;
};

/* The calls of a member of this process in the open group. */
struct calls {
    struct sw_sim_device *device;
    struct call *list; /* owned [GROUP] */
    int count;
};

struct sw_sim_collective {
    struct sw_collective base; /* first member */
    struct sw_sim_meeting_host host;
    atomic_int aborted;
    struct calls *calls;  /* owned [ranks] */
    bool open;            /* a group is open */
    struct sw_mutex lock; /* guards all below */
    struct sw_err broken; /* why a member failed; code SW_OK: none failed */
};

static struct sw_sim_collective *collective_of(struct sw_collective *c)
{
    return (struct sw_sim_collective *)(void *)c;
}

/* ---- On the members' threads ---- */

/* Simulates the transfers from all other members: of their parts of the member's own shard, or else
 * of their own shards. Returns when they are complete. */
static void wait_for_transfers(struct sw_sim_collective *c, struct sw_sim_stream *s, int rank,
                               bool of_own_shard, int64_t n)
{
    const int members = sw_sim_meeting_members(&c->host), self = c->host.first + rank;
    int64_t now_ns = sw_os()->monotonic_ns(), end_ns = now_ns, first, count;

    for (int q = 0; q < members; q++) {
        sw_part(n, members, of_own_shard ? self : q, &first, &count);
        if (q == self || count == 0)
            continue;

        const struct sw_sim_meeting_member *other = sw_sim_meeting_member(&c->host, q);
        int64_t transferred_ns =
            sw_sim_link_take(s->device, s->device, other->host == &c->host ? other->device : NULL,
                             (size_t)count * sizeof(float), now_ns);
        end_ns = transferred_ns > end_ns ? transferred_ns : end_ns;
    }

    sw_sim_stream_sleep(s, end_ns);
}

/* Reduces the member's shard in place: no other member reads that part of its array before the next
 * barrier. */
static void reduce_shard(const struct sw_sim_collective *c, int self, int64_t n)
{
    const int members = sw_sim_meeting_members(&c->host);
    int64_t first, count;
    const struct sw_sim_meeting_member *m = sw_sim_meeting_member(&c->host, 0);

    sw_part(n, members, self, &first, &count);
    for (int64_t i = first; i < first + count; i++) {
        float sum = m[(self + 1) % members].x[i];
        for (int q = 2; q <= members; q++)
            sum += m[(self + q) % members].x[i];
        m[self].x[i] = sum;
    }
}

static void gather_shards(const struct sw_sim_collective *c, int self, int64_t n)
{
    const struct sw_sim_meeting_member *m = sw_sim_meeting_member(&c->host, 0);
    const int members = sw_sim_meeting_members(&c->host);
    int64_t first, count;

    for (int q = 0; q < members; q++) {
        sw_part(n, members, q, &first, &count);
        if (q != self)
            memcpy(m[self].x + first, m[q].x + first, (size_t)count * sizeof(float));
    }
}

static int reduce_and_gather(struct sw_sim_collective *c, struct sw_sim_stream *s, int rank,
                             int64_t n, struct sw_err *err)
{
    const int self = c->host.first + rank;

    wait_for_transfers(c, s, rank, true, n);
    int rc = sw_sim_meeting_begin_reading(&c->host, s, err);
    if (rc != SW_OK)
        return rc;
    reduce_shard(c, self, n);
    sw_sim_meeting_end_reading(&c->host);

    rc = sw_sim_meeting_barrier(&c->host, s, err);
    if (rc != SW_OK)
        return rc;

    wait_for_transfers(c, s, rank, false, n);
    rc = sw_sim_meeting_begin_reading(&c->host, s, err);
    if (rc != SW_OK)
        return rc;
    gather_shards(c, self, n);
    sw_sim_meeting_end_reading(&c->host);

    return sw_sim_meeting_barrier(&c->host, s, err);
}

/* Was it the abort that has ended the operation? */
static bool was_aborted(const struct sw_sim_collective *c, const struct sw_sim_stream *s, int rc)
{
    return rc == SW_ERR_CANCELLED && atomic_load(&c->aborted) && !atomic_load(&s->cancelled);
}

static int run_all_reduce(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_collective *c = op->u.all_reduce.collective;
    int rank = op->u.all_reduce.rank;
    int64_t n = (int64_t)(op->bytes[0] / sizeof(float));

    int rc = sw_sim_meeting_bring(&c->host, rank, s, op->p[0], n, err);
    if (rc == SW_OK)
        rc = reduce_and_gather(c, s, rank, n, err);
    if (rc == SW_OK)
        return SW_OK;

    sw_sim_meeting_quit(&c->host); /* the array may be freed */
    if (!was_aborted(c, s, rc))
        return rc;

    float *x = op->p[0];
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    return SW_OK;
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
    if (atomic_load(&c->aborted))
        return sw_err_set(err, SW_ERR_CANCELLED, "all_reduce: aborted");

    c->open = true;
    for (int r = 0; r < c->base.ranks; r++)
        c->calls[r].count = 0;

    return SW_OK;
}

static int all_reduce(struct sw_collective *collective, int rank, struct sw_stream *s, float *x,
                      int64_t n, struct sw_err *err)
{
    struct sw_sim_collective *c = collective_of(collective);
    struct calls *m = &c->calls[rank];

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

    m->list[m->count++] = (struct call){s, x, n};
    return SW_OK;
}

/* Compares the calls of the members: members that differ would fail later. */
static int compare(const struct sw_sim_collective *c, struct sw_err *err)
{
    const struct calls *a = &c->calls[0];

    for (int r = 1; r < c->base.ranks; r++) {
        const struct calls *b = &c->calls[r];
        if (a->count != b->count)
            return sw_err_set(err, SW_ERR_INVALID,
                              "all_reduce: the group has %d operations on %s, but %d on %s",
                              a->count, a->device->base.name, b->count, b->device->base.name);

        for (int i = 0; i < a->count; i++)
            if (a->list[i].n != b->list[i].n)
                return sw_err_set(err, SW_ERR_INVALID,
                                  "all_reduce: %lld elements on %s, but %lld on %s",
                                  (long long)a->list[i].n, a->device->base.name,
                                  (long long)b->list[i].n, b->device->base.name);
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

    for (int i = 0; i < c->calls[0].count; i++)
        for (int r = 0; r < c->base.ranks; r++) {
            rc = push(c, r, &c->calls[r].list[i], err);
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

    atomic_store(&collective_of(collective)->aborted, 1);
    sw_sim_event_happen(collective_of(collective)->host.gate, UINT64_MAX, &why);
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

    sw_sim_meeting_leave(&c->host);
    for (int r = 0; c->calls && r < c->base.ranks; r++)
        sw_free(c->calls[r].list);
    sw_mutex_fini(&c->lock);
    sw_free(c->calls);
    sw_free(c);
}

static int make(struct sw_sim_collective *c, const struct sw_collective_args *args,
                struct sw_err *err)
{
    c->calls = sw_calloc((size_t)args->ranks, sizeof *c->calls);
    if (!c->calls)
        return sw_err_nomem(err, "a collective", (size_t)args->ranks * sizeof *c->calls);

    for (int r = 0; r < args->ranks; r++) {
        c->calls[r].device = sw_sim_device_of(args->devices[r]);
        c->calls[r].list = sw_calloc(GROUP, sizeof *c->calls[r].list);
        if (!c->calls[r].list)
            return sw_err_nomem(err, "a collective", GROUP * sizeof *c->calls[r].list);
    }

    return sw_sim_meeting_join(&c->host, args, err);
}

static int open_collective(const struct sw_collective_args *args, struct sw_collective **out,
                           struct sw_err *err)
{
    for (int r = 0; r < args->ranks; r++)
        for (int q = 0; q < r; q++)
            if (args->devices[q]->index == args->devices[r]->index)
                return sw_err_set(err, SW_ERR_INVALID, "%s cannot join a collective twice",
                                  args->devices[r]->name);

    struct sw_sim_collective *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "a collective", sizeof *c);

    sw_mutex_init(&c->lock);
    c->base.ops = &sw_sim_collectives;
    c->base.ranks = args->ranks;

    int rc = make(c, args, err);
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
    .secure = true, /* all in the memory of this process */
    .make_id = sw_sim_meeting_make_id,
    .accepts = sw_sim_meeting_accepts,
    .open = open_collective,
    .close = close_collective,
    .group_begin = group_begin,
    .all_reduce = all_reduce,
    .group_end = group_end,
    .check = check,
    .abort = abort_all,
    .abort_ends = abort_ends,
};
