/* Element types, sizes and the checksum bytes of the safetensors format, shared by the reader and
 * the writer. No state; tensor/st_format.h declares the functions. */
#include "tensor/st_format.h"
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[SW_ST_DTYPES] = {
    [SW_ST_F64] = {"F64", 8}, [SW_ST_I64] = {"I64", 8}, [SW_ST_U64] = {"U64", 8},
    [SW_ST_F32] = {"F32", 4}, [SW_ST_I32] = {"I32", 4}, [SW_ST_U8] = {"U8", 1},
};

size_t sw_st_dtype_bytes(enum sw_st_dtype t)
{
    return dtypes[t].bytes;
}

const char *sw_st_dtype_name(enum sw_st_dtype t)
{
    return dtypes[t].name;
}

int sw_st_dtype_from_name(const char *name)
{
    for (int t = 0; t < SW_ST_DTYPES; t++)
        if (strcmp(dtypes[t].name, name) == 0)
            return t;
    return -1;
}

enum sw_st_dtype sw_st_dtype_of(enum sw_dtype t)
{
    static const enum sw_st_dtype of[] = {
        [SW_F32] = SW_ST_F32, [SW_I32] = SW_ST_I32, [SW_U8] = SW_ST_U8};
    return of[t];
}

bool sw_st_size(enum sw_st_dtype t, int ndim, const int64_t *shape, uint64_t *bytes)
{
    uint64_t product = dtypes[t].bytes;

    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(product, (uint64_t)shape[i], &product))
            return false;

    *bytes = product;
    return product < 1ull << 62;
}

void sw_st_checksum_bytes(struct sw_hash h, unsigned char out[SW_ST_CHECKSUM_BYTES])
{
    for (int i = 0; i < 8; i++) {
        out[i] = (unsigned char)(h.high >> (56 - 8 * i));
        out[8 + i] = (unsigned char)(h.low >> (56 - 8 * i));
    }
}
