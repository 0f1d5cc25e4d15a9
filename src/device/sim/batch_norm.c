/* Batch normalisation: the struct's arrays are pointers of the operation too, in front of x, y and
 * gradients. */
#include "device/sim/sim_private.h"

enum {
    SUMS,
    SCRATCH,
    SCALE,
    BIAS,
    MEAN,
    INV_STD,
    RUNNING_MEAN,
    RUNNING_VARIANCE,
    UPDATE_MEAN,
    UPDATE_VARIANCE,
    X,
    Y,
    DY,
    DX,
    DSCALE,
    DBIAS,
};

static const char *const pointers[] = {"sums",
                                       "scratch",
                                       "scale",
                                       "bias",
                                       "mean",
                                       "inv_std",
                                       "running_mean",
                                       "running_variance",
                                       "update_mean",
                                       "update_variance",
                                       "x",
                                       "y",
                                       "dy",
                                       "dx",
                                       "dscale",
                                       "dbias",
                                       NULL};

/* What is not given has no bytes: which arrays an operation needs is its own affair. */
static void put(struct sw_sim_op *op, int i, const void *p, size_t bytes)
{
    op->p[i] = (void *)p;
    op->bytes[i] = p ? bytes : 0;
}

static struct sw_sim_op op_of(const struct sw_sim_op_type *type, const struct sw_batch_norm *b)
{
    struct sw_sim_op op = {.type = type, .u.batch_norm = *b};
    size_t channels = sw_sim_floats(b->desc.dim[1]);
    put(&op, SUMS, b->sums, (2 * (size_t)b->desc.dim[1] + 1) * sizeof(double));
    put(&op, SCRATCH, b->scratch, sw_batch_norm_scratch(&b->desc));
    put(&op, SCALE, b->scale, channels);
    put(&op, BIAS, b->bias, channels);
    put(&op, MEAN, b->mean, channels);
    put(&op, INV_STD, b->inv_std, channels);
    put(&op, RUNNING_MEAN, b->running_mean, channels);
    put(&op, RUNNING_VARIANCE, b->running_variance, channels);
    put(&op, UPDATE_MEAN, b->update_mean, channels);
    put(&op, UPDATE_VARIANCE, b->update_variance, channels);
    return op;
}

static void put_feature(struct sw_sim_op *op, int i, const float *p)
{
    op->p[i] = (void *)p;
    op->bytes[i] = sw_desc_bytes(&op->u.batch_norm.desc);
}

/* On the thread: the struct with its arrays where they really are. */
static const struct sw_batch_norm *reached(struct sw_sim_op *op)
{
    struct sw_batch_norm *b = &op->u.batch_norm;
    b->sums = op->p[SUMS];
    b->scratch = op->p[SCRATCH];
    b->scale = op->p[SCALE];
    b->bias = op->p[BIAS];
    b->mean = op->p[MEAN];
    b->inv_std = op->p[INV_STD];
    b->running_mean = op->p[RUNNING_MEAN];
    b->running_variance = op->p[RUNNING_VARIANCE];
    b->update_mean = op->p[UPDATE_MEAN];
    b->update_variance = op->p[UPDATE_VARIANCE];
    return b;
}

#define OP_TYPE(id)                                                                                \
    static const struct sw_sim_op_type id##_type = {                                               \
        .name = #id, .pointers = pointers, .counted = true, .run = run_##id}

static int run_batch_norm_sums(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_batch_norm_sums(s->cpu, reached(op), op->p[X], err);
}
OP_TYPE(batch_norm_sums);

int sw_sim_batch_norm_sums(struct sw_stream *s, const struct sw_batch_norm *b, const float *x,
                           struct sw_err *err)
{
    struct sw_sim_op op = op_of(&batch_norm_sums_type, b);
    put_feature(&op, X, x);
    return sw_sim_push(s, &op, err);
}

static int run_batch_norm(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_batch_norm(s->cpu, reached(op), op->p[X], op->p[Y], err);
}
OP_TYPE(batch_norm);

int sw_sim_batch_norm(struct sw_stream *s, const struct sw_batch_norm *b, const float *x, float *y,
                      struct sw_err *err)
{
    struct sw_sim_op op = op_of(&batch_norm_type, b);
    put_feature(&op, X, x);
    put_feature(&op, Y, y);
    return sw_sim_push(s, &op, err);
}

static int run_batch_norm_running(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    return sw_op_batch_norm_running(s->cpu, reached(op), op->p[X], op->p[Y], err);
}
OP_TYPE(batch_norm_running);

int sw_sim_batch_norm_running(struct sw_stream *s, const struct sw_batch_norm *b, const float *x,
                              float *y, struct sw_err *err)
{
    struct sw_sim_op op = op_of(&batch_norm_running_type, b);
    put_feature(&op, X, x);
    put_feature(&op, Y, y);
    return sw_sim_push(s, &op, err);
}

static int run_batch_norm_sums_backward(struct sw_sim_stream *s, struct sw_sim_op *op,
                                        struct sw_err *err)
{
    return sw_op_batch_norm_sums_backward(s->cpu, reached(op), op->p[X], op->p[DY], op->p[DSCALE],
                                          op->p[DBIAS], err);
}
OP_TYPE(batch_norm_sums_backward);

int sw_sim_batch_norm_sums_backward(struct sw_stream *s, const struct sw_batch_norm *b,
                                    const float *x, const float *dy, float *dscale, float *dbias,
                                    struct sw_err *err)
{
    struct sw_sim_op op = op_of(&batch_norm_sums_backward_type, b);
    put_feature(&op, X, x);
    put_feature(&op, DY, dy);
    put(&op, DSCALE, dscale, sw_sim_floats(b->desc.dim[1]));
    put(&op, DBIAS, dbias, sw_sim_floats(b->desc.dim[1]));
    return sw_sim_push(s, &op, err);
}

static int run_batch_norm_backward(struct sw_sim_stream *s, struct sw_sim_op *op,
                                   struct sw_err *err)
{
    return sw_op_batch_norm_backward(s->cpu, reached(op), op->p[X], op->p[DY], op->p[DX], err);
}
OP_TYPE(batch_norm_backward);

int sw_sim_batch_norm_backward(struct sw_stream *s, const struct sw_batch_norm *b, const float *x,
                               const float *dy, float *dx, struct sw_err *err)
{
    struct sw_sim_op op = op_of(&batch_norm_backward_type, b);
    put_feature(&op, X, x);
    put_feature(&op, DY, dy);
    put_feature(&op, DX, dx);
    return sw_sim_push(s, &op, err);
}
