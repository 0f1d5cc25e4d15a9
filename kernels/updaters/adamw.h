/* AdamW: Adam with decoupled weight decay, Loshchilov and Hutter, "Decoupled weight decay
 * regularization" (2019), algorithm 2:
 *
 *     w = w - (Adam's step for g without decay) - lr decay w
 *
 * lr is the scheduled rate, as in PyTorch. The paper multiplies its decay only by the schedule's
 * factor, so its decay is ours times the rate before the schedule. */
#pragma once

#include "kernels/updaters/adam.h"

SW_FORMULA struct sw_element sw_adamw_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_adam *k = (const struct sw_adam *)constants;
    c.w -= sw_adam_delta(k, &c, g) + k->lr * k->decay * c.w;
    return c;
}
