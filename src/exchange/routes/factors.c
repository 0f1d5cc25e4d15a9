/* Route `factors`: the devices exchange the factors of a layer's gradients
 * (exchange/reduce/factors.h; Poseidon, section 4.3.1); each makes the gradient of the whole batch
 * from them, and the update. The push of the weight sends the factors for weight and bias. */
#include "base/os.h"
#include "device/op.h"
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"

struct layer {
    int number;     /* index among the layers whose factors are exchanged */
    uint64_t taken; /* rounds whose factors the compute stream has waited for */
};

static bool takes(const struct sw_route_query *q)
{
    return sw_table_reduction(q->table, q->param) == SW_REDUCTION_FACTORS;
}

static int arrays(const struct sw_route_query *q)
{
    return 1;
}

static int attach(struct sw_exchange *x, void **state, struct sw_err *err)
{
    int count = sw_table_factor_count(x->args.table), exchanged = 0;
    struct layer *layers = sw_calloc((size_t)count + 1, sizeof *layers);

    if (!layers)
        return sw_err_nomem(err, "factors of gradients", (size_t)count * sizeof *layers);

    for (int i = 0; i < count; i++)
        if (sw_table_factors_at(x->args.table, i)->home == SW_FACTORS_EXCHANGED)
            layers[i].number = exchanged++;

    *state = layers;
    return SW_OK;
}

static void detach(struct sw_exchange *x, void *state)
{
    sw_free(state);
}

static struct layer *layer_of(const struct sw_port *p)
{
    return (struct layer *)p->state + sw_table_param(sw_port_table(p), p->param)->factors;
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

static int push(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;

    if (p != p->lead)
        return SW_OK;
    return sw_factors_push(a->factors, a->rank, layer_of(p)->number,
                           sw_exchange_round(p->x, version), a->stream, err);
}

static int wait(const struct sw_port *p, uint64_t version, int timeout_ms)
{
    if (p->x->start == SW_NEVER || (int64_t)version <= p->x->start)
        return SW_OK;
    return sw_factors_wait(p->x->args.factors, layer_of(p)->number,
                           sw_exchange_round(p->x, version), timeout_ms);
}

/* Queues the gradient of the whole batch: dy' x for the weight, the sum of the rows of dy for the
 * bias. */
static int pull(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct sw_table_factors *f = sw_table_factors_of(a->table, p->param);
    struct layer *l = layer_of(p);
    uint64_t round = sw_exchange_round(p->x, version);

    if (l->taken < round) {
        l->taken = round;
        int rc = sw_factors_take(a->factors, l->number, a->stream, err);
        if (rc != SW_OK)
            return rc;
    }

    const float *x = sw_factors_x(a->factors, a->rank, l->number);
    const float *dy = sw_factors_dy(a->factors, a->rank, l->number);
    if (p->param == f->weight) {
        const struct sw_gemm_args weight = {.trans_a = true,
                                            .m = f->outputs,
                                            .n = f->inputs,
                                            .k = f->rows,
                                            .alpha = 1,
                                            .a = dy,
                                            .b = x,
                                            .c = p->at.gradient};
        return sw_op_run(a->stream, &sw_op_gemm, &weight, err);
    }

    const struct sw_sum_rows_args bias = {
        .rows = f->rows, .columns = f->outputs, .x = dy, .sum = p->at.gradient};
    return sw_op_run(a->stream, &sw_op_sum_rows, &bias, err);
}

const struct sw_route sw_route_factors = {.name = "factors",
                                          .takes = takes,
                                          .updates_on_device = true,
                                          .is_collective = true,
                                          .arrays = arrays,
                                          .attach = attach,
                                          .detach = detach,
                                          .bind = bind,
                                          .push = push,
                                          .wait = wait,
                                          .pull = pull};
