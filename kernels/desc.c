/* Layout descriptors: sizes and comparisons, without access to memory. */
#include "kernels/axis.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Shapes may come from a recipe, so products saturate at the maximum, which no allocation can
 * satisfy. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Returns the product of the blocks of one dimension, or of all dimensions if dim is -1. */
static int64_t block_product(const struct sw_desc *d, int dim)
{
    int64_t product = 1;

    for (int i = 0; i < d->nblock; i++)
        if (dim < 0 || d->block_dim[i] == dim)
            product *= d->block[i];

    return product;
}

/* Returns the number of block steps of a dimension. */
static int64_t outer_extent(const struct sw_desc *d, int dim)
{
    return d->padded[dim] / block_product(d, dim);
}

static int64_t round_up(int64_t n, int64_t step)
{
    return n > INT64_MAX - step ? INT64_MAX : (n + step - 1) / step * step;
}

size_t sw_dtype_bytes(enum sw_dtype t)
{
    return t == SW_U8 ? 1 : sw_dtype_is_half(t) ? 2 : 4;
}

const char *sw_dtype_name(enum sw_dtype t)
{
    static const char *const names[] = {
        [SW_F32] = "f32", [SW_I32] = "i32", [SW_U8] = "u8", [SW_BF16] = "bf16", [SW_F16] = "f16"};
    return names[t];
}

/* Fills padded and stride for the given dims and blocks, dimensions in row-major order. */
static void lay_out(struct sw_desc *d)
{
    int64_t step = block_product(d, -1);

    for (int i = d->ndim - 1; i >= 0; i--) {
        d->padded[i] = round_up(d->dim[i], block_product(d, i));
        d->stride[i] = step;
        step = times(step, outer_extent(d, i));
    }
}

struct sw_desc sw_desc_plain(enum sw_dtype t, int ndim, const int64_t *dim)
{
    struct sw_desc d = {.dtype = t, .ndim = ndim};
    memcpy(d.dim, dim, (size_t)ndim * sizeof *dim);
    lay_out(&d);
    return d;
}

struct sw_desc sw_desc_blocked(enum sw_dtype t, int ndim, const int64_t *dim, int blocked_dim,
                               int block)
{
    struct sw_desc d = {.dtype = t, .ndim = ndim, .nblock = 1};

    memcpy(d.dim, dim, (size_t)ndim * sizeof *dim);
    d.block[0] = block;
    d.block_dim[0] = blocked_dim;
    lay_out(&d);

    return d;
}

int64_t sw_desc_count(const struct sw_desc *d)
{
    int64_t count = 1;
    for (int i = 0; i < d->ndim; i++)
        count = times(count, d->dim[i]);
    return count;
}

/* The offset of the last element plus one: the product of the padded dims for a layout without
 * gaps. */
int64_t sw_desc_storage(const struct sw_desc *d)
{
    int64_t last = block_product(d, -1) - 1;

    for (int i = 0; i < d->ndim; i++) {
        int64_t outer = outer_extent(d, i), span;
        if (outer == 0)
            return 0;
        span = times(outer - 1, d->stride[i]);
        if (__builtin_add_overflow(last, span, &last))
            return INT64_MAX;
    }

    return last == INT64_MAX ? last : last + 1;
}

size_t sw_desc_bytes(const struct sw_desc *d)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)sw_desc_storage(d), sw_dtype_bytes(d->dtype), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Appends an outer factor; merges it with the last one if both are contiguous. */
static void add_factor(struct sw_axis *a, int64_t extent, int64_t stride)
{
    struct sw_factor *last = a->count ? &a->factor[a->count - 1] : NULL;

    if (extent == 1)
        return;

    if (last && times(last->stride, last->extent) == stride)
        last->extent *= extent;
    else
        a->factor[a->count++] = (struct sw_factor){extent, stride};
}

struct sw_axis sw_axis_of(const struct sw_desc *d, int dim)
{
    struct sw_axis a = {.dim = d->dim[dim]};
    int64_t step = 1;

    for (int i = d->nblock - 1; i >= 0; i--) {
        if (d->block_dim[i] == dim)
            add_factor(&a, d->block[i], step);
        step *= d->block[i];
    }

    add_factor(&a, outer_extent(d, dim), d->stride[dim]);
    return a;
}

bool sw_desc_same_shape(const struct sw_desc *a, const struct sw_desc *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

bool sw_desc_equal(const struct sw_desc *a, const struct sw_desc *b)
{
    if (!sw_desc_same_shape(a, b))
        return false;

    for (int i = 0; i < a->ndim; i++) {
        struct sw_axis x = sw_axis_of(a, i), y = sw_axis_of(b, i);
        if (a->padded[i] != b->padded[i] || x.count != y.count ||
            memcmp(x.factor, y.factor, (size_t)x.count * sizeof *x.factor) != 0)
            return false;
    }

    return true;
}

bool sw_desc_is_plain(const struct sw_desc *d)
{
    struct sw_desc plain = sw_desc_plain(d->dtype, d->ndim, d->dim);
    return sw_desc_equal(d, &plain);
}

int64_t sw_desc_features(const struct sw_desc *d)
{
    int64_t features = 1;
    for (int i = 1; i < d->ndim; i++)
        features = times(features, d->dim[i]);
    return features;
}

static void swap(int64_t *list, int a, int b)
{
    int64_t first = list[a];
    list[a] = list[b];
    list[b] = first;
}

struct sw_desc sw_desc_as(const struct sw_desc *d, enum sw_dtype t)
{
    struct sw_desc as = *d;
    as.dtype = t;
    return as;
}

struct sw_desc sw_desc_transposed(const struct sw_desc *d, int a, int b)
{
    struct sw_desc t = *d;

    swap(t.dim, a, b);
    swap(t.padded, a, b);
    swap(t.stride, a, b);
    for (int i = 0; i < t.nblock; i++)
        t.block_dim[i] = t.block_dim[i] == a ? b : t.block_dim[i] == b ? a : t.block_dim[i];

    return t;
}

int64_t sw_desc_offset(const struct sw_desc *d, const int64_t *index)
{
    int64_t rest[SW_MAX_DIMS], offset = 0, step = 1;

    memcpy(rest, index, (size_t)d->ndim * sizeof *rest);

    for (int i = d->nblock - 1; i >= 0; i--) {
        int64_t *r = &rest[d->block_dim[i]];
        offset += *r % d->block[i] * step;
        *r /= d->block[i];
        step *= d->block[i];
    }

    for (int i = 0; i < d->ndim; i++)
        offset += rest[i] * d->stride[i];
    return offset;
}

enum { TEXT_BYTES = 128 };

/* Appends formatted text to out, truncated to TEXT_BYTES. */
static void SW_PRINTF(2, 3) append(char *out, const char *fmt, ...)
{
    size_t used = strlen(out);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out + used, TEXT_BYTES - used, fmt, ap);
    va_end(ap);
}

/* Appends the dimensions by stride, largest first, unless they are in row-major order. */
static void append_order(const struct sw_desc *d, char *out)
{
    int order[SW_MAX_DIMS];
    bool sorted = true;

    for (int i = 0; i < d->ndim; i++) {
        int j = i;
        for (; j > 0 && d->stride[order[j - 1]] < d->stride[i]; j--)
            order[j] = order[j - 1];
        order[j] = i;
        sorted = sorted && j == i;
    }

    for (int i = 0; !sorted && i < d->ndim; i++)
        append(out, "%s%d%s", i ? "," : " order(", order[i], i == d->ndim - 1 ? ")" : "");
}

const char *sw_desc_text(const struct sw_desc *d, char *out)
{
    out[0] = '\0';
    for (int i = 0; i < d->ndim; i++)
        append(out, "%s%lld", i ? "x" : "", (long long)d->dim[i]);
    append(out, "%s%s", d->ndim ? " " : "scalar ", sw_dtype_name(d->dtype));

    for (int i = 0; i < d->nblock; i++)
        append(out, "%s%d:%d%s", i ? "," : " blocked(", d->block_dim[i], d->block[i],
               i == d->nblock - 1 ? ")" : "");

    append_order(d, out);
    return out;
}

/* ---- The common layouts of activations ---- */

int sw_desc_channel_block(const struct sw_desc *d)
{
    int block = d->ndim >= 2 && d->nblock == 1 ? d->block[0] : 0;
    if (block != 16 && block != 8 && block != 4)
        return 0;

    struct sw_desc blocked = sw_desc_blocked(d->dtype, d->ndim, d->dim, 1, block);
    return sw_desc_equal(d, &blocked) ? block : 0;
}

int64_t sw_desc_pixels(const struct sw_desc *d)
{
    int64_t pixels = 1;
    for (int i = 2; i < d->ndim; i++)
        pixels *= d->dim[i];
    return pixels;
}

bool sw_desc_is_channels_last(const struct sw_desc *d)
{
    if (sw_desc_is_plain(d))
        return d->ndim == 2 || d->dim[1] == 1 || sw_desc_pixels(d) == 1;

    int64_t step = d->dim[1];
    if (d->nblock > 0 || d->stride[1] != 1)
        return false;

    for (int i = d->ndim - 1; i >= 2; i--) {
        if (d->stride[i] != step)
            return false;
        step *= d->dim[i];
    }

    return d->stride[0] == step;
}
