/* Caffe's Datum, the protobuf message in its LMDBs, parsed without a protobuf library (field
 * numbers: caffe.proto of BVLC/caffe; encoding: protobuf.dev, "Encoding"): channels = 1, height =
 * 2, width = 3, data = 4, label = 5, float_data = 6, encoded = 7. Unknown fields are skipped, as
 * protobuf requires; every size in the message is checked against the size of the message. Pure
 * functions, any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_datum_kind {
    SW_DATUM_U8,      /* data is u8 [C, H, W] */
    SW_DATUM_F32,     /* floats [C, H, W], for sw_datum_floats */
    SW_DATUM_ENCODED, /* data is an encoded image; channels, height and width are those stated in
                         the message, or 0 */
};

struct sw_datum {
    enum sw_datum_kind kind;
    int64_t channels, height, width;
    const unsigned char *data; /* inside the message */
    size_t bytes;
    size_t floats; /* number of floats */
    bool has_label;
    int32_t label;
};

/* Parses a Datum message; d borrows the bytes. Errors: SW_ERR_FORMAT, naming the offset at which
 * the message is invalid. */
int sw_datum_parse(const void *message, size_t bytes, struct sw_datum *d,
                   struct sw_err *err) SW_MUST_CHECK;
/* Copies at most count of the d->floats floats of a parsed message. */
void sw_datum_floats(const void *message, size_t bytes, size_t count, float *out);
