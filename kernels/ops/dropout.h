/* Dropout: zeroes values at random and scales what is kept. Noise: sets them to one of two values,
 * or adds normal numbers. */
#pragma once

#include "base/philox.h"
#include "kernels/desc.h"
#include "kernels/op.h"

/* Dropout or noise of an output or of a part of its columns. */
struct sw_dropout {
    struct sw_philox key;
    uint32_t threshold; /* words below it are dropped */
    float scale;        /* of what is kept */
    uint32_t low_below; /* dropped values become low if the word is below this, else high */
    float low, high;    /* both 0 for dropout */
    float std; /* above 0: nothing is dropped; a normal number of this deviation is added */
    int64_t first_channel,
        channels; /* position of the part in the whole; channels 0: it is the whole */
};

/* y = x * scale where the element's Philox word is >= threshold, else 0 (or low, or high). The
 * counter is (step, global row, element in channels-last order), so the mask depends on neither
 * layout nor workers. The same call on the gradient is the backward pass. Padding stays zero. */
struct sw_dropout_args {
    struct sw_desc desc;
    struct sw_dropout dropout;
    const struct sw_step *step;
    const float *x;
    float *y; /* may be x */
};
extern const struct sw_op sw_op_dropout;
