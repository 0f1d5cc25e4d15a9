/* The light operations: each is queued by value and run later through the cpu's table. The order of
 * pointers is that of the names beside the type. */
#include "device/sim/sim_private.h"

/* Queued by an operation's function and run by run_NAME. */
#define POINTERS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OP_TYPE(id, ...)                                                                           \
    static const struct sw_sim_op_type id##_type = {                                               \
        .name = #id, .pointers = POINTERS(__VA_ARGS__), .counted = true, .run = run_##id}

static size_t matrix_bytes(int64_t rows, int64_t columns)
{
    return rows > 0 && columns > 0 ? sw_sim_floats(rows * columns) : 0;
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

/* ---- Losses and metrics ---- */

static int run_softmax_loss(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    const struct sw_sim_loss *l = &op->u.loss;
    return sw_op_softmax_loss(s->cpu, l->rows, l->classes, op->p[0], op->p[1], op->p[2], l->weight,
                              op->p[3], op->p[4], err);
}
OP_TYPE(softmax_loss, "x", "label", "step", "prob", "result");

int sw_sim_softmax_loss(struct sw_stream *s, int64_t rows, int64_t classes, const float *x,
                        const int32_t *label, const struct sw_step *step, float weight, float *prob,
                        struct sw_result *result, struct sw_err *err)
{
    size_t bytes = matrix_bytes(rows, classes);
    const struct sw_sim_op op = {
        .type = &softmax_loss_type,
        .p = {(void *)x, (void *)label, (void *)step, prob, result},
        .bytes = {bytes, matrix_bytes(rows, 1), sizeof *step, bytes, sizeof *result},
        .u.loss = {.rows = rows, .classes = classes, .weight = weight}};
    return sw_sim_push(s, &op, err);
}

static int run_softmax_loss_backward(struct sw_sim_stream *s, struct sw_sim_op *op,
                                     struct sw_err *err)
{
    const struct sw_sim_loss *l = &op->u.loss;
    return sw_op_softmax_loss_backward(s->cpu, l->rows, l->classes, op->p[0], op->p[1], op->p[2],
                                       l->weight, op->p[3], err);
}
OP_TYPE(softmax_loss_backward, "prob", "label", "step", "dx");

int sw_sim_softmax_loss_backward(struct sw_stream *s, int64_t rows, int64_t classes,
                                 const float *prob, const int32_t *label,
                                 const struct sw_step *step, float weight, float *dx,
                                 struct sw_err *err)
{
    size_t bytes = matrix_bytes(rows, classes);
    const struct sw_sim_op op = {.type = &softmax_loss_backward_type,
                                 .p = {(void *)prob, (void *)label, (void *)step, dx},
                                 .bytes = {bytes, matrix_bytes(rows, 1), sizeof *step, bytes},
                                 .u.loss = {.rows = rows, .classes = classes, .weight = weight}};
    return sw_sim_push(s, &op, err);
}

static int run_accuracy(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    const struct sw_sim_loss *l = &op->u.loss;
    return sw_op_accuracy(s->cpu, l->rows, l->classes, l->top_k, op->p[0], op->p[1], op->p[2],
                          op->p[3], err);
}
OP_TYPE(accuracy, "x", "label", "step", "result");

int sw_sim_accuracy(struct sw_stream *s, int64_t rows, int64_t classes, int64_t top_k,
                    const float *x, const int32_t *label, const struct sw_step *step,
                    struct sw_result *result, struct sw_err *err)
{
    const struct sw_sim_op op = {
        .type = &accuracy_type,
        .p = {(void *)x, (void *)label, (void *)step, result},
        .bytes = {matrix_bytes(rows, classes), matrix_bytes(rows, 1), sizeof *step, sizeof *result},
        .u.loss = {.rows = rows, .classes = classes, .top_k = top_k}};
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
