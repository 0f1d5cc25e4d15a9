/* Common parts of the oneDNN files: conversion of layouts, and `ops`: a primitive with its
 * reorders. An op has one port per argument, which says which pointer of struct sw_plan_args it is,
 * the layout of the caller (outer), and the layout of the primitive (inner). If these differ, the
 * op owns a reorder primitive and a part of the plan's scratch. Running an op allocates no memory
 * itself. Versions 2 and 3 of oneDNN describe layouts and passes differently: dnnl_v2.c or
 * dnnl_v3.c, of which CMake takes one, implements the part of this header that is marked so. */
#pragma once

#include "base/str.h"
#include "device/cpu/cpu.h"

#include <dnnl.h>

/* oneDNN's descriptor of a layout. */
#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t sw_dnnl_md;
#else
typedef struct dnnl_memory_desc sw_dnnl_md;
#endif

/* A layout of an argument. All zero: there is no such argument. */
struct sw_dnnl_layout {
    struct sw_desc desc;
    bool any;                 /* oneDNN may choose another storage than that of desc */
    const sw_dnnl_md *chosen; /* borrowed from a primitive descriptor, instead of desc; or NULL */
};

static inline bool sw_dnnl_is_empty(const struct sw_dnnl_layout *l)
{
    return !l->chosen && l->desc.ndim == 0;
}

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

dnnl_data_type_t sw_dnnl_type(enum sw_dtype t);
enum sw_dtype sw_dnnl_type_of(dnnl_data_type_t t);
/* A layout that oneDNN has to use, and one of f32 that it may choose. */
struct sw_dnnl_layout sw_dnnl_fixed(const struct sw_desc *d);
struct sw_dnnl_layout sw_dnnl_any(int ndim, const int64_t *dim);
/* Grouped weights: oneDNN has the shape [g, M/g, C/g, Kh, Kw], we have [M, C/g, Kh, Kw]. False if
 * the layout pads inside a group, which ours cannot express. */
bool sw_dnnl_weights_from_desc(const struct sw_desc *d, int64_t groups, struct sw_dnnl_layout *out);
bool sw_dnnl_weights_to_desc(const sw_dnnl_md *md, int64_t groups, struct sw_desc *d);

/* By version. Creates oneDNN's descriptor of a layout, which the caller frees; NULL for an empty
 * one. */
dnnl_status_t sw_dnnl_md_new(const struct sw_dnnl_layout *layout, sw_dnnl_md **out);
void sw_dnnl_md_free(sw_dnnl_md *md); /* NULL is accepted */
/* By version. Converts a descriptor of oneDNN to ours; false if its format is not blocked in a way
 * that sw_desc can express (Winograd weights). */
bool sw_dnnl_to_desc(const sw_dnnl_md *md, struct sw_desc *d);
/* By version. Appends a relu. */
dnnl_status_t sw_dnnl_append_relu(dnnl_post_ops_t post);

enum sw_dnnl_operation {
    SW_DNNL_CONVOLUTION,
    SW_DNNL_INNER_PRODUCT,
    SW_DNNL_POOLING,
    SW_DNNL_LRN,
    SW_DNNL_OPERATIONS
};

/* One pass of an operation. A backward pass has the layouts of gradients in place of what they are
 * gradients of. */
struct sw_dnnl_pass {
    enum sw_dnnl_operation operation;
    dnnl_prop_kind_t kind;
    dnnl_alg_kind_t algorithm; /* not for inner products */
    struct sw_dnnl_layout src, weight, bias, dst;
    dnnl_dims_t kernel; /* pooling */
    dnnl_dims_t stride, dilation, pad_before, pad_after;
    const struct sw_lrn_shape *lrn;
    dnnl_engine_t engine;
    const_dnnl_primitive_attr_t attr;
    const_dnnl_primitive_desc_t forward; /* of a backward pass; all three borrowed */
};
struct sw_dnnl_mds {
    sw_dnnl_md *src, *weight, *bias, *dst; /* owned */
};
/* Keeps pd and returns true, or leaves it to be destroyed. */
typedef bool sw_dnnl_use(void *user, dnnl_primitive_desc_t pd);
/* Calls use(user, pd) for the implementations of a pass, the one first that oneDNN expects to be
 * the fastest, until one is kept. Returns success if one was. */
dnnl_status_t sw_dnnl_each(const struct sw_dnnl_pass *pass, sw_dnnl_use *use, void *user);
/* By version. The same with the descriptors of the pass. */
dnnl_status_t sw_dnnl_each_of(const struct sw_dnnl_pass *pass, const struct sw_dnnl_mds *md,
                              sw_dnnl_use *use, void *user);
/* The first implementation, which the caller destroys. */
dnnl_status_t sw_dnnl_first(const struct sw_dnnl_pass *pass, dnnl_primitive_desc_t *out);
dnnl_status_t sw_dnnl_reorder(const struct sw_dnnl_pass *pass, dnnl_primitive_desc_t *out);

/* Creates attributes: a scratchpad provided by the caller, and optionally a relu on the output. The
 * caller destroys them. */
int sw_dnnl_attr(bool relu, dnnl_primitive_attr_t *attr, struct sw_err *err) SW_MUST_CHECK;

/* The description of a port. inner is the layout of the primitive; outer that of the caller, empty
 * if it is the same; view another shape of the bytes of inner for the primitive, or empty. */
struct sw_dnnl_port_spec {
    int arg;
    enum sw_plan_array slot;
    bool output;
    struct sw_dnnl_layout inner, outer, view;
};
/* Creates the primitive of pd with its ports; a spec with an empty inner is skipped (no bias,
 * no workspace). Errors: SW_ERR_LIBRARY, SW_ERR_NOMEM. */
int sw_dnnl_op_init(struct sw_dnnl_op *op, struct sw_stream *s, const_dnnl_primitive_desc_t pd,
                    const struct sw_dnnl_port_spec *ports, int count,
                    struct sw_err *err) SW_MUST_CHECK;
#define SW_DNNL_PORT_COUNT(ports) ((int)(sizeof(ports) / sizeof *(ports)))
int sw_dnnl_op_run(struct sw_dnnl_op *op, const struct sw_plan_args *a,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_dnnl_op_fini(struct sw_dnnl_op *op); /* a zeroed one is accepted */

/* The layout that a primitive descriptor chose; valid as long as pd. */
struct sw_dnnl_layout sw_dnnl_chosen(const_dnnl_primitive_desc_t pd, dnnl_query_t what);
/* What forward saves for backward; empty if nothing. */
struct sw_dnnl_layout sw_dnnl_workspace(const_dnnl_primitive_desc_t pd, size_t *bytes);
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
    struct sw_dnnl_pass pass; /* src and dst as the caller has them */
    int from, to;             /* DNNL_ARG_* of both */
    bool backward_reads_src;
    /* Creates the descriptor of a pass. */
    dnnl_status_t (*describe)(const struct sw_dnnl_pass *pass, dnnl_primitive_desc_t *out);
    const char *name;  /* for messages */
    bool no_reference; /* oneDNN's reference code counts as not implemented */
};
int sw_dnnl_weightless_new(const struct sw_plan_request *q, const struct sw_desc *dst,
                           const struct sw_dnnl_weightless *w, struct sw_plan **out,
                           struct sw_err *err) SW_MUST_CHECK;

/* The description of a convolution or inner product for sw_dnnl_weighted_new. */
struct sw_dnnl_weighted {
    const struct sw_plan_request *q;
    const char *name;         /* for messages */
    struct sw_dnnl_pass pass; /* any or fixed layouts of f32; bias is empty if there is none */
    bool relu;
    bool flatten;             /* the source is reordered to plain and then passed as pass.src */
    struct sw_desc src_plain; /* with flatten: the source's own dimensions, plain */
    int64_t groups;
    struct sw_desc weight_plain; /* logical dimensions, for layouts that sw_desc cannot express */
    enum sw_dtype operand_type;  /* of the operands of products: f32 or bf16; results are f32 */
    const struct sw_desc *weight_layout; /* given by the caller, or NULL */
    bool as_given;                       /* use no primitive that needs another weight layout */
    /* Writes the shape to the key of measured algorithms. */
    void (*append_key)(const struct sw_plan_request *q, struct sw_bytes *key);
};
/* Everything is borrowed during the call. Errors: SW_ERR_LIBRARY, SW_ERR_UNSUPPORTED, SW_ERR_NOMEM.
 */
int sw_dnnl_weighted_new(const struct sw_dnnl_weighted *w, struct sw_plan **out,
                         struct sw_err *err) SW_MUST_CHECK;

/* The makers in the tables of dnnl_plans.c; arguments and errors as in device/plan.h. Those of bf16
 * return SW_ERR_UNSUPPORTED if a shape is not implemented. */
sw_plan_maker sw_dnnl_conv_new, sw_dnnl_deconv_new, sw_dnnl_pool_new, sw_dnnl_lrn_new,
    sw_dnnl_ip_new, sw_dnnl_reorder_new, sw_dnnl_conv_bf16, sw_dnnl_ip_bf16;
