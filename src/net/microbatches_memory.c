/* Memory layout of the nets of microbatches: consecutive arenas, scratch and gradient pool of each
 * lane, gradients that outlive their layer's backward; and how a budget is divided among the
 * arenas. */
#include "net/microbatches_private.h"

#include "base/os.h"

enum { ALIGN = 4096 };

bool sw_microbatches_keeps_gradient(const struct sw_net *net, int param)
{
    const struct sw_net_param *np = sw_net_param(net, param);
    bool kept = sw_net_phases(net, np->layer, true) > 1;

    for (int q = 0; q < sw_net_param_count(net); q++)
        kept = kept || sw_net_param(net, q)->root == param;
    return kept;
}

static size_t gradient_bytes(const struct sw_net *net, int param)
{
    const struct sw_net_param *np = sw_net_param(net, param);
    bool has = !np->frozen && np->root < 0;

    return has ? sw_aligned(sw_desc_bytes(&sw_net_layer(net, np->layer)->param[np->index].layout),
                            SW_MICROBATCHES_ALIGN)
               : 0;
}

int sw_microbatches_lay_out_gradients(struct sw_microbatches *p, struct sw_err *err)
{
    const struct sw_net *net = sw_microbatches_first(p);
    size_t params = (size_t)sw_net_param_count(net) + 1;

    p->pooled_at = sw_calloc(params, sizeof *p->pooled_at);
    p->kept_at = sw_calloc(params, sizeof *p->kept_at);
    if (!p->pooled_at || !p->kept_at)
        return sw_err_nomem(err, "parts of a batch", params * sizeof *p->kept_at);

    for (int i = 0; i < sw_net_layer_count(net) && p->training && p->count > 1; i++) {
        int first, count = sw_net_layer_params(net, i, &first);
        size_t pooled = 0;

        for (int q = first; q < first + count; q++) {
            size_t *at = sw_microbatches_keeps_gradient(net, q) ? &p->kept_bytes : &pooled;
            (sw_microbatches_keeps_gradient(net, q) ? p->kept_at : p->pooled_at)[q] = *at;
            *at += gradient_bytes(net, q);
        }

        p->slot_bytes = pooled > p->slot_bytes ? pooled : p->slot_bytes;
    }

    return SW_OK;
}

void sw_microbatches_lay_out(struct sw_microbatches *p)
{
    size_t at = 0;

    for (int i = 0; i < p->count; i++) {
        p->microbatch[i].arena_at = at;
        at += sw_aligned(sw_net_arena_bytes(p->microbatch[i].net), ALIGN);
    }

    for (int j = 0; j < p->lanes; j++) {
        struct sw_lane *l = &p->lane[j];
        size_t scratch = 0;

        for (int i = l->first; i < l->first + l->count; i++)
            if (sw_net_scratch_bytes(p->microbatch[i].net) > scratch)
                scratch = sw_net_scratch_bytes(p->microbatch[i].net);

        l->scratch_at = at;
        l->pool_at = at + sw_aligned(scratch, ALIGN);
        at = l->pool_at + sw_aligned(p->slot_bytes * (size_t)p->plan.slots, ALIGN);
    }

    p->arena_bytes = at + p->kept_bytes * (size_t)p->count;
}

/* Bytes of the arenas only. */
static size_t bytes_of_arenas(const struct sw_microbatches *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->count; i++)
        bytes += sw_aligned(sw_net_arena_bytes(p->microbatch[i].net), ALIGN);
    return bytes;
}

/* Microbatches are alike: the arenas divide the remaining budget equally. */
int sw_microbatches_fit(struct sw_microbatches *p, size_t budget_bytes,
                        const struct sw_device_throughput *throughput, struct sw_net_fit *fit,
                        struct sw_err *err)
{
    size_t beside = p->arena_bytes - bytes_of_arenas(p), least = 0;
    size_t share = budget_bytes > beside ? (budget_bytes - beside) / (size_t)p->count : 0;

    *fit = (struct sw_net_fit){.fits = true};
    for (int i = 0; i < p->count; i++) {
        struct sw_net *net = p->microbatch[i].net;
        struct sw_net_fit one = {.fits = true};
        int rc = SW_OK;

        if (sw_net_arena_bytes(net) > share)
            rc = sw_net_fit(net, share, throughput, &one, err);
        if (rc != SW_OK)
            return rc;

        fit->fits = fit->fits && one.fits;
        if (one.least_bytes <= least)
            continue;

        least = one.least_bytes;
        fit->layer = one.layer;
        fit->pass = one.pass;
    }

    sw_microbatches_lay_out(p);
    fit->least_bytes = least ? beside + least * (size_t)p->count : 0;
    return SW_OK;
}

struct sw_net_cost sw_microbatches_cost(const struct sw_microbatches *p)
{
    struct sw_net_cost sum = {.kept_bytes = p->arena_bytes - bytes_of_arenas(p)};

    for (int i = 0; i < p->count; i++) {
        const struct sw_net_cost c = sw_net_cost(p->microbatch[i].net);

        sum.kept_bytes += sw_aligned(c.kept_bytes, ALIGN);
        sum.recomputed += c.recomputed;
        sum.offloaded += c.offloaded;
        sum.recompute_flops += c.recompute_flops;
        sum.recompute_bytes += c.recompute_bytes;
        sum.offload_bytes += c.offload_bytes;
    }

    return sum;
}

void sw_microbatches_bind_offload(struct sw_microbatches *p, void *memory)
{
    char *at = memory;

    for (int i = 0; i < p->count; i++) {
        size_t bytes = sw_net_cost(p->microbatch[i].net).offload_bytes;
        if (bytes == 0)
            continue; /* memory may be NULL */

        sw_net_bind_offload(p->microbatch[i].net, at);
        at += bytes;
    }
}

/* ---- Pointers ---- */

static char *partial_memory(const struct sw_microbatches *p, char *arena)
{
    return arena + p->arena_bytes - p->kept_bytes * (size_t)p->count;
}

/* The buffer of a gradient that is not the first of its partial sum. */
static float *aside(const struct sw_microbatches *p, char *arena, const struct sw_lane *l,
                    int microbatch, int param)
{
    char *at =
        sw_microbatches_keeps_gradient(sw_microbatches_first(p), param)
            ? partial_memory(p, arena) + p->kept_bytes * (size_t)microbatch + p->kept_at[param]
            : arena + l->pool_at + p->slot_bytes * (size_t)p->plan.slot[microbatch] +
                  p->pooled_at[param];
    return (float *)(void *)at;
}

void sw_microbatches_bind(struct sw_microbatches *p, void *memory)
{
    char *arena = memory;
    int params = p->training ? sw_net_param_count(sw_microbatches_first(p)) : 0;

    for (int j = 0; j < p->lanes; j++) {
        const struct sw_lane *l = &p->lane[j];

        for (int i = l->first; i < l->first + l->count; i++) {
            struct sw_microbatch_net *microbatch = &p->microbatch[i];

            sw_net_bind(microbatch->net, arena + microbatch->arena_at, arena + l->scratch_at);

            for (int q = 0; q < params; q++)
                microbatch->gradient[q] =
                    p->plan.slot[i] < 0 || gradient_bytes(microbatch->net, q) == 0
                        ? NULL
                        : aside(p, arena, l, i, q);
        }
    }
}

void sw_microbatches_bind_param(struct sw_microbatches *p, int param, const float *value,
                                float *const *partials)
{
    const struct sw_net_param *np = sw_net_param(sw_microbatches_first(p), param);

    for (int i = 0; i < p->count; i++) {
        struct sw_microbatch_net *microbatch = &p->microbatch[i];

        if (p->training && p->plan.slot[i] < 0)
            microbatch->gradient[param] = partials ? partials[p->plan.partial[i]] : NULL;

        /* A tied parameter uses the gradient of its root. */
        float *gradient = !partials       ? NULL
                          : np->root >= 0 ? microbatch->gradient[np->root]
                                          : microbatch->gradient[param];
        sw_net_bind_param(microbatch->net, param, value, gradient);
    }
}

void sw_microbatches_bind_row_list(struct sw_microbatches *p, int param, struct sw_row_list *listed)
{
    if (p->count == 1)
        sw_net_bind_row_list(p->microbatch[0].net, param, listed);
}
