/* Dropout: sets values at random to zero and scales the others. Noise: sets values to one of two
 * values, or adds normal samples. */
#pragma once

#include "base/philox.h"
#include "kernels/desc.h"
#include "kernels/op.h"

/* Dropout or noise of an activation or of a shard of its columns. */
struct sw_dropout {
    struct sw_philox key;
    uint32_t threshold; /* words below it are dropped */
    float scale;        /* factor of the values that are kept */
    uint32_t low_below; /* dropped values become low if their word is below this, else high */
    float low, high;    /* both 0 for dropout */
    float
        std; /* above 0: nothing is dropped; a normal sample of this standard deviation is added */
    int64_t first_channel, channels; /* first channel of the shard, and number of all channels;
                                        channels 0: not sharded */
};

/* Sets y = x * scale where the element's Philox word is >= threshold, else 0 (or low, or high). The
 * counter is (step, global row, element in channels-last order), so the mask depends on neither
 * layout nor workers. Calling it on the gradient is the backward pass. Padding stays zero. */
struct sw_dropout_args {
    struct sw_desc desc;
    struct sw_dropout dropout;
    const struct sw_step *step;
    const void *x; /* of the type of desc */
    void *y;       /* may be x */
};
extern const struct sw_op sw_op_dropout;
