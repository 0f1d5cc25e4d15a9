/* From a raw picture [C, H, W] (u8 or f32) to a finished row of floats: cut out a square, turn it
 * left to right, (x - mean) / std * scale. Straight loops over contiguous memory; where nothing is
 * cut or turned, a channel is one loop. Plain value, any thread. */
#ifndef SW_DATA_TRANSFORM_H
#define SW_DATA_TRANSFORM_H

#include "base/philox.h"
#include "device/desc.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_MAX_CHANNELS = 64 };

struct sw_transform {
    enum sw_dtype dtype;             /* of the raw picture: SW_U8 or SW_F32 */
    int64_t channels, height, width; /* raw */
    int64_t out_height, out_width;   /* after crop */
    bool random_crop, random_mirror;
    float mean[SW_MAX_CHANNELS], gain[SW_MAX_CHANNELS]; /* out = (x - mean) * gain */
};

/* Where a picture is cut and whether it is turned. */
struct sw_crop_place {
    int64_t top, left;
    bool mirrored;
};

/* Pure function of (key, sample): uniform over all places. */
struct sw_crop_place sw_transform_place(const struct sw_transform *t, struct sw_philox key,
                                        int64_t sample);

/* raw [C, H, W] to out [C, out_height, out_width]; they do not overlap. */
void sw_transform_row(const struct sw_transform *t, struct sw_crop_place place, const void *raw,
                      float *out);

#endif
