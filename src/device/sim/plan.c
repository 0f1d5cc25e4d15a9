/* Plans of sim: each wraps a plan of the cpu stream and queues its passes. Plans are also created
 * on the stream's thread, because a cpu stream has one user at a time and a library's choices
 * depend on the threads of the caller; the host waits for the result. Freeing is queued after the
 * operations that use the plan. */
#include "base/os.h"
#include "device/sim/stream.h"

/* In the order of these names. */
enum { SRC, WEIGHT, BIAS, DST, DIFF_DST, DIFF_SRC, DIFF_WEIGHT, DIFF_BIAS, SAVED, SCRATCH };
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

static void set_array(struct sw_sim_op *op, int i, const void *p, size_t bytes)
{
    op->p[i] = (void *)p;
    op->bytes[i] = p ? bytes : 0; /* some are not used by a pass */
}

static size_t parameter_bytes(const struct sw_desc *d)
{
    return d->ndim ? sw_desc_bytes(d) : 0;
}

static int push_pass(struct sw_plan *plan, const struct sw_sim_op_type *type, uint32_t written,
                     const struct sw_plan_args *a, struct sw_err *err)
{
    struct sw_sim_op op = {.type = type,
                           .subject = plan_of(plan)->kind,
                           .written = written | BIT(SCRATCH),
                           .u.plan = plan_of(plan)->inner};

    set_array(&op, SRC, a->src, sw_desc_bytes(&plan->src));
    set_array(&op, WEIGHT, a->weight, parameter_bytes(&plan->weight));
    set_array(&op, BIAS, a->bias, parameter_bytes(&plan->bias));
    set_array(&op, DST, a->dst, sw_desc_bytes(&plan->dst));
    set_array(&op, DIFF_DST, a->diff_dst, sw_desc_bytes(&plan->dst));
    set_array(&op, DIFF_SRC, a->diff_src, sw_desc_bytes(&plan->src));
    set_array(&op, DIFF_WEIGHT, a->diff_weight, parameter_bytes(&plan->weight));
    set_array(&op, DIFF_BIAS, a->diff_bias, parameter_bytes(&plan->bias));
    set_array(&op, SAVED, a->saved, plan->saved_bytes);
    set_array(&op, SCRATCH, a->scratch, plan->scratch_bytes);

    return sw_sim_push(plan->stream, &op, err);
}

static struct sw_plan_args args_of(const struct sw_sim_op *op)
{
    return (struct sw_plan_args){.src = op->p[SRC],
                                 .weight = op->p[WEIGHT],
                                 .bias = op->p[BIAS],
                                 .dst = op->p[DST],
                                 .diff_dst = op->p[DIFF_DST],
                                 .diff_src = op->p[DIFF_SRC],
                                 .diff_weight = op->p[DIFF_WEIGHT],
                                 .diff_bias = op->p[DIFF_BIAS],
                                 .saved = op->p[SAVED],
                                 .scratch = op->p[SCRATCH]};
}

/* The three passes differ in name and in what they write. */
#define PASS(id, w)                                                                                \
    static int run_##id(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)         \
    {                                                                                              \
        struct sw_plan_args a = args_of(op);                                                       \
        (void)s;                                                                                   \
        return sw_plan_##id(op->u.plan, &a, err);                                                  \
    }                                                                                              \
    static const struct sw_sim_op_type id##_type = {                                               \
        .name = #id, .pointers = pointers, .counted = true, .run = run_##id};                      \
    static int id(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)             \
    {                                                                                              \
        return push_pass(p, &id##_type, w, a, err);                                                \
    }

PASS(forward, BIT(DST) | BIT(SAVED))
PASS(backward_data, BIT(DIFF_SRC))
PASS(backward_weights, BIT(DIFF_WEIGHT) | BIT(DIFF_BIAS))

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

/* The arguments and results of a maker, on the stack of the waiting caller. */
struct sw_sim_make {
    const char *kind;
    const struct sw_desc *src, *to;
    const void *shape;
    struct sw_plan_passes passes;
    int (*make)(const struct sw_sim_make *m, struct sw_stream *cpu, struct sw_plan **out,
                struct sw_err *err);
    struct sw_tune *tune; /* the device's */
    bool avoid_winograd;  /* the device's */
    struct sw_plan *made;
    int rc;
    struct sw_err err;
};

/* An error is returned by the maker and is not an error of the stream. */
static int run_make(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_make *m = op->u.make;

    s->cpu->dev->tune = m->tune;
    s->cpu->dev->avoid_winograd = m->avoid_winograd;
    m->rc = m->make(m, s->cpu, &m->made, &m->err);

    return SW_OK;
}

static void skip_make(struct sw_sim_op *op, const struct sw_err *why)
{
    op->u.make->rc = why->code;
    op->u.make->err = *why;
}

static const struct sw_sim_op_type make_type = {.name = "plan", .run = run_make, .skip = skip_make};

/* Creates the cpu plan on the stream's thread. */
static int make_inner(struct sw_stream *s, struct sw_sim_make *m, struct sw_err *err)
{
    const struct sw_sim_op op = {.type = &make_type, .u.make = m};

    m->tune = s->dev->tune;
    m->avoid_winograd = s->dev->avoid_winograd;

    int rc = sw_sim_push(s, &op, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_stream_wait(s, NULL);
    (void)rc; /* skip_make reports earlier errors of the stream; later ones do not concern this plan

               */
    if (m->rc != SW_OK && err)
        *err = m->err;
    return m->rc;
}

static int make_plan(struct sw_stream *s, struct sw_sim_make *m, struct sw_plan **out,
                     struct sw_err *err)
{
    struct sim_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a plan", sizeof *p);

    int rc = make_inner(s, m, err);
    if (rc != SW_OK) {
        sw_free(p);
        return rc;
    }

    p->inner = m->made;
    p->kind = m->kind;
    p->base = *m->made;
    p->base.ops = m->made->ops->backward_weights ? &weighted_ops : &weightless_ops;
    p->base.stream = s;
    *out = &p->base;

    return SW_OK;
}

/* Defines a maker of the table, and the function that it runs on the thread. */
#define MAKER(id, shape_type)                                                                      \
    static int make_##id(const struct sw_sim_make *m, struct sw_stream *cpu, struct sw_plan **out, \
                         struct sw_err *err)                                                       \
    {                                                                                              \
        return cpu->dev->ops->plans->id(cpu, m->src, m->shape, m->passes, out, err);               \
    }                                                                                              \
    static int id(struct sw_stream *s, const struct sw_desc *src, const struct shape_type *shape,  \
                  struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)          \
    {                                                                                              \
        struct sw_sim_make m = {                                                                   \
            .kind = #id, .src = src, .shape = shape, .passes = passes, .make = make_##id};         \
        return make_plan(s, &m, out, err);                                                         \
    }

MAKER(convolution, sw_conv_shape)
MAKER(deconvolution, sw_conv_shape)
MAKER(pooling, sw_pool_shape)
MAKER(lrn, sw_lrn_shape)
MAKER(inner_product, sw_ip_shape)

static int make_reorder(const struct sw_sim_make *m, struct sw_stream *cpu, struct sw_plan **out,
                        struct sw_err *err)
{
    return cpu->dev->ops->plans->reorder(cpu, m->src, m->to, out, err);
}

static int reorder(struct sw_stream *s, const struct sw_desc *from, const struct sw_desc *to,
                   struct sw_plan **out, struct sw_err *err)
{
    struct sw_sim_make m = {.kind = "reorder", .src = from, .to = to, .make = make_reorder};
    return make_plan(s, &m, out, err);
}

const struct sw_plan_makers sw_sim_plans = {
    .convolution = convolution,
    .deconvolution = deconvolution,
    .pooling = pooling,
    .lrn = lrn,
    .inner_product = inner_product,
    .reorder = reorder,
};
