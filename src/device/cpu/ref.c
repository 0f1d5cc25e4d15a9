/* Common parts of the reference plans; device/cpu/ref.h has the contract. */
#include "device/cpu/ref.h"
#include "base/os.h"
#include <stdio.h>

void *sw_ref_plan_new(size_t bytes, const struct sw_plan_ops *ops, const struct sw_plan_request *q,
                      const char *algorithm)
{
    const struct sw_desc *src = q->src;
    struct sw_ref_plan *p = sw_calloc(1, bytes);
    if (!p)
        return NULL;

    p->base = (struct sw_plan){.ops = ops, .stream = q->stream, .src = *src};
    p->plain = sw_desc_plain(src->dtype, src->ndim, src->dim);
    p->copied = !sw_desc_is_plain(src);
    if (p->copied)
        p->copy_offset = sw_cpu_reserve(&p->base, sw_desc_bytes(&p->plain));
    p->threads = sw_cpu_threads(q->stream);
    snprintf(p->base.algorithm, sizeof p->base.algorithm, "%s", algorithm);

    return p;
}

void sw_ref_plan_free(struct sw_plan *p)
{
    sw_free(p);
}

const float *sw_ref_source(const struct sw_ref_plan *p, const struct sw_plan_args *a)
{
    if (!p->copied)
        return a->src;

    float *copy = sw_ref_scratch(a, p->copy_offset);
    sw_cpu_reorder(p->threads, &p->base.src, a->src, &p->plain, copy);
    return copy;
}

float *sw_ref_diff(const struct sw_ref_plan *p, const struct sw_plan_args *a)
{
    return p->copied ? sw_ref_scratch(a, p->copy_offset) : a->diff_src;
}

void sw_ref_diff_done(const struct sw_ref_plan *p, const struct sw_plan_args *a)
{
    if (p->copied)
        sw_cpu_reorder(p->threads, &p->plain, sw_ref_scratch(a, p->copy_offset), &p->base.src,
                       a->diff_src);
}

int sw_ref_check_weight_layout(const struct sw_desc *layout, struct sw_err *err)
{
    char text[128];

    if (!layout || sw_desc_is_plain(layout))
        return SW_OK;
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "the reference plans read plain weights only, not %s",
                      sw_desc_text(layout, text));
}
