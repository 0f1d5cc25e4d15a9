/* Loss scaling: gradients that fp16 can hold (Micikevicius et al., "Mixed precision training",
 * 2018, section 3.2).
 *
 * Below 6e-8 a number is 0 in fp16, and many gradients are smaller. So the gradient of the loss
 * begins `scale` times as large (sw_step.backward_scale), and all gradients of the step are that
 * much larger. Who updates divides by it: limits of clipping by value are multiplied, norms and
 * gradients divided (exchange/table/decide.c), after the sum over workers and before anything else
 * looks at them. The scale is a power of 2, which changes exponents only, so that but for what
 * underflows and overflows it changes no bit of a result.
 *
 * What is too large becomes infinite, and then the gradient of some parameter is not finite.
 * Updates are decided upon in two phases: those who make an update together, all workers of a
 * synchronous job or those of one group, all drop it, and all go on with half the scale. After
 * `every` updates without that the scale doubles, up to SW_LOSS_SCALE_MOST. Every group that is
 * apart has a scale of its own, like everything that it decides. It is a function of the gradients,
 * and is saved in checkpoints with the count of good updates, so that a resume goes on to the same
 * bits.
 *
 * At scale 1 an overflow is not the scale's: what then happens is a matter of job.on_nan, and so is
 * a loss that is not finite. bf16 and tf32 have the range of fp32 and need none of this. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SW_LOSS_SCALE_MOST 16777216.0 /* 2^24 */

struct sw_loss_scale {
    double value; /* of the coming update: a power of 2 from 1 on; 0: there is no scaling */
    int64_t good; /* updates made since it last changed */
};

/* What gradients of the coming update are multiplied by: 1 without scaling. */
static inline double sw_loss_scale_factor(const struct sw_loss_scale *s)
{
    return s->value > 0 ? s->value : 1;
}

/* Can a smaller scale help against gradients that are not finite? */
static inline bool sw_loss_scale_can_halve(const struct sw_loss_scale *s)
{
    return s->value > 1;
}

static inline void sw_loss_scale_halve(struct sw_loss_scale *s)
{
    s->value /= 2;
    s->good = 0;
}

/* An update was made. every 0: the scale never grows. */
static inline void sw_loss_scale_made(struct sw_loss_scale *s, int64_t every)
{
    if (s->value == 0 || ++s->good < every || every == 0)
        return;
    s->good = 0;
    if (s->value < SW_LOSS_SCALE_MOST)
        s->value *= 2;
}
