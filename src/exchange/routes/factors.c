/* Route `factors`: the devices exchange the factors of a layer's gradients
 * (exchange/reduce/factors.h; Poseidon, section 4.3.1); each makes the gradient of the whole batch
 * from them, and the update. The push of the weight sends the factors for weight and bias.
 *
 * Under SSP every round of every worker group is an update of its own: a pull makes all that the
 * version needs, one after the other. Their constants go to the device one by one, through a ring
 * with room for the updates of three steps, since at most two are queued there. */
#include "base/os.h"
#include "device/op.h"
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"

enum { STEPS_IN_RING = 3 };

struct layer {
    int number;                         /* index among the layers whose factors are exchanged */
    uint64_t first[SW_FACTORS_READERS]; /* updates of the parameter before the first round */
};

struct state {
    int64_t ring; /* constants of a parameter; 0: there is one group, whose updates the exchange
                     makes */
    struct sw_update_numbers *on_host, *numbers; /* owned host and device memory
                                                    [exchanged layers][readers][ring] */
    size_t bytes;                                /* of each */
    struct layer layer[];                        /* [factors of the table] */
};

static bool takes(const struct sw_route_query *q)
{
    return sw_table_reduction(q->table, q->param) == SW_REDUCTION_FACTORS;
}

static int arrays(const struct sw_route_query *q)
{
    return 1;
}

/* ---- Memory ---- */

static int64_t ring_of(const struct sw_table *t)
{
    int groups = sw_table_update_groups(t);

    return groups > 1 ? STEPS_IN_RING * sw_factors_most_updates(groups, sw_table_staleness_bound(t))
                      : 0;
}

static size_t bytes(const struct sw_exchange_args *a)
{
    int64_t layers = 0;

    for (int i = 0; i < sw_table_factor_count(a->table); i++)
        layers += sw_table_factors_at(a->table, i)->home == SW_FACTORS_EXCHANGED;
    return (size_t)(layers * SW_FACTORS_READERS * ring_of(a->table)) *
           sizeof(struct sw_update_numbers);
}

static int make_ring(struct sw_exchange *x, struct state *s, struct sw_err *err)
{
    void *memory;

    s->ring = ring_of(x->args.table);
    s->bytes = bytes(&x->args);
    if (s->bytes == 0)
        return SW_OK;

    int rc = sw_device_host_alloc(x->args.device, s->bytes, "numbers of updates", &memory, err);
    if (rc != SW_OK)
        return rc;

    s->on_host = memory;
    rc = sw_device_alloc(x->args.device, s->bytes, "numbers of updates", &memory, err);
    if (rc == SW_OK)
        s->numbers = memory;
    return rc;
}

static int attach(struct sw_exchange *x, void **out, struct sw_err *err)
{
    int count = sw_table_factor_count(x->args.table), exchanged = 0;
    size_t size = sizeof(struct state) + (size_t)count * sizeof(struct layer);
    struct state *s = sw_calloc(1, size);

    if (!s)
        return sw_err_nomem(err, "factors of gradients", size);

    *out = s;
    for (int i = 0; i < count; i++)
        if (sw_table_factors_at(x->args.table, i)->home == SW_FACTORS_EXCHANGED)
            s->layer[i].number = exchanged++;

    return make_ring(x, s, err);
}

static void detach(struct sw_exchange *x, void *state)
{
    struct state *s = state;

    if (s) {
        sw_device_host_free(x->args.device, s->on_host, s->bytes);
        sw_device_free(x->args.device, s->numbers, s->bytes);
    }
    sw_free(s);
}

static struct layer *layer_of(const struct sw_port *p)
{
    struct state *s = p->state;

    return &s->layer[sw_table_param(sw_port_table(p), p->param)->factors];
}

static enum sw_factors_reader reader_of(const struct sw_port *p)
{
    return p == p->lead ? SW_FACTORS_WEIGHT : SW_FACTORS_BIAS;
}

static void bind(const struct sw_port *p, struct sw_exchange_binding *out)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct sw_table_factors *f = sw_table_factors_of(a->table, p->param);
    int64_t row = p->x->first_row * f->steps;

    out->value = p->at.value;
    out->x = sw_factors_x(a->factors, a->rank, layer_of(p)->number) + row * f->inputs;
    out->dy = sw_factors_dy(a->factors, a->rank, layer_of(p)->number) + row * f->outputs;
}

/* ---- Push and wait ---- */

static int push(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;

    if (p != p->lead)
        return SW_OK;
    return sw_factors_push(a->factors, a->rank, layer_of(p)->number,
                           sw_exchange_round(p->x, version), a->stream, err);
}

static bool is_first_version(const struct sw_port *p, uint64_t version)
{
    return p->x->start == SW_NEVER || (int64_t)version <= p->x->start;
}

static int wait(const struct sw_port *p, uint64_t version, int timeout_ms)
{
    const struct sw_exchange_args *a = &p->x->args;

    if (is_first_version(p, version))
        return SW_OK;
    return sw_factors_wait(a->factors, a->rank, layer_of(p)->number,
                           sw_exchange_round(p->x, version), timeout_ms);
}

static int wait_all(const struct sw_port *p, uint64_t version, int timeout_ms)
{
    if (is_first_version(p, version))
        return SW_OK;
    return sw_factors_wait_all(p->x->args.factors, layer_of(p)->number,
                               sw_exchange_round(p->x, version), timeout_ms);
}

/* ---- Updates ---- */

/* Queues the gradient of an update's batch: dy' x for the weight, the sum of the rows of dy for the
 * bias. */
static int rebuild(struct sw_port *p, const struct sw_factors_update *u, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct sw_table_factors *f = sw_table_factors_of(a->table, p->param);

    if (p->param == f->weight) {
        const struct sw_gemm_args weight = {.trans_a = true,
                                            .m = f->outputs,
                                            .n = f->inputs,
                                            .k = f->rows,
                                            .alpha = 1,
                                            .a = u->dy,
                                            .b = u->x,
                                            .c = p->at.gradient};
        return sw_op_run(a->stream, &sw_op_gemm, &weight, err);
    }

    const struct sw_sum_rows_args bias = {
        .rows = f->rows, .columns = f->outputs, .x = u->dy, .sum = p->at.gradient};
    return sw_op_run(a->stream, &sw_op_sum_rows, &bias, err);
}

/* Queues one of several updates of a pull. */
static int apply(struct sw_port *p, const struct sw_factors_update *u, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct state *s = p->state;
    struct layer *l = layer_of(p);
    struct sw_update_list list = *p->list;
    int64_t n = (l->number * SW_FACTORS_READERS + (int)reader_of(p)) * s->ring +
                (int64_t)(u->before % (uint64_t)s->ring);

    /* Before the first one nobody has written newer values to the table. */
    if (u->before == 0)
        l->first[reader_of(p)] = sw_table_applied(a->table, p->param);
    sw_device_update_number(p, (uint64_t)p->x->start + u->round, l->first[reader_of(p)] + u->before,
                            &s->on_host[n]);

    int rc = sw_copy(a->stream, &s->numbers[n], &s->on_host[n], sizeof s->numbers[n], err);
    if (rc != SW_OK)
        return rc;

    list.at.numbers = &s->numbers[n];
    return sw_table_update_on_device(a->table, p->formula, &list, a->stream, err);
}

static int pull(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct state *s = p->state;
    const int layer = layer_of(p)->number;
    const bool all = p->fetched == SW_NEVER; /* since the refresh */
    struct sw_factors_update u;

    while (sw_factors_next(a->factors, a->rank, layer, reader_of(p),
                           sw_exchange_round(p->x, version), all, &u)) {
        int rc = sw_factors_take(a->factors, a->rank, layer, &u, a->stream, err);
        if (rc != SW_OK)
            return rc;
        rc = rebuild(p, &u, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_factors_release(a->factors, a->rank, layer, &u, a->stream, err);
        if (rc == SW_OK && s->ring > 0)
            rc = apply(p, &u, err);
        if (rc != SW_OK)
            return rc;
    }

    if (s->ring > 0)
        p->fetched = p->version = (int64_t)version;
    return SW_OK;
}

static void refresh(struct sw_port *p)
{
    const struct sw_exchange_args *a = &p->x->args;

    if (!sw_factors_is_behind(a->factors, a->rank, layer_of(p)->number, reader_of(p)))
        return;

    p->fetched = SW_NEVER;
    p->version = p->x->start;
}

static int64_t lag(const struct sw_port *p)
{
    const struct sw_exchange_args *a = &p->x->args;

    return sw_factors_lag(a->factors, a->rank, layer_of(p)->number, reader_of(p));
}

const struct sw_route sw_route_factors = {.name = "factors",
                                          .takes = takes,
                                          .updates_on_device = true,
                                          .is_collective = true,
                                          .arrays = arrays,
                                          .bytes = bytes,
                                          .attach = attach,
                                          .detach = detach,
                                          .bind = bind,
                                          .push = push,
                                          .wait = wait,
                                          .pull = pull,
                                          .wait_all = wait_all,
                                          .refresh = refresh,
                                          .lag = lag};
