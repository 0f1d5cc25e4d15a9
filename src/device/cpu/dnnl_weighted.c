/* The common part of convolution and inner product: creates the primitives of the three passes, and
 * chooses the layout in which the weights are stored. For each pass oneDNN lists several
 * implementations, the one first that it expects to be the fastest; that one is the default. With
 * measured algorithms (device/tune.h) it may be another one, given by name. */
#include "device/cpu/dnnl.h"

#include "base/os.h"
#include "device/tune.h"
#include <string.h>

/* One plan under construction. */
struct build {
    const struct sw_dnnl_weighted *w;
    const struct sw_tune_choice *choice;
    struct sw_dnnl_plan *plan;
    dnnl_primitive_attr_t attr, plain_attr;
    dnnl_primitive_desc_t forward;
    struct sw_dnnl_layout src, weight, dst; /* of the caller */
    dnnl_engine_t engine;
    bool winograd[SW_TUNE_PASSES]; /* whether each pass uses Winograd */
};

/* Passes read the operand type, and write floats or an activation of 16 bits. */
static enum sw_dtype type_of(const struct sw_dnnl_weighted *w, bool written, enum sw_dtype stored)
{
    return written && stored == SW_F32 ? SW_F32 : w->operand_type;
}

static enum sw_tune_pass pass_of(dnnl_prop_kind_t kind)
{
    return kind == dnnl_backward_data      ? SW_TUNE_DATA
           : kind == dnnl_backward_weights ? SW_TUNE_WEIGHTS
                                           : SW_TUNE_FORWARD;
}

/* The pass with its layout of weights and its algorithm. */
static struct sw_dnnl_pass pass_with(const struct build *b, dnnl_prop_kind_t kind,
                                     const struct sw_dnnl_layout *weight, dnnl_alg_kind_t algorithm)
{
    const struct sw_dnnl_weighted *w = b->w;
    bool forward = kind == dnnl_forward_training;
    struct sw_dnnl_pass pass = w->pass;

    pass.kind = kind;
    pass.algorithm = algorithm;
    pass.weight = *weight;
    pass.src.desc.dtype = type_of(w, kind == dnnl_backward_data, w->q->src->dtype);
    pass.dst.desc.dtype = type_of(w, forward, w->q->dst_type);
    pass.weight.desc.dtype = type_of(w, kind == dnnl_backward_weights, SW_F32);

    pass.engine = b->engine;
    pass.attr = forward ? b->attr : b->plain_attr;
    pass.forward = forward ? NULL : b->forward;

    return pass;
}

/* Calls use(user, pd) for the implementations of a pass, the default first, until it returns true,
 * which means that it keeps pd. Winograd implementations are also requested explicitly, since with
 * `auto` the library lists them for few shapes. */
static bool each_pd(const struct build *b, dnnl_prop_kind_t kind,
                    const struct sw_dnnl_layout *weight, sw_dnnl_use *use, void *user)
{
    const dnnl_alg_kind_t algorithms[] = {b->w->pass.algorithm, dnnl_convolution_winograd};
    int count = b->w->pass.algorithm == dnnl_convolution_auto ? 2 : 1;
    bool kept = false;

    for (int i = 0; i < count && !kept; i++) {
        struct sw_dnnl_pass pass = pass_with(b, kind, weight, algorithms[i]);
        kept = sw_dnnl_each(&pass, use, user) == dnnl_success;
    }

    return kept;
}

struct wanted {
    const char *name;
    dnnl_primitive_desc_t found;
};

static bool is_wanted(void *user, dnnl_primitive_desc_t pd)
{
    struct wanted *w = user;
    /* Long names are compared only up to the stored length. */
    bool same = strncmp(sw_dnnl_impl(pd), w->name, SW_TUNE_NAME - 1) == 0;

    w->found = same ? pd : NULL;
    return same;
}

static int make_pd(const struct build *b, dnnl_prop_kind_t kind,
                   const struct sw_dnnl_layout *weight, dnnl_primitive_desc_t *pd,
                   struct sw_err *err)
{
    struct wanted wanted = {.name = b->choice->name[pass_of(kind)]};

    if (wanted.name[0]) {
        if (!each_pd(b, kind, weight, is_wanted, &wanted))
            return sw_err_set(err, SW_ERR_UNSUPPORTED, "oneDNN: %s: no implementation named %s",
                              b->w->name, wanted.name);

        *pd = wanted.found;
        return SW_OK;
    }

    struct sw_dnnl_pass pass = pass_with(b, kind, weight, b->w->pass.algorithm);
    return sw_dnnl_check(sw_dnnl_first(&pass, pd), b->w->name, err);
}

/* Chooses the forward primitive and the layout of the weights. A layout given by the caller is used
 * directly if the implementation stays the same, else through a reorder. */
static int choose_forward(struct build *b, struct sw_err *err)
{
    const struct sw_dnnl_weighted *w = b->w;
    struct sw_plan *p = &b->plan->base;

    int rc = make_pd(b, dnnl_forward_training, &w->pass.weight, &b->forward, err);
    if (rc != SW_OK)
        return rc;

    if (!w->weight_layout) {
        struct sw_dnnl_layout chosen = sw_dnnl_chosen(b->forward, dnnl_query_weights_md);
        if (!sw_dnnl_weights_to_desc(chosen.chosen, w->groups, &p->weight))
            p->weight = w->weight_plain;
        p->weight.dtype = SW_F32; /* the parameter is f32, whatever the operand type */
        return SW_OK;
    }

    p->weight = *w->weight_layout;

    struct sw_dnnl_layout given;
    dnnl_primitive_desc_t fixed = NULL;
    struct sw_err ignored;
    if (!sw_dnnl_weights_from_desc(w->weight_layout, w->groups, &given) ||
        make_pd(b, dnnl_forward_training, &given, &fixed, &ignored) != SW_OK)
        return SW_OK;

    bool keep_given = w->as_given || strcmp(sw_dnnl_impl(fixed), sw_dnnl_impl(b->forward)) == 0;
    dnnl_primitive_desc_destroy(keep_given ? b->forward : fixed);
    if (keep_given)
        b->forward = fixed;

    return SW_OK;
}

static int set_outer_layouts(struct build *b, struct sw_err *err)
{
    struct sw_plan *p = &b->plan->base;
    if (!sw_dnnl_to_desc(sw_dnnl_chosen(b->forward, dnnl_query_dst_md).chosen, &p->dst))
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "oneDNN: %s: unsupported output layout",
                          b->w->name);

    if (!sw_dnnl_is_empty(&b->w->pass.bias))
        p->bias = sw_desc_plain(SW_F32, 1, &p->weight.dim[0]);
    b->src = sw_dnnl_fixed(&p->src);
    b->dst = sw_dnnl_fixed(&p->dst);
    if (!sw_dnnl_weights_from_desc(&p->weight, b->w->groups, &b->weight))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "oneDNN: %s: the weight layout has padding inside a group", b->w->name);

    return SW_OK;
}

/* The port of the source or its gradient: the layout that the primitive chose, or plain memory that
 * is passed flattened to [N, features]. */
static struct sw_dnnl_port_spec source_port(const struct build *b, const_dnnl_primitive_desc_t pd,
                                            int arg, enum sw_plan_array slot, bool output)
{
    const struct sw_dnnl_weighted *w = b->w;
    struct sw_dnnl_port_spec port = {.arg = arg, .slot = slot, .output = output, .outer = b->src};

    if (w->flatten) {
        port.inner = sw_dnnl_fixed(&w->src_plain);
        port.view = w->pass.src;
        port.inner.desc.dtype = port.view.desc.dtype = type_of(w, output, w->q->src->dtype);
    } else
        port.inner = sw_dnnl_chosen(pd, output ? dnnl_query_diff_src_md : dnnl_query_src_md);

    return port;
}

static int init_forward(struct build *b, struct sw_err *err)
{
    const_dnnl_primitive_desc_t pd = b->forward;
    const struct sw_dnnl_port_spec ports[] = {
        source_port(b, pd, DNNL_ARG_SRC, SW_PLAN_SRC, false),
        {.arg = DNNL_ARG_WEIGHTS,
         .slot = SW_PLAN_WEIGHT,
         .inner = sw_dnnl_chosen(pd, dnnl_query_weights_md),
         .outer = b->weight},
        {.arg = DNNL_ARG_BIAS, .slot = SW_PLAN_BIAS, .inner = b->w->pass.bias},
        {.arg = DNNL_ARG_DST,
         .slot = SW_PLAN_DST,
         .output = true,
         .inner = sw_dnnl_chosen(pd, dnnl_query_dst_md),
         .outer = b->dst},
    };

    return sw_dnnl_op_init(&b->plan->forward, b->plan->base.stream, pd, ports,
                           SW_DNNL_PORT_COUNT(ports), err);
}

static bool is_winograd(const_dnnl_primitive_desc_t pd)
{
    return strstr(sw_dnnl_impl(pd), "wino") != NULL;
}

static int init_backward_data(struct build *b, struct sw_err *err)
{
    dnnl_primitive_desc_t pd = NULL;
    struct sw_err ignored;
    int rc = SW_OK;

    if (!b->w->as_given || make_pd(b, dnnl_backward_data, &b->weight, &pd, &ignored) != SW_OK)
        rc = make_pd(b, dnnl_backward_data, &b->w->pass.weight, &pd, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_dnnl_port_spec ports[] = {
        {.arg = DNNL_ARG_DIFF_DST,
         .slot = SW_PLAN_DIFF_DST,
         .inner = sw_dnnl_chosen(pd, dnnl_query_diff_dst_md),
         .outer = b->dst},
        {.arg = DNNL_ARG_WEIGHTS,
         .slot = SW_PLAN_WEIGHT,
         .inner = sw_dnnl_chosen(pd, dnnl_query_weights_md),
         .outer = b->weight},
        source_port(b, pd, DNNL_ARG_DIFF_SRC, SW_PLAN_DIFF_SRC, true),
    };
    b->winograd[SW_TUNE_DATA] = is_winograd(pd);
    rc = sw_dnnl_op_init(&b->plan->backward_data, b->plan->base.stream, pd, ports,
                         SW_DNNL_PORT_COUNT(ports), err);
    dnnl_primitive_desc_destroy(pd);

    return rc;
}

static int init_backward_weights(struct build *b, struct sw_err *err)
{
    dnnl_primitive_desc_t pd = NULL;

    int rc = make_pd(b, dnnl_backward_weights, &b->w->pass.weight, &pd, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_dnnl_port_spec ports[] = {
        source_port(b, pd, DNNL_ARG_SRC, SW_PLAN_SRC, false),
        {.arg = DNNL_ARG_DIFF_DST,
         .slot = SW_PLAN_DIFF_DST,
         .inner = sw_dnnl_chosen(pd, dnnl_query_diff_dst_md),
         .outer = b->dst},
        {.arg = DNNL_ARG_DIFF_WEIGHTS,
         .slot = SW_PLAN_DIFF_WEIGHT,
         .output = true,
         .inner = sw_dnnl_chosen(pd, dnnl_query_diff_weights_md),
         .outer = b->weight},
        {.arg = DNNL_ARG_DIFF_BIAS,
         .slot = SW_PLAN_DIFF_BIAS,
         .output = true,
         .inner = b->w->pass.bias},
    };
    b->winograd[SW_TUNE_WEIGHTS] = is_winograd(pd);
    rc = sw_dnnl_op_init(&b->plan->backward_weights, b->plan->base.stream, pd, ports,
                         SW_DNNL_PORT_COUNT(ports), err);
    dnnl_primitive_desc_destroy(pd);

    return rc;
}

/* Creates what all passes need: the forward primitive descriptor, which is the hint of the others,
 * and the layouts. */
static int begin_plan(struct build *b, struct sw_err *err)
{
    dnnl_stream_t stream;

    int rc = sw_dnnl_open(b->plan->base.stream, &b->engine, &stream, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_dnnl_attr(b->w->relu, &b->attr, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_dnnl_attr(false, &b->plain_attr, err);
    if (rc != SW_OK)
        return rc;
    rc = choose_forward(b, err);
    if (rc != SW_OK)
        return rc;

    return set_outer_layouts(b, err);
}

/* The plan is named after its forward pass; backward passes are added if they use Winograd's
 * algorithm and forward does not. */
static void name_plan(struct build *b)
{
    char *name = b->plan->base.algorithm;
    size_t used = strlen(name), room = sizeof b->plan->base.algorithm - used;

    if (is_winograd(b->forward))
        return;

    snprintf(name + used, room, "%s%s", b->winograd[SW_TUNE_DATA] ? " wino:data" : "",
             b->winograd[SW_TUNE_WEIGHTS] ? " wino:weights" : "");
}

static int build_plan(struct build *b, struct sw_plan_passes passes, struct sw_err *err)
{
    int rc = begin_plan(b, err);
    if (rc != SW_OK)
        return rc;
    rc = init_forward(b, err);
    if (rc != SW_OK)
        return rc;

    if (passes.backward_data) {
        rc = init_backward_data(b, err);
        if (rc != SW_OK)
            return rc;
    }

    if (passes.backward_weights) {
        rc = init_backward_weights(b, err);
        if (rc != SW_OK)
            return rc;
    }

    sw_dnnl_plan_finish(b->plan, b->forward);
    name_plan(b);
    return SW_OK;
}

static void end_build(struct build *b)
{
    if (b->forward)
        dnnl_primitive_desc_destroy(b->forward);
    if (b->attr)
        dnnl_primitive_attr_destroy(b->attr);
    if (b->plain_attr)
        dnnl_primitive_attr_destroy(b->plain_attr);
}

static struct sw_dnnl_plan *empty_plan(const struct sw_dnnl_weighted *w)
{
    struct sw_dnnl_plan *plan = sw_calloc(1, sizeof *plan);

    if (plan)
        plan->base =
            (struct sw_plan){.ops = &sw_dnnl_plan_ops, .stream = w->q->stream, .src = *w->q->src};

    return plan;
}

static int make_plan(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                     struct sw_plan **out, struct sw_err *err)
{
    const struct sw_dnnl_weighted *w = user;
    struct build b = {.w = w, .choice = choice, .plan = empty_plan(w)};
    if (!b.plan)
        return sw_err_nomem(err, w->name, sizeof *b.plan);

    b.plan->base.backward_reads_src = passes.backward_weights;

    int rc = build_plan(&b, passes, err);
    end_build(&b);
    if (rc != SW_OK) {
        sw_plan_free(&b.plan->base);
        return rc;
    }

    *out = &b.plan->base;
    return SW_OK;
}

/* Skips oneDNN's reference implementations, which are always slow, unless one is the default. */
static bool add_candidate(void *user, dnnl_primitive_desc_t pd)
{
    struct sw_tune_candidates *candidates = user;
    const char *name = sw_dnnl_impl(pd);

    if (candidates->count == 0 || !(sw_str_starts(name, "ref") || sw_str_starts(name, "simple")))
        sw_tune_add_candidate(candidates, name);
    return false;
}

static void list_candidates(void *user, const struct sw_tune_choice *chosen, enum sw_tune_pass pass,
                            struct sw_tune_candidates *out)
{
    const struct sw_dnnl_weighted *w = user;
    const dnnl_prop_kind_t kinds[] = {dnnl_forward_training, dnnl_backward_data,
                                      dnnl_backward_weights};
    struct build b = {.w = w, .choice = chosen, .plan = empty_plan(w)};
    struct sw_err ignored;

    if (b.plan && begin_plan(&b, &ignored) == SW_OK)
        (void)each_pd(&b, kinds[pass], &w->pass.weight, add_candidate, out);
    end_build(&b);
    if (b.plan)
        sw_plan_free(&b.plan->base);
}

int sw_dnnl_weighted_new(const struct sw_dnnl_weighted *w, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_plan_request *q = w->q;
    struct sw_dnnl_weighted user = *w;
    const struct sw_tune_choice rule = {0};

    if (!q->stream->dev->tune)
        return make_plan(&user, &rule, q->passes, out, err);

    struct sw_bytes key = {0};
    char text[128];
    sw_bytes_printf(&key, "%s of %s to ", w->name, sw_desc_text(q->src, text));
    w->append_key(q, &key);
    sw_bytes_printf(&key, " in %s with factors of %s on cpu, %s isa %x, threads %d",
                    sw_dtype_name(q->dst_type), w->operand_type == SW_F32 ? "fp32" : "bf16",
                    sw_cpu_dnnl_version(), (unsigned)dnnl_get_effective_cpu_isa(),
                    sw_cpu_threads(q->stream));

    const struct sw_tune_maker maker = {
        .key = sw_bytes_text(&key), .user = &user, .make = make_plan, .list = list_candidates};
    int rc = key.failed ? sw_err_nomem(err, w->name, SW_TUNE_KEY)
                        : sw_tune_plan(q->stream, q->passes, &maker, out, err);
    sw_bytes_fini(&key);

    return rc;
}
