/* poisson_loss: the rate-adapting Poisson model (Salakhutdinov and Hinton 2009), with which the
 * thesis reconstructs texts (5.4.1, Eq 5.3 to 5.5). Sources: scores z, and the counts n of words or
 * tags in a text, integers or fractions of 0 or more. With l = sum n, the length of the text,
 *
 *   y = l softmax(z),   L = -log prod Pois(n_i, y_i) = sum y - n log y + log n!
 *
 * averaged over rows; n! is Gamma(n + 1). The output is the reconstruction y; the gradient is y -
 * n. A text without words has no loss. */
#include "layers/share/target_loss.h"

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {2, {4, 10}, 4}}, .dst = {4, 10}},
    {.recipe = "weight = 0.1\n",
     .src = {{2, {3, 7}, 0}, {2, {3, 7}, 0}},
     .dst = {3, 7},
     .range = {[1] = {0, 2.5}}},
    {.recipe = "", .src = {{4, {2, 17, 1, 2}, 0}, {2, {2, 34}, 3}}, .dst = {2, 17, 1, 2}},
    {0},
};

const struct sw_layer_type sw_layer_poisson_loss = {
    .base = SW_TYPE("poisson_loss", "rate-adapting Poisson reconstruction of counts",
                    struct sw_target_loss_conf, sw_target_loss_opts),
    .split_reason = "a row's loss needs all its scores",
    .targets = 1u << 1,
    SW_TARGET_LOSS_TYPE(SW_LOSS_POISSON),
    .examples = examples,
};
