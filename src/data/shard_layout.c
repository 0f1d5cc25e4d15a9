/* Checks shared by reader and writer of shards: names, kinds and sizes of fields, and values
 * against their field. They return NULL, or text that describes the problem. */
#include "data/shard_layout.h"

/* Limits for the array of one record and for height, width and channels of an image. */
static const int64_t max_array_bytes = (int64_t)1 << 40, max_side = 65535, max_channels = 65535;

size_t sw_shard_field_bytes(const struct sw_shard_field *f)
{
    size_t bytes = sw_dtype_bytes(f->dtype);
    for (int i = 0; i < f->ndim; i++)
        bytes *= (size_t)f->dim[i];
    return f->kind == SW_SHARD_PICTURE ? 0 : bytes;
}

bool sw_shard_is_label(const struct sw_shard_field *f)
{
    return f->kind == SW_SHARD_ARRAY && f->dtype == SW_I32 && f->ndim == 0 &&
           !strcmp(f->name, "label");
}

static bool is_name(const char name[SW_SHARD_NAME_BYTES])
{
    const size_t n = strnlen(name, SW_SHARD_NAME_BYTES);
    if (n == 0 || n == SW_SHARD_NAME_BYTES)
        return false;

    for (size_t i = 0; i < SW_SHARD_NAME_BYTES; i++) {
        const char c = name[i];
        if (i < n ? !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') : c != 0)
            return false;
    }

    return true;
}

static const char *image_field_problem(const struct sw_shard_field *f)
{
    if (f->dtype != SW_U8 || f->ndim != 3)
        return "an image must be u8 with three dimensions";
    if (f->dim[0] < 0 || f->dim[0] > max_channels || f->dim[1] < 0 || f->dim[1] > max_side ||
        f->dim[2] < 0 || f->dim[2] > max_side)
        return "the height, width or channels of the images are out of range";

    return NULL;
}

const char *sw_shard_field_fault(const struct sw_shard_field *f)
{
    if (!is_name(f->name))
        return "its name must be 1 to 31 of a-z, 0-9 and _";
    if (f->kind != SW_SHARD_ARRAY && f->kind != SW_SHARD_PICTURE)
        return "its kind is unknown";
    if (f->ndim < 0 || f->ndim > SW_SHARD_MAX_DIMS)
        return "it has more than 4 dimensions";
    if (f->kind == SW_SHARD_PICTURE)
        return image_field_problem(f);

    int64_t bytes = (int64_t)sw_dtype_bytes(f->dtype);
    for (int i = 0; i < f->ndim; i++) {
        if (f->dim[i] < 1 || __builtin_mul_overflow(bytes, f->dim[i], &bytes) ||
            bytes > max_array_bytes)
            return "its dimensions are out of range";
    }

    return NULL;
}

const char *sw_shard_value_fault(const struct sw_shard_field *f, const struct sw_shard_value *v)
{
    if (f->kind == SW_SHARD_ARRAY)
        return v->bytes == sw_shard_field_bytes(f) ? NULL : "its size does not match its field";
    if (v->bytes == 0)
        return "the image is empty";
    if (v->encoded)
        return v->channels || v->height || v->width ? "the dimensions of an encoded image must be 0"
                                                    : NULL;
    if (v->channels < 1 || v->channels > max_channels || v->height < 1 || v->height > max_side ||
        v->width < 1 || v->width > max_side)
        return "the height, width or channels of the image are out of range";

    const uint64_t pixels = (uint64_t)v->channels * (uint64_t)v->height * (uint64_t)v->width;
    if (pixels != v->bytes)
        return "the size of the image does not match its dimensions";
    if ((f->dim[1] && f->dim[1] != v->height) || (f->dim[2] && f->dim[2] != v->width))
        return "the dimensions of the image do not match its field";

    return NULL;
}
