/* Layout descriptors: shape, type and storage layout of an array. Layers exchange only descriptors;
 * shape functions use logical indices, and the device chooses the storage. A layout is a strided
 * array of inner blocks, which covers plain NCHW, channels-last, oneDNN's nChw16c activations and
 * its doubly blocked weights (OIhw16i16o): logical index i of dimension d is split from the
 * innermost block outwards, and the remaining index is multiplied by stride[d]. Plain values, no
 * pointers: copy freely, compare with sw_desc_equal, any thread.
 *
 * Dimension letters, the same everywhere: N rows of a batch, C channels, H height, W width, M
 * output channels, K kernel size, T time steps, B global batch. Dimension 0 of an activation is the
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

/* bf16 and fp16 (kernels/half.h) hold activations and their gradients only. */
enum sw_dtype { SW_F32, SW_I32, SW_U8, SW_BF16, SW_F16 };

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
const char *sw_dtype_name(enum sw_dtype t); /* f32 i32 u8 bf16 f16 */
static inline bool sw_dtype_is_half(enum sw_dtype t)
{
    return t == SW_BF16 || t == SW_F16;
}

/* Returns a row-major layout without padding. */
struct sw_desc sw_desc_plain(enum sw_dtype t, int ndim, const int64_t *dim);
/* Like plain, but dimension `blocked_dim` is stored in innermost blocks of `block`: nChw16c is (4,
 * dims, 1, 16). */
struct sw_desc sw_desc_blocked(enum sw_dtype t, int ndim, const int64_t *dim, int blocked_dim,
                               int block);

int64_t sw_desc_count(const struct sw_desc *d);   /* logical elements */
int64_t sw_desc_storage(const struct sw_desc *d); /* elements with padding */
size_t sw_desc_bytes(const struct sw_desc *d);    /* storage bytes */
bool sw_desc_is_plain(const struct sw_desc *d);
bool sw_desc_equal(const struct sw_desc *a, const struct sw_desc *b);
/* Are dtype and logical dimensions equal? The storage may differ. */
bool sw_desc_same_shape(const struct sw_desc *a, const struct sw_desc *b);
/* Returns the product of the logical dimensions after the batch. */
int64_t sw_desc_features(const struct sw_desc *d);

/* Returns 16, 8 or 4 if channels, and nothing else, are blocked by that number; else 0. */
int sw_desc_channel_block(const struct sw_desc *d);
/* Is the storage order (rows, pixels, channels)? True for [N, F], a single pixel, or NHWC. */
bool sw_desc_is_channels_last(const struct sw_desc *d);
/* Returns the product of the logical dimensions after the channels. */
int64_t sw_desc_pixels(const struct sw_desc *d);

/* Returns the same layout of elements of another type. */
struct sw_desc sw_desc_as(const struct sw_desc *d, enum sw_dtype t);

/* Returns the same storage with dimensions a and b swapped. */
struct sw_desc sw_desc_transposed(const struct sw_desc *d, int a, int b);

/* Returns the element offset of a logical index. */
int64_t sw_desc_offset(const struct sw_desc *d, const int64_t *index);

/* Writes text such as "128x96x55x55 f32 blocked(1:16)" to out, at least 128 bytes, and returns
 * out. */
const char *sw_desc_text(const struct sw_desc *d, char *out);

/* Copies between storage of any layout and plain logical order on the host, for initial values,
 * checkpoints and tests. sw_desc_from_plain also zeroes padding. The dtype gives the element
 * size. */
void sw_desc_to_plain(const struct sw_desc *d, const void *stored, void *plain);
void sw_desc_from_plain(const struct sw_desc *d, const void *plain, void *stored);

#ifdef __cplusplus
}
#endif
