/* sigmoid_cross_entropy: a sigmoid of every value, followed by the cross-entropy with the targets,
 * summed over a row and averaged over rows, like Caffe's SigmoidCrossEntropyLoss:
 *
 *   L = -sum t log p + (1 - t) log(1 - p) = sum max(x, 0) - x t + log(1 + exp -|x|)
 *
 * where p is the sigmoid of x; the second form avoids overflow and cancellation. Sources: scores x,
 * and targets t of the same size in 0..1 (several labels of a row, pixels of a reconstruction),
 * floats or integers. The output is p; the gradient is p - t. */
#include "layers/share/target_loss.h"

static const struct sw_layer_example examples[] = {
    {.recipe = "",
     .src = {{2, {4, 10}, 0}, {2, {4, 10}, 0}},
     .dst = {4, 10},
     .range = {[1] = {0, 1}}},
    {.recipe = "weight = 2\n", .src = {{2, {3, 7}, 0}, {2, {3, 7}, 2}}, .dst = {3, 7}},
    {.recipe = "",
     .src = {{4, {2, 17, 3, 2}, 0}, {4, {2, 17, 3, 2}, 0}},
     .dst = {2, 17, 3, 2},
     .range = {[1] = {0, 1}}},
    {.recipe = "", .src = {{2, {6, 1}, 0}, {1, {6}, 2}}, .dst = {6, 1}},
    {0},
};

const struct sw_layer_type sw_layer_sigmoid_cross_entropy = {
    .base = SW_TYPE("sigmoid_cross_entropy", "sigmoid with the cross-entropy of targets in 0..1",
                    struct sw_target_loss_conf, sw_target_loss_opts),
    .split_reason = "a row's loss needs all its values",
    .targets = 1u << 1,
    .scores = SW_SCORES_SIGMOID,
    SW_TARGET_LOSS_TYPE(SW_LOSS_SIGMOID),
    .examples = examples,
};
