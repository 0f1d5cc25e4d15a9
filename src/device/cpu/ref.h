/* Common parts of the reference plans. They work on plain NCHW; a source in another layout is first
 * copied into scratch, and its gradient is computed in scratch and copied back. Every plan's
 * private struct begins with struct sw_ref_plan. Internal to ref_*.c. */
#pragma once

#include "device/cpu/cpu.h"

struct sw_ref_plan {
    struct sw_plan base;  /* first member */
    struct sw_desc plain; /* the source in plain order */
    bool copied;          /* the source has another layout, and a copy is in scratch */
    size_t copy_offset;   /* bytes */
    int threads;
};

/* Allocates a plan of `bytes` bytes for a source on a stream; reserves scratch for the copy if one
 * is needed. NULL: out of memory. */
void *sw_ref_plan_new(size_t bytes, const struct sw_plan_ops *ops, const struct sw_plan_request *q,
                      const char *algorithm);
void sw_ref_plan_free(struct sw_plan *p);

/* Returns the source in plain order: the source itself, or a copy that it makes. */
const float *sw_ref_source(const struct sw_ref_plan *p, const struct sw_plan_args *a);
/* Returns where to write the source's gradient in plain order. */
float *sw_ref_diff(const struct sw_ref_plan *p, const struct sw_plan_args *a);
/* Copies the gradient to its destination, if it was computed in scratch. */
void sw_ref_diff_done(const struct sw_ref_plan *p, const struct sw_plan_args *a);

static inline float *sw_ref_scratch(const struct sw_plan_args *a, size_t offset)
{
    return (float *)(void *)((char *)a->scratch + offset);
}

/* The makers of the table sw_cpu_ref_plans. */
sw_plan_maker sw_ref_convolution, sw_ref_pooling, sw_ref_lrn, sw_ref_inner_product, sw_ref_reorder;

/* Checks that a given weight layout is plain. Errors: SW_ERR_UNSUPPORTED. */
int sw_ref_check_weight_layout(const struct sw_desc *layout, struct sw_err *err) SW_MUST_CHECK;
