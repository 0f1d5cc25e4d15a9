/* Plans of sim: each wraps a plan of the cpu stream and queues its passes. Plans are also created
 * on the stream's thread, because a cpu stream has one user at a time and a library's choices
 * depend on the threads of the caller; the host waits for the result. Freeing is queued after the
 * operations that use the plan. */
#include "base/os.h"
#include "device/sim/stream.h"

/* In the order of enum sw_plan_array. */
static const char *const pointers[] = {"src",      "weight",   "bias",        "dst",
                                       "diff_dst", "diff_src", "diff_weight", "diff_bias",
                                       "saved",    "scratch",  NULL};

#define BIT(i) (1u << (i))

struct sim_plan {
    struct sw_plan base;   /* first member */
    struct sw_plan *inner; /* owned; used by the stream's thread */
    const char *kind;      /* convolution, ... */
};

static struct sim_plan *plan_of(struct sw_plan *p)
{
    return (struct sim_plan *)(void *)p;
}

/* ---- Passes ---- */

static int push_pass(struct sw_plan *plan, const struct sw_sim_op_type *type, uint32_t written,
                     const struct sw_plan_args *a, struct sw_err *err)
{
    struct sw_sim_op op = {.type = type,
                           .subject = plan_of(plan)->kind,
                           .written = written | BIT(SW_PLAN_SCRATCH),
                           .u.plan = plan_of(plan)->inner};

    sw_plan_list(a, op.p);
    sw_plan_bytes(plan, op.bytes);
    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        op.bytes[i] = op.p[i] ? op.bytes[i] : 0; /* some are not used by a pass */

    return sw_sim_push(plan->stream, &op, err);
}

/* The three passes differ in name and in what they write. */
#define PASS(id, w)                                                                                \
    static int run_##id(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)         \
    {                                                                                              \
        struct sw_plan_args a = sw_plan_args_of(op->p);                                            \
        (void)s;                                                                                   \
        return sw_plan_##id(op->u.plan, &a, err);                                                  \
    }                                                                                              \
    static const struct sw_sim_op_type id##_type = {                                               \
        .name = #id, .pointers = pointers, .counted = true, .run = run_##id};                      \
    static int id(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)             \
    {                                                                                              \
        return push_pass(p, &id##_type, w, a, err);                                                \
    }

PASS(forward, BIT(SW_PLAN_DST) | BIT(SW_PLAN_SAVED))
PASS(backward_data, BIT(SW_PLAN_DIFF_SRC))
PASS(backward_weights, BIT(SW_PLAN_DIFF_WEIGHT) | BIT(SW_PLAN_DIFF_BIAS))

static int run_free(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    sw_plan_free(op->u.plan);
    return SW_OK;
}

static const struct sw_sim_op_type free_type = {
    .name = "plan_free", .always = true, .run = run_free};

static void free_plan(struct sw_plan *plan)
{
    struct sim_plan *p = plan_of(plan);
    const struct sw_sim_op op = {.type = &free_type, .u.plan = p->inner};
    int rc = sw_sim_push(plan->stream, &op, NULL);

    (void)rc; /* this operation has no pointers and is always queued, so it cannot fail */
    sw_free(p);
}

static const struct sw_plan_ops weighted_ops = {.forward = forward,
                                                .backward_data = backward_data,
                                                .backward_weights = backward_weights,
                                                .free = free_plan};
static const struct sw_plan_ops weightless_ops = {
    .forward = forward, .backward_data = backward_data, .free = free_plan};

/* ---- Making ---- */

/* The request and results of a maker, on the stack of the waiting caller. */
struct sw_sim_make {
    const struct sw_plan_request *request;
    struct sw_plan *made;
    int rc;
    struct sw_err err;
};

/* An error is returned by the maker and is not an error of the stream. */
static int run_make(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_make *m = op->u.make;
    struct sw_plan_request q = *m->request;

    s->cpu->dev->tune = q.stream->dev->tune;
    s->cpu->dev->avoid_winograd = q.stream->dev->avoid_winograd;
    q.stream = s->cpu;
    m->rc = s->cpu->dev->ops->plans->make[q.kind](&q, &m->made, &m->err);

    return SW_OK;
}

static void skip_make(struct sw_sim_op *op, const struct sw_err *why)
{
    op->u.make->rc = why->code;
    op->u.make->err = *why;
}

static const struct sw_sim_op_type make_type = {.name = "plan", .run = run_make, .skip = skip_make};

/* Creates the cpu plan on the stream's thread. */
static int make_inner(struct sw_sim_make *m, struct sw_err *err)
{
    struct sw_stream *s = m->request->stream;
    const struct sw_sim_op op = {.type = &make_type, .u.make = m};

    int rc = sw_sim_push(s, &op, err);
    if (rc != SW_OK)
        return rc;

    /* skip_make reports earlier errors of the stream; later ones do not concern this plan. */
    rc = sw_stream_wait(s, NULL);
    (void)rc;
    if (m->rc != SW_OK && err)
        *err = m->err;
    return m->rc;
}

static int make_plan(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_sim_make m = {.request = q};
    struct sim_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a plan", sizeof *p);

    int rc = make_inner(&m, err);
    if (rc != SW_OK) {
        sw_free(p);
        return rc;
    }

    p->inner = m.made;
    p->kind = sw_plan_kind_name(q->kind);
    p->base = *m.made;
    p->base.ops = m.made->ops->backward_weights ? &weighted_ops : &weightless_ops;
    p->base.stream = q->stream;
    *out = &p->base;

    return SW_OK;
}

const struct sw_plan_makers sw_sim_plans = {
    .make = {make_plan, make_plan, make_plan, make_plan, make_plan, make_plan},
    .halves = {[SW_PLAN_REORDER] = true}};
