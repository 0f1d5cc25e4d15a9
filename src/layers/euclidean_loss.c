/* euclidean_loss: half the squared distance of two sources, 1/2 ||a - b||^2 per row, averaged over
 * rows, like Caffe's EuclideanLoss and SINGA's EuclideanLossLayer. Sources: a and b, rows of the
 * same number of values; b may be integers. Both get a gradient if they need one, so the loss can
 * also pull two activations towards each other: the inter-modal loss of the thesis, Eq 5.6, which
 * like Eq 5.2 has no factor 1/2 (weight = 2). The output is a - b. */
#include "layers/share/target_loss.h"

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 10}, 0}}, .dst = {4, 10}},
    {.recipe = "weight = 0.3\n",
     .src = {{4, {3, 20, 2, 3}, 0}, {4, {3, 20, 2, 3}, 0}},
     .dst = {3, 20, 2, 3}},
    {.recipe = "", .src = {{2, {3, 18}, 0}, {4, {3, 2, 3, 3}, 0}}, .dst = {3, 18}},
    {.recipe = "", .src = {{2, {5, 1}, 0}, {1, {5}, 9}}, .dst = {5, 1}},
    {0},
};

const struct sw_layer_type sw_layer_euclidean_loss = {
    .base = SW_TYPE("euclidean_loss", "half the squared distance of two sources",
                    struct sw_target_loss_conf, sw_target_loss_opts),
    .split_reason = "a row's loss needs all its values",
    SW_TARGET_LOSS_TYPE(SW_LOSS_EUCLIDEAN),
    .examples = examples,
};
