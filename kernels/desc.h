/* Layout descriptors: what a block of memory means. A descriptor is the only thing about memory
 * that travels between layers; shape functions speak logical indices, storage is the device's
 * choice. The form is a strided array of inner blocks, general enough for plain NCHW,
 * channels-last, oneDNN's nChw16c activations and its doubly blocked weights (OIhw16i16o): logical
 * index i of dimension d is split from the innermost block outwards; what remains is multiplied by
 * stride[d]. Plain values, no pointers: copy freely, compare with sw_desc_equal, any thread.
 *
 * Dimension letters, the same everywhere: N rows of a batch, C channels, H height, W width, M
 * output channels, K kernel size, T time steps, B global batch. Dimension 0 of a feature is the
 * batch. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SW_MAX_DIMS = 6, SW_MAX_BLOCKS = 4 };

enum sw_dtype { SW_F32, SW_I32, SW_U8 };

struct sw_desc {
    enum sw_dtype dtype;
    int ndim;
    int64_t dim[SW_MAX_DIMS];    /* logical */
    int64_t padded[SW_MAX_DIMS]; /* rounded up to the product of the dimension's blocks */
    int64_t stride[SW_MAX_DIMS]; /* in elements, of one whole block step of the dimension */
    int nblock;                  /* inner blocks, outermost first */
    int block[SW_MAX_BLOCKS];
    int block_dim[SW_MAX_BLOCKS];
};

size_t sw_dtype_bytes(enum sw_dtype t);
const char *sw_dtype_name(enum sw_dtype t); /* f32 i32 u8 */

/* Row-major without padding. */
struct sw_desc sw_desc_plain(enum sw_dtype t, int ndim, const int64_t *dim);
/* As plain, but dimension `dim` is stored in blocks of `block` innermost: nChw16c is (4, dims, 1,
 * 16). */
struct sw_desc sw_desc_blocked(enum sw_dtype t, int ndim, const int64_t *dim, int blocked_dim,
                               int block);

int64_t sw_desc_count(const struct sw_desc *d);   /* logical elements */
int64_t sw_desc_storage(const struct sw_desc *d); /* elements with padding */
size_t sw_desc_bytes(const struct sw_desc *d);    /* storage bytes */
bool sw_desc_is_plain(const struct sw_desc *d);
bool sw_desc_equal(const struct sw_desc *a, const struct sw_desc *b);
/* Same dtype and logical dimensions, any storage. */
bool sw_desc_same_shape(const struct sw_desc *a, const struct sw_desc *b);
/* Product of the logical dimensions after the batch. */
int64_t sw_desc_features(const struct sw_desc *d);

/* 16, 8 or 4 where channels are blocked by that and nothing else is blocked; else 0. */
int sw_desc_channel_block(const struct sw_desc *d);
/* Whether storage order is (rows, pixels, channels): [N, F], one pixel, or NHWC. */
bool sw_desc_is_channels_last(const struct sw_desc *d);
/* Product of the logical dimensions after the channels. */
int64_t sw_desc_pixels(const struct sw_desc *d);

/* The same storage with dimensions a and b in each other's place. */
struct sw_desc sw_desc_transposed(const struct sw_desc *d, int a, int b);

/* Element offset of a logical index. */
int64_t sw_desc_offset(const struct sw_desc *d, const int64_t *index);

/* "128x96x55x55 f32 blocked(1:16)"; out holds at least 128 bytes. Returns out. */
const char *sw_desc_text(const struct sw_desc *d, char *out);

/* Copies between storage and plain logical order on the host, whatever the layout: for initial
 * values, checkpoints and tests. from_plain also zeroes padding. Element size by dtype. */
void sw_desc_to_plain(const struct sw_desc *d, const void *stored, void *plain);
void sw_desc_from_plain(const struct sw_desc *d, const void *plain, void *stored);

#ifdef __cplusplus
}
#endif
