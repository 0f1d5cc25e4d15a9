/* The light operations: each is queued by value and run later through the cpu's table. The order of
 * pointers is that of the names beside the type. */
#include "device/sim/sim_private.h"
#include <string.h>

/* Queued by an operation's function and run by run_NAME. */
#define POINTERS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OP_TYPE(id, ...)                                                                           \
    static const struct sw_sim_op_type id##_type = {                                               \
        .name = #id, .pointers = POINTERS(__VA_ARGS__), .counted = true, .run = run_##id}

/* ---- Those that are data: device/op.h ---- */

static int reach_args(struct sw_sim_stream *s, const struct sw_sim_op *op, bool on_thread,
                      void **where, struct sw_err *err)
{
    const struct sw_op_pointer *p = op->u.run.op->pointers;
    int rc = SW_OK;
    (void)on_thread;
    for (int i = 0; p[i].name && rc == SW_OK; i++)
        rc = sw_sim_reach(s->device, p[i].name, op->p[i], op->bytes[i], &where[i], err);
    return rc;
}

static int run_args(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_run *r = &op->u.run;
    for (int i = 0; r->op->pointers[i].name; i++)
        memcpy((char *)r->args + r->op->pointers[i].offset, &op->p[i], sizeof op->p[i]);
    return sw_op_run(s->cpu, r->op, r->args, err);
}

static const struct sw_sim_op_type run_type = {
    .counted = true, .reach = reach_args, .run = run_args}; /* named by its subject */

int sw_sim_run(struct sw_stream *s, const struct sw_op *what, const void *args, struct sw_err *err)
{
    struct sw_sim_op op = {.type = &run_type, .subject = what->name, .u.run.op = what};
    memcpy(op.u.run.args, args, what->args_bytes);
    for (int i = 0; what->pointers[i].name; i++)
        memcpy(&op.p[i], (const char *)args + what->pointers[i].offset, sizeof op.p[i]);
    what->spans(args, op.bytes);
    return sw_sim_push(s, &op, err);
}

/* ---- Element-wise ---- */

static int run_fill_zero(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_fill_zero(s->cpu, op->p[0], op->bytes[0], err);
}
OP_TYPE(fill_zero, "dst");

int sw_sim_fill_zero(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err)
{
    const struct sw_sim_op op = {.type = &fill_zero_type, .p = {dst}, .bytes = {bytes}};
    return sw_sim_push(s, &op, err);
}

static int run_add(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_add(s->cpu, op->p[0], op->p[1], op->u.n, err);
}
OP_TYPE(add, "y", "x");

int sw_sim_add(struct sw_stream *s, float *y, const float *x, int64_t n, struct sw_err *err)
{
    size_t bytes = sw_sim_floats(n);
    const struct sw_sim_op op = {
        .type = &add_type, .p = {y, (void *)x}, .bytes = {bytes, bytes}, .u.n = n};
    return sw_sim_push(s, &op, err);
}

static int run_activation(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    const struct sw_sim_activation *a = &op->u.activation;
    return sw_op_activation(s->cpu, a->function, a->alpha, op->p[0], op->p[1], a->n, err);
}
OP_TYPE(activation, "x", "y");

int sw_sim_activation(struct sw_stream *s, enum sw_activation f, float alpha, const float *x,
                      float *y, int64_t n, struct sw_err *err)
{
    size_t bytes = sw_sim_floats(n);
    const struct sw_sim_op op = {.type = &activation_type,
                                 .p = {(void *)x, y},
                                 .bytes = {bytes, bytes},
                                 .u.activation = {f, alpha, n}};
    return sw_sim_push(s, &op, err);
}

static int run_activation_backward(struct sw_sim_stream *s, struct sw_sim_op *op,
                                   struct sw_err *err)
{
    const struct sw_sim_activation *a = &op->u.activation;
    return sw_op_activation_backward(s->cpu, a->function, a->alpha, op->p[0], op->p[1], op->p[2],
                                     op->p[3], a->n, err);
}
OP_TYPE(activation_backward, "x", "y", "dy", "dx");

/* Only gelu reads x, only the others y: what is not read may be missing. */
int sw_sim_activation_backward(struct sw_stream *s, enum sw_activation f, float alpha,
                               const float *x, const float *y, const float *dy, float *dx,
                               int64_t n, struct sw_err *err)
{
    size_t bytes = sw_sim_floats(n);
    bool reads_x = f == SW_ACT_GELU;
    const struct sw_sim_op op = {
        .type = &activation_backward_type,
        .p = {(void *)x, (void *)y, (void *)dy, dx},
        .bytes = {x || reads_x ? bytes : 0, y || !reads_x ? bytes : 0, bytes, bytes},
        .u.activation = {f, alpha, n}};
    return sw_sim_push(s, &op, err);
}

static int run_dropout(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    const struct sw_sim_dropout *d = &op->u.dropout;
    return sw_op_dropout(s->cpu, &d->desc, &d->dropout, op->p[0], op->p[1], op->p[2], err);
}
OP_TYPE(dropout, "step", "x", "y");

int sw_sim_dropout(struct sw_stream *s, const struct sw_desc *d, const struct sw_dropout *dropout,
                   const struct sw_step *step, const float *x, float *y, struct sw_err *err)
{
    size_t bytes = sw_desc_bytes(d);
    const struct sw_sim_op op = {.type = &dropout_type,
                                 .p = {(void *)step, (void *)x, y},
                                 .bytes = {sizeof *step, bytes, bytes},
                                 .u.dropout = {*d, *dropout}};
    return sw_sim_push(s, &op, err);
}

static int run_zero_padding(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_zero_padding(s->cpu, &op->u.desc, op->p[0], err);
}
OP_TYPE(zero_padding, "x");

int sw_sim_zero_padding(struct sw_stream *s, const struct sw_desc *d, float *x, struct sw_err *err)
{
    const struct sw_sim_op op = {
        .type = &zero_padding_type, .p = {x}, .bytes = {sw_desc_bytes(d)}, .u.desc = *d};
    return sw_sim_push(s, &op, err);
}

/* ---- The one that answers ---- */

static int run_all_finite(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_all_finite(s->cpu, op->p[0], op->u.n, &s->finite, err);
}
OP_TYPE(all_finite, "x");

int sw_sim_all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                      struct sw_err *err)
{
    const struct sw_sim_op op = {
        .type = &all_finite_type, .p = {(void *)x}, .bytes = {sw_sim_floats(n)}, .u.n = n};
    int rc = sw_sim_push(s, &op, err);
    if (rc == SW_OK)
        rc = sw_stream_wait(s, err);
    if (rc == SW_OK)
        *finite = sw_sim_stream_of(s)->finite;
    return rc;
}
