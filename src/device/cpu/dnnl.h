/* Common parts of the oneDNN files: conversion of layouts, and `ops`: a primitive with its
 * reorders. An op has one port per argument, which says which pointer of struct sw_plan_args it is,
 * the layout of the caller (outer), and the layout of the primitive (inner). If these differ, the
 * op owns a reorder primitive and a part of the plan's scratch. Running an op allocates no memory
 * itself. oneDNN 2.x only: version 3 removed the operation descriptors. */
#pragma once

#include "base/str.h"
#include "device/cpu/cpu.h"

#include <dnnl.h>

struct sw_dnnl_port {
    int arg;                 /* DNNL_ARG_* */
    enum sw_plan_array slot; /* which array of the plan it reads or writes */
    bool output;
    dnnl_memory_t inner;      /* owned: argument of the primitive */
    dnnl_memory_t outer;      /* owned; NULL without a reorder */
    dnnl_memory_t view;       /* owned; inner's bytes in another shape, or NULL */
    dnnl_primitive_t reorder; /* owned; NULL without a reorder */
    size_t scratch_offset;    /* of inner, with a reorder */
    void *handle, *handle_outer,
        *handle_view; /* the last pointers set, since setting may be slow */
};

enum { SW_DNNL_PORTS = 8 };

struct sw_dnnl_op {
    dnnl_engine_t engine;
    dnnl_stream_t stream;       /* both borrowed from the sw_stream */
    dnnl_primitive_t primitive; /* owned */
    struct sw_dnnl_port port[SW_DNNL_PORTS];
    int port_count;
    dnnl_memory_t scratchpad; /* owned */
    void *scratchpad_handle;
    size_t scratch_bytes; /* of the whole op, 64-byte aligned pieces */
    bool has_run;
};

/* Engine and stream of a sw_stream, made on first use. Errors: SW_ERR_LIBRARY. */
int sw_dnnl_open(struct sw_stream *s, dnnl_engine_t *engine, dnnl_stream_t *stream,
                 struct sw_err *err) SW_MUST_CHECK;

/* Reserves memory for the code that oneDNN compiles when it creates a primitive, or when it first
 * runs one: oneDNN does not check for memory and crashes without it. Errors: SW_ERR_NOMEM. */
int sw_dnnl_need_room(struct sw_err *err) SW_MUST_CHECK;

/* SW_OK, or the library's status as an error: "oneDNN: WHAT: out of memory". */
int sw_dnnl_check(dnnl_status_t status, const char *what, struct sw_err *err) SW_MUST_CHECK;

/* Converts our descriptor to oneDNN's, which is always possible. */
void sw_dnnl_from_desc(const struct sw_desc *d, dnnl_memory_desc_t *md);
/* Converts a descriptor of oneDNN to ours; false if its format is not blocked in a way that sw_desc
 * can express (Winograd weights). */
bool sw_dnnl_to_desc(const dnnl_memory_desc_t *md, struct sw_desc *d);
/* Grouped weights: oneDNN has the shape [g, M/g, C/g, Kh, Kw], we have [M, C/g, Kh, Kw]. False if
 * the layout pads inside a group, which ours cannot express. */
bool sw_dnnl_weights_from_desc(const struct sw_desc *d, int64_t groups, dnnl_memory_desc_t *md);
bool sw_dnnl_weights_to_desc(const dnnl_memory_desc_t *md, int64_t groups, struct sw_desc *d);
/* Stores in *md a descriptor with these dimensions and any format. */
void sw_dnnl_any(int ndims, const int64_t *dims, dnnl_memory_desc_t *md);

/* Creates attributes: a scratchpad provided by the caller, and optionally a relu on the output. The
 * caller destroys them. */
int sw_dnnl_attr(bool relu, dnnl_primitive_attr_t *attr, struct sw_err *err) SW_MUST_CHECK;

/* The description of a port. inner is the layout of the primitive; outer that of the caller, NULL
 * if it is the same; view another shape of the bytes of inner for the primitive, or NULL. */
struct sw_dnnl_port_spec {
    int arg;
    enum sw_plan_array slot;
    bool output;
    const dnnl_memory_desc_t *inner, *outer, *view;
};
/* Creates the primitive of pd with its ports; a spec without inner is skipped (no bias, no
 * workspace). Errors: SW_ERR_LIBRARY, SW_ERR_NOMEM. */
int sw_dnnl_op_init(struct sw_dnnl_op *op, struct sw_stream *s, const_dnnl_primitive_desc_t pd,
                    const struct sw_dnnl_port_spec *ports, int count,
                    struct sw_err *err) SW_MUST_CHECK;
#define SW_DNNL_PORT_COUNT(ports) ((int)(sizeof(ports) / sizeof *(ports)))
int sw_dnnl_op_run(struct sw_dnnl_op *op, const struct sw_plan_args *a,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_dnnl_op_fini(struct sw_dnnl_op *op); /* a zeroed one is accepted */

/* The memory descriptor that a primitive descriptor chose. */
const dnnl_memory_desc_t *sw_dnnl_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what);
/* What forward saves for backward; NULL if nothing. */
const dnnl_memory_desc_t *sw_dnnl_workspace(const_dnnl_primitive_desc_t pd, size_t *bytes);
const char *sw_dnnl_impl(const_dnnl_primitive_desc_t pd);

/* A plan of up to three ops; the private struct of every plan in the oneDNN files. */
struct sw_dnnl_plan {
    struct sw_plan base; /* first member */
    struct sw_dnnl_op forward, backward_data, backward_weights;
};
extern const struct sw_plan_ops sw_dnnl_plan_ops;       /* with weights */
extern const struct sw_plan_ops sw_dnnl_weightless_ops; /* without */
/* Sets scratch_bytes from the ops and algorithm from the forward primitive descriptor. */
void sw_dnnl_plan_finish(struct sw_dnnl_plan *p, const_dnnl_primitive_desc_t forward);

/* The description of a plan without weights for sw_dnnl_weightless_new. */
struct sw_dnnl_weightless {
    dnnl_memory_desc_t src, dst;
    int from, to; /* DNNL_ARG_* of both */
    bool backward_reads_src;
    const void *shape; /* for describe */
    /* Creates the descriptor of a pass; forward is that of the forward pass. */
    int (*describe)(const struct sw_dnnl_weightless *w, bool backward, dnnl_engine_t engine,
                    const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                    dnnl_primitive_desc_t *out, struct sw_err *err);
};
int sw_dnnl_weightless_new(const struct sw_plan_request *q, const struct sw_desc *dst,
                           const struct sw_dnnl_weightless *w, struct sw_plan **out,
                           struct sw_err *err) SW_MUST_CHECK;

union sw_dnnl_op_desc {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t inner_product;
};

/* The description of a convolution or inner product for sw_dnnl_weighted_new. */
struct sw_dnnl_weighted {
    const struct sw_plan_request *q;
    const char *name;                          /* for messages */
    dnnl_memory_desc_t src, weight, bias, dst; /* for the primitive; any format or fixed */
    bool has_bias, relu;
    bool flatten;                 /* the source is reordered to plain and then passed as `src` */
    dnnl_memory_desc_t src_plain; /* with flatten: the source's own dimensions, plain */
    int64_t groups;
    struct sw_desc weight_plain; /* logical dimensions, for layouts that sw_desc cannot express */
    dnnl_data_type_t
        operand_type; /* type of the operands of products: f32 or bf16; results are f32 */
    const struct sw_desc *weight_layout; /* given by the caller, or NULL */
    bool as_given;                       /* use no primitive that needs another weight layout */
    /* Writes the shape to the key of measured algorithms. */
    void (*append_key)(const struct sw_plan_request *q, struct sw_bytes *key);
    dnnl_alg_kind_t algorithm; /* algorithm that describe requests; convolutions only */
    const void *shape;         /* for describe */
    dnnl_status_t (*describe)(const struct sw_dnnl_weighted *w, dnnl_prop_kind_t kind,
                              const dnnl_memory_desc_t *weight, union sw_dnnl_op_desc *d);
};
/* Everything is borrowed during the call. Errors: SW_ERR_LIBRARY, SW_ERR_UNSUPPORTED, SW_ERR_NOMEM.
 */
int sw_dnnl_weighted_new(const struct sw_dnnl_weighted *w, struct sw_plan **out,
                         struct sw_err *err) SW_MUST_CHECK;

/* The makers in the tables of dnnl_plans.c; arguments and errors as in device/plan.h. Those of bf16
 * return SW_ERR_UNSUPPORTED if a shape is not implemented. */
sw_plan_maker sw_dnnl_conv_new, sw_dnnl_deconv_new, sw_dnnl_pool_new, sw_dnnl_lrn_new,
    sw_dnnl_ip_new, sw_dnnl_reorder_new, sw_dnnl_conv_bf16, sw_dnnl_ip_bf16;
