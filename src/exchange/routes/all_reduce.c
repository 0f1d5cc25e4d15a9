/* Route `all-reduce`: the devices reduce their gradients in buckets (exchange/sums.h), and each
 * makes the update. A push counts towards its bucket; with the last gradient of a bucket the worker
 * pushes the bucket into the all-reduce, and a pull takes the sum. Every step is one round. */
#include "base/os.h"
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

struct bucket {
    int pushed;     /* gradients pushed in the current round */
    uint64_t taken; /* rounds whose sums the compute stream has waited for */
};

static bool takes(const struct sw_route_query *q)
{
    return q->copy == SW_COPY_NONE &&
           sw_table_reduction(q->table, q->param) == SW_REDUCTION_DEVICES;
}

static int attach(struct sw_exchange *x, void **state, struct sw_err *err)
{
    size_t bytes = (size_t)x->args.sums->count * sizeof(struct bucket);

    *state = sw_calloc(1, bytes + 1);
    return *state ? SW_OK : sw_err_nomem(err, "buckets of gradients", bytes);
}

static void detach(struct sw_exchange *x, void *state)
{
    sw_free(state);
}

static int bucket_of(const struct sw_port *p)
{
    return p->x->args.sums->bucket_of[p->param];
}

static float *gradient(const struct sw_port *p)
{
    const struct sw_exchange_args *a = &p->x->args;

    return sw_allreduce_bucket(a->sums->all_reduce, a->rank, bucket_of(p)) +
           a->sums->at_of[p->param];
}

static int push(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    int b = bucket_of(p);
    struct bucket *bucket = (struct bucket *)p->state + b;

    if (++bucket->pushed < a->sums->buckets[b].count)
        return SW_OK;

    bucket->pushed = 0;
    return sw_allreduce_push(a->sums->all_reduce, a->rank, b, sw_exchange_round(p->x, version),
                             a->stream, err);
}

static int wait(const struct sw_port *p, uint64_t version, int timeout_ms)
{
    if (p->x->start == SW_NEVER || (int64_t)version <= p->x->start)
        return SW_OK;
    return sw_allreduce_wait(p->x->args.sums->all_reduce, bucket_of(p),
                             sw_exchange_round(p->x, version), timeout_ms);
}

static int pull(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    int b = bucket_of(p);
    struct bucket *bucket = (struct bucket *)p->state + b;
    uint64_t round = sw_exchange_round(p->x, version);

    if (bucket->taken >= round)
        return SW_OK;

    bucket->taken = round;
    return sw_allreduce_take(a->sums->all_reduce, a->rank, b, a->stream, err);
}

const struct sw_route sw_route_all_reduce = {.name = "all-reduce",
                                             .takes = takes,
                                             .updates_on_device = true,
                                             .updates_together = true,
                                             .is_collective = true,
                                             .attach = attach,
                                             .detach = detach,
                                             .bucket = bucket_of,
                                             .gradient = gradient,
                                             .push = push,
                                             .wait = wait,
                                             .pull = pull};
