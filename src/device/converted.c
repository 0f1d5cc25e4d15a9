/* Plans on 16-bit activations by an fp32 plan and conversions (device/converted.h). */
#include "device/converted.h"
#include "base/os.h"

enum { ALIGN_BYTES = 256 };

/* The source or the result. */
struct side {
    struct sw_plan *load, *store; /* owned; NULL: the inner plan uses the given array */
    size_t value_at, gradient_at; /* floats in scratch; the same if backward reads no value */
};

struct converted {
    struct sw_plan base;   /* first member */
    struct sw_plan *inner; /* owned; its scratch begins at offset 0 */
    struct side src, dst;
    size_t plans_at; /* scratch of the conversions */
};

static struct converted *converted_of(struct sw_plan *p)
{
    return (struct converted *)(void *)p;
}

/* ---- Passes ---- */

static int convert(const struct converted *c, const struct sw_plan_args *a, struct sw_plan *plan,
                   const void *from, void *to, struct sw_err *err)
{
    const struct sw_plan_args args = {
        .src = from, .dst = to, .scratch = (char *)a->scratch + c->plans_at};
    return sw_plan_forward(plan, &args, err);
}

/* Sets *x, an array that the inner plan reads, to floats. Where `again` is set they are in scratch
 * since the call before. */
static int load(const struct converted *c, const struct side *s, const struct sw_plan_args *a,
                bool again, size_t at, const void **x, struct sw_err *err)
{
    const void *given = *x;
    if (!s->load || !given)
        return SW_OK;

    void *floats = (char *)a->scratch + at;
    *x = floats;
    return again ? SW_OK : convert(c, a, s->load, given, floats, err);
}

/* Returns where the inner plan writes floats. */
static void *room(const struct side *s, const struct sw_plan_args *a, size_t at, void *given)
{
    return s->store && given ? (char *)a->scratch + at : given;
}

static int store(const struct converted *c, const struct side *s, const struct sw_plan_args *a,
                 size_t at, void *given, struct sw_err *err)
{
    if (!s->store || !given)
        return SW_OK;
    return convert(c, a, s->store, (char *)a->scratch + at, given, err);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct converted *c = converted_of(p);
    struct sw_plan_args inner = *a;

    inner.diff_dst = inner.diff_src = NULL;
    int rc = load(c, &c->src, a, false, c->src.value_at, &inner.src, err);
    if (rc != SW_OK)
        return rc;

    inner.dst = room(&c->dst, a, c->dst.value_at, a->dst);
    rc = sw_plan_forward(c->inner, &inner, err);
    if (rc != SW_OK)
        return rc;

    return store(c, &c->dst, a, c->dst.value_at, a->dst, err);
}

/* Loads what backward reads; the inner plan gets no other array of 16 bits. */
static int load_operands(const struct converted *c, const struct sw_plan_args *a,
                         struct sw_plan_args *inner, struct sw_err *err)
{
    bool again = a->diff_again;
    const void *dst = c->base.backward_reads_dst ? a->dst : NULL;

    inner->diff_src = NULL;
    inner->src = c->base.backward_reads_src ? a->src : NULL;
    int rc = load(c, &c->src, a, again, c->src.value_at, &inner->src, err);
    if (rc == SW_OK)
        rc = load(c, &c->dst, a, again, c->dst.value_at, &dst, err);
    if (rc != SW_OK)
        return rc;

    inner->dst = (void *)dst;
    return load(c, &c->dst, a, again, c->dst.gradient_at, &inner->diff_dst, err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct converted *c = converted_of(p);
    struct sw_plan_args inner = *a;

    int rc = load_operands(c, a, &inner, err);
    if (rc != SW_OK)
        return rc;

    inner.diff_src = room(&c->src, a, c->src.gradient_at, a->diff_src);
    rc = sw_plan_backward_data(c->inner, &inner, err);
    if (rc != SW_OK)
        return rc;

    return store(c, &c->src, a, c->src.gradient_at, a->diff_src, err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct converted *c = converted_of(p);
    struct sw_plan_args inner = *a;

    int rc = load_operands(c, a, &inner, err);
    return rc == SW_OK ? sw_plan_backward_weights(c->inner, &inner, err) : rc;
}

static void free_plan(struct sw_plan *p)
{
    struct converted *c = converted_of(p);
    struct sw_plan *const plans[] = {c->src.load, c->src.store, c->dst.load, c->dst.store,
                                     c->inner};

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        sw_plan_free(plans[i]);
    sw_free(c);
}

static const struct sw_plan_ops weighted_ops = {.forward = forward,
                                                .backward_data = backward_data,
                                                .backward_weights = backward_weights,
                                                .free = free_plan};
static const struct sw_plan_ops weightless_ops = {
    .forward = forward, .backward_data = backward_data, .free = free_plan};

/* ---- Making ---- */

static int make_conversion(struct sw_stream *s, const struct sw_desc *from,
                           const struct sw_desc *to, size_t *scratch, struct sw_plan **out,
                           struct sw_err *err)
{
    const struct sw_plan_request q = {
        .kind = SW_PLAN_REORDER, .stream = s, .src = from, .shape.to = to};

    int rc = sw_plan_new(&q, out, err);
    if (rc == SW_OK && (*out)->scratch_bytes > *scratch)
        *scratch = (*out)->scratch_bytes;
    return rc;
}

/* Prepares a side if it is stored in 16 bits; `floats` is the inner plan's layout, `read` whether
 * backward reads its value. */
static int init_side(struct sw_plan *p, struct side *s, const struct sw_desc *stored,
                     const struct sw_desc *floats, bool read, size_t *scratch, struct sw_err *err)
{
    size_t bytes = sw_desc_bytes(floats);
    if (stored->dtype == SW_F32)
        return SW_OK;

    s->value_at = sw_plan_reserve(p, bytes, ALIGN_BYTES);
    s->gradient_at = read ? sw_plan_reserve(p, bytes, ALIGN_BYTES) : s->value_at;

    int rc = make_conversion(p->stream, stored, floats, scratch, &s->load, err);
    if (rc != SW_OK)
        return rc;

    return make_conversion(p->stream, floats, stored, scratch, &s->store, err);
}

/* Wraps the inner plan, which c owns. */
static int init(struct converted *c, const struct sw_plan_request *q, struct sw_err *err)
{
    struct sw_plan *p = &c->base;
    size_t scratch = 0;

    *p = *c->inner;
    p->ops = c->inner->ops->backward_weights ? &weighted_ops : &weightless_ops;
    p->next = NULL;
    p->src = *q->src;
    p->dst = sw_desc_as(&c->inner->dst, q->dst_type);

    int rc = init_side(p, &c->src, &p->src, &c->inner->src, p->backward_reads_src, &scratch, err);
    if (rc == SW_OK)
        rc = init_side(p, &c->dst, &p->dst, &c->inner->dst, p->backward_reads_dst, &scratch, err);
    if (rc != SW_OK)
        return rc;

    c->plans_at = sw_plan_reserve(p, scratch, ALIGN_BYTES);
    return SW_OK;
}

int sw_converted_plan(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct converted *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "a plan", sizeof *c);

    struct sw_desc src = sw_desc_as(q->src, SW_F32);
    struct sw_plan_request inner = *q;
    inner.src = &src;
    inner.dst_type = SW_F32;

    int rc = sw_plan_new(&inner, &c->inner, err);
    if (rc == SW_OK)
        rc = init(c, q, err);
    if (rc != SW_OK) {
        free_plan(&c->base);
        return rc;
    }

    *out = &c->base;
    return SW_OK;
}
