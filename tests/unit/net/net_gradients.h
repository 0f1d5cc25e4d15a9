/* Gradients of a net's parameters against differences of its loss. */
#pragma once

#include "net_support.h"

static inline double loss_at(struct world *w, int p, const float *plain)
{
    sw_desc_from_plain(&world_layer_param(w, p)->layout, plain, w->value[p]);
    world_forward(w);
    return world_loss(w);
}

/* The derivative of the loss along a direction of one parameter, by central differences of two
 * steps (Richardson). */
static inline double derivative(struct world *w, int p, const float *origin, const float *direction,
                                int64_t n)
{
    double slope[2];
    float *moved = get_floats(n);
    for (int s = 0; s < 2; s++) {
        float h = s ? 0x1p-8f : 0x1p-7f;
        double loss[2];
        for (int side = 0; side < 2; side++) {
            for (int64_t i = 0; i < n; i++)
                moved[i] = origin[i] + (side ? h : -h) * direction[i];
            loss[side] = loss_at(w, p, moved);
        }
        slope[s] = (loss[1] - loss[0]) / (2 * (double)h);
    }
    (void)loss_at(w, p, origin);
    free(moved);
    return (4 * slope[1] - slope[0]) / 3;
}

static inline void check_param(struct world *w, int p, const float *gradient)
{
    struct rng r = rng_of((uint64_t)p);
    int64_t n = sw_desc_count(&world_layer_param(w, p)->layout);
    float *origin = get_floats(n), *direction = get_floats(n);
    double length = 0;
    sw_desc_to_plain(&world_layer_param(w, p)->layout, w->value[p], origin);
    for (int64_t i = 0; i < n; i++)
        length += (double)gradient[i] * (double)gradient[i];
    length = sqrt(length);
    assert_true(length > 1e-3);
    for (int d = 0; d < 12; d++) {
        /* All elements along random signs, then single ones. */
        int64_t only = d < 4 ? -1 : rng_int(&r, 0, n - 1);
        double have = 0;
        for (int64_t i = 0; i < n; i++) {
            direction[i] = only < 0 ? (rng_word(&r) & 1 ? 1 : -1) : i == only;
            have += (double)direction[i] * (double)gradient[i];
        }
        double want = derivative(w, p, origin, direction, n);
        if (!(fabs(have - want) <= 1e-3 * length + 2e-5)) /* the loss is rounded */
            fail_msg("the gradient of %s is %.7g, should be %.7g (length %.3g)",
                     sw_net_param(w->net, p)->name, have, want, length);
    }
    free(origin);
    free(direction);
}

/* The gradients of all parameters; one that layers share counts once. */
static inline void check_world_gradients(struct world *w)
{
    world_forward(w);
    world_backward(w);
    for (int p = 0; p < sw_net_param_count(w->net); p++) {
        if (sw_net_param(w->net, p)->root >= 0)
            continue;
        float *gradient = plain_gradient(w, p);
        check_param(w, p, gradient);
        free(gradient);
    }
}
