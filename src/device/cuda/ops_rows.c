/* Losses, metrics and lists of tokens: operations that look at rows that count. */
#include "device/cuda/libraries.h"
#include "device/cuda/ops.h"
#include "device/ops/classes.h"
#include "device/ops/embedding.h"
#include "device/ops/row_loss.h"
#include "device/ops/softmax_loss.h"

/* ---- Losses ---- */

static int count_labels(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_label_count_args *a = args;
    return sw_cuda_count_labels(a->labels.label, a->rows, a->labels.per_sample,
                                sw_labels_ignored(&a->labels), a->step, a->count, l);
}

static int softmax_loss(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_loss_args *a = args;
    const struct sw_cuda_loss k = {.who = "softmax_loss",
                                   .rows = a->rows,
                                   .columns = a->classes,
                                   .per_sample = a->labels.per_sample,
                                   .weight = a->weight,
                                   .x = a->x,
                                   .label = a->labels.label,
                                   .ignore = sw_labels_ignored(&a->labels),
                                   .step = a->step,
                                   .y = a->prob,
                                   .result = a->result};
    return sw_cuda_softmax_loss(&k, l);
}

static int softmax_loss_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_gradient_args *a = args;
    const struct sw_cuda_loss_gradient k = {.rows = a->rows,
                                            .columns = a->classes,
                                            .batch_rows = a->batch_rows,
                                            .per_sample = a->labels.per_sample,
                                            .weight = a->weight,
                                            .y = a->prob,
                                            .label = a->labels.label,
                                            .ignore = sw_labels_ignored(&a->labels),
                                            .step = a->step,
                                            .counted = a->counted,
                                            .dx = a->dx};
    return sw_cuda_softmax_loss_backward(&k, l);
}

static enum sw_kernel_loss kind_of(enum sw_loss kind)
{
    static const enum sw_kernel_loss kernel_of[] = {
        [SW_LOSS_EUCLIDEAN] = SW_KERNEL_EUCLIDEAN, [SW_LOSS_SIGMOID] = SW_KERNEL_SIGMOID,
        [SW_LOSS_SOFTMAX] = SW_KERNEL_SOFTMAX,     [SW_LOSS_POISSON] = SW_KERNEL_POISSON,
        [SW_LOSS_HINGE] = SW_KERNEL_HINGE,         [SW_LOSS_RANKING] = SW_KERNEL_RANKING,
    };
    return kernel_of[kind];
}

static int row_loss(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_loss_args *a = args;
    const struct sw_cuda_loss k = {.kind = kind_of(a->kind),
                                   .who = a->who,
                                   .rows = a->rows,
                                   .columns = a->columns,
                                   .weight = a->weight,
                                   .margin = a->margin,
                                   .squared = a->squared,
                                   .x = a->x,
                                   .target = a->target,
                                   .label = a->target ? NULL : a->labels.label,
                                   .ignore = sw_labels_ignored(&a->labels),
                                   .step = a->step,
                                   .y = a->y,
                                   .result = a->result};
    return sw_cuda_row_loss(&k, l);
}

static int row_loss_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_gradient_args *a = args;
    const struct sw_cuda_loss_gradient k = {.kind = kind_of(a->kind),
                                            .rows = a->rows,
                                            .columns = a->columns,
                                            .weight = a->weight,
                                            .y = a->y,
                                            .target = a->target,
                                            .step = a->step,
                                            .dx = a->dx};
    return sw_cuda_row_loss_backward(&k, l);
}

static int triplets(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_triplet_loss_args *a = args;
    const struct sw_cuda_triplets k = {.rows = a->rows,
                                       .columns = a->columns,
                                       .weight = a->weight,
                                       .margin = a->margin,
                                       .squared = a->squared,
                                       .anchor = a->anchor,
                                       .match = a->match,
                                       .other = a->other,
                                       .step = a->step,
                                       .slope = a->slope,
                                       .result = a->result};
    return sw_cuda_triplets(&k, l);
}

static int triplets_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_triplet_gradient_args *a = args;
    const struct sw_cuda_triplets k = {.rows = a->rows,
                                       .columns = a->columns,
                                       .weight = a->weight,
                                       .step = a->step,
                                       .slope = (float *)a->slope,
                                       .plus = a->plus,
                                       .minus = a->minus,
                                       .dx = a->dx};
    return sw_cuda_triplets_backward(&k, l);
}

/* ---- Metrics ---- */

static int top_k(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_top_k_args *a = args;
    const struct sw_cuda_classes k = {.who = "accuracy",
                                      .rows = a->rows,
                                      .classes = a->classes,
                                      .top_k = a->top_k,
                                      .per_sample = a->labels.per_sample,
                                      .x = a->x,
                                      .target = a->target,
                                      .label = a->labels.label,
                                      .ignore = sw_labels_ignored(&a->labels),
                                      .step = a->step,
                                      .result = a->result};
    return sw_cuda_top_k(&k, l);
}

static int count_classes(struct sw_stream *stream, const void *args, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    const struct sw_class_count_args *a = args;
    if (a->rows * (int64_t)sizeof(struct sw_cuda_place) > SW_CUDA_ROOM_BYTES)
        return sw_cuda_bridge(stream, &sw_op_class_count, args, err);
    int rc = sw_cuda_need_room(s, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_cuda_classes k = {.who = "precision_recall",
                                      .rows = a->rows,
                                      .classes = a->classes,
                                      .top_k = a->top_k,
                                      .per_sample = a->labels.per_sample,
                                      .threshold = a->threshold,
                                      .x = a->x,
                                      .target = a->target,
                                      .label = a->labels.label,
                                      .ignore = sw_labels_ignored(&a->labels),
                                      .step = a->step,
                                      .result = a->count,
                                      .last = s->room};
    struct sw_cuda_launch l = sw_cuda_launch_of(stream);
    return sw_cuda_check(s->device, sw_cuda_count_classes(&k, &l), "class_count", err);
}

/* ---- Tokens ---- */

static struct sw_cuda_lists lists_of(const struct sw_token_lists *l, int64_t width,
                                     const int32_t *token, const struct sw_step *step)
{
    return (struct sw_cuda_lists){.rows = l->rows,
                                  .per_row = l->per_row,
                                  .length = l->length,
                                  .vocabulary = l->vocabulary,
                                  .width = width,
                                  .skip = l->skip,
                                  .token = token,
                                  .step = step};
}

static int embedding(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_embedding_args *a = args;
    struct sw_cuda_lists k = lists_of(&a->lists, a->width, a->token, a->step);
    k.weight = a->weight;
    k.y = a->y;
    return sw_cuda_embedding(&k, l);
}

static int embedding_backward(struct sw_stream *stream, const void *args, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    const struct sw_embedding_gradient_args *a = args;
    struct sw_cuda_lists k = lists_of(&a->lists, a->width, a->token, a->step);
    int64_t tokens = k.rows * k.per_row * k.length;
    if (2 * tokens * (int64_t)sizeof *k.next > SW_CUDA_ROOM_BYTES)
        return sw_cuda_bridge(stream, &sw_op_embedding_gradient, args, err);
    int rc = sw_cuda_need_room(s, err);
    if (rc != SW_OK)
        return rc;
    k.dy = a->dy;
    k.y = a->dweight;
    k.next = s->room;
    k.first = k.next + tokens;
    struct sw_cuda_launch l = sw_cuda_launch_of(stream);
    return sw_cuda_check(s->device, sw_cuda_embedding_backward(&k, &l), "embedding gradient", err);
}

static int onehot(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_onehot_args *a = args;
    struct sw_cuda_lists k = lists_of(&a->lists, a->lists.vocabulary, a->token, a->step);
    k.y = a->y;
    return sw_cuda_onehot(&k, l);
}

const struct sw_cuda_op sw_cuda_row_ops[] = {
    {.op = &sw_op_label_count, .launch = count_labels},
    {.op = &sw_op_softmax_loss_forward, .launch = softmax_loss},
    {.op = &sw_op_softmax_loss_gradient, .launch = softmax_loss_backward},
    {.op = &sw_op_row_loss_forward, .launch = row_loss},
    {.op = &sw_op_row_loss_gradient, .launch = row_loss_backward},
    {.op = &sw_op_triplet_loss_forward, .launch = triplets},
    {.op = &sw_op_triplet_loss_gradient, .launch = triplets_backward},
    {.op = &sw_op_top_k, .launch = top_k},
    {.op = &sw_op_class_count, .run = count_classes},
    {.op = &sw_op_embedding_forward, .launch = embedding},
    {.op = &sw_op_embedding_gradient, .run = embedding_backward},
    {.op = &sw_op_onehot_forward, .launch = onehot},
    {0},
};
