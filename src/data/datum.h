/* Caffe's Datum, the protobuf message in its LMDBs, read by hand (field numbers: caffe.proto of
 * BVLC/caffe; encoding: protobuf.dev, "Encoding"): channels = 1, height = 2, width = 3, data = 4,
 * label = 5, float_data = 6, encoded = 7. Unknown fields are skipped, as protobuf demands; nothing
 * of the message is believed before it was compared with its size. Pure functions, any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_datum_kind {
    SW_DATUM_U8,      /* data is u8 [C, H, W] */
    SW_DATUM_F32,     /* floats [C, H, W], for sw_datum_floats */
    SW_DATUM_ENCODED, /* data is a picture file; channels, height and width are what the message
                         says, or 0 */
};

struct sw_datum {
    enum sw_datum_kind kind;
    int64_t channels, height, width;
    const unsigned char *data; /* inside the message */
    size_t bytes;
    size_t floats; /* how many */
    bool has_label;
    int32_t label;
};

/* Errors: SW_ERR_FORMAT, with the byte where the message makes no sense. */
int sw_datum_parse(const void *message, size_t bytes, struct sw_datum *d,
                   struct sw_err *err) SW_MUST_CHECK;
/* Copies the floats of a message that was parsed, at most `count`: d->floats. */
void sw_datum_floats(const void *message, size_t bytes, size_t count, float *out);
