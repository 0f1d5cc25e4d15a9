/* Loss scaling: gradients that fp16 can hold (Micikevicius et al., "Mixed precision training",
 * 2018, section 3.2).
 *
 * Numbers below 6e-8 are 0 in fp16, and many gradients are smaller. So the gradient of the loss is
 * multiplied by the scale (sw_step.backward_scale), which multiplies all gradients of the step. The
 * update undoes this, after the sum over workers and before anything else reads the gradients:
 * limits of clipping by value are multiplied by the scale, norms and gradients are divided by it
 * (exchange/table/update_control.c). The scale is a power of 2, which changes only exponents, so
 * that it changes no bit of a result unless something underflows or overflows.
 *
 * Values that are too large become infinite, and then the gradient of some parameter is not finite.
 * Then the whole update group (all workers of a synchronous job, or those of one group) skips the
 * update and halves the scale. After `every` updates without overflow the scale doubles, up to
 * SW_LOSS_SCALE_MOST. Every asynchronous group has its own scale. The scale is a function of the
 * gradients and is saved in checkpoints with the count of good updates, so that a resumed run
 * computes the same bits.
 *
 * At scale 1 an overflow is not caused by the scale: job.on_nan decides what happens then, and when
 * a loss is not finite. bf16 and tf32 have the range of fp32 and need no loss scale. Plain data;
 * the owner synchronizes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SW_LOSS_SCALE_MOST 16777216.0 /* 2^24 */

struct sw_loss_scale {
    double value; /* scale of the next update: a power of 2, at least 1; 0: no scaling */
    int64_t good; /* updates since the scale last changed */
};

/* Returns the factor of the gradients of the next update: 1 without scaling. */
static inline double sw_loss_scale_factor(const struct sw_loss_scale *s)
{
    return s->value > 0 ? s->value : 1;
}

/* Can a smaller scale avoid gradients that are not finite? */
static inline bool sw_loss_scale_can_halve(const struct sw_loss_scale *s)
{
    return s->value > 1;
}

static inline void sw_loss_scale_halve(struct sw_loss_scale *s)
{
    s->value /= 2;
    s->good = 0;
}

/* Counts an update; doubles the scale after `every` good ones. every 0: the scale never grows. */
static inline void sw_loss_scale_made(struct sw_loss_scale *s, int64_t every)
{
    if (s->value == 0 || ++s->good < every || every == 0)
        return;

    s->good = 0;
    if (s->value < SW_LOSS_SCALE_MOST)
        s->value *= 2;
}
