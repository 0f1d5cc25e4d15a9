/* Headers of .npy arrays: any bytes end in SW_OK or an error, and a header that is accepted
 * describes at most 2^62 bytes. What is accepted is converted as far as the input holds values. */
#include "tensor/npy.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_VALUES = 256 };

static void convert(const struct sw_npy_header *h, const uint8_t *values, size_t bytes)
{
    static const enum sw_dtype types[] = {SW_F32, SW_I32, SW_U8};
    float out[MAX_VALUES];
    uint64_t count = bytes / sw_npy_dtype_bytes(h->dtype);
    count = count > MAX_VALUES ? MAX_VALUES : count;
    for (int t = 0; t < 3; t++) {
        int64_t at = -1;
        struct sw_err err = {0};
        if (sw_npy_convert(h->dtype, values, (int64_t)count, types[t], out, &at, &err) &&
            (at < 0 || at >= (int64_t)count || !err.text[0]))
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_npy_header h;
    struct sw_err err = {0};
    if (sw_npy_parse(data, bytes, "x.npy", &h, &err))
        return err.text[0] ? 0 : (__builtin_trap(), 0);
    if (h.count * sw_npy_dtype_bytes(h.dtype) > UINT64_C(1) << 62 || h.data_offset > bytes ||
        sw_npy_rows(&h) < 0 || sw_npy_row_elements(&h) < 0)
        __builtin_trap();
    if (h.count && (uint64_t)sw_npy_rows(&h) * (uint64_t)sw_npy_row_elements(&h) != h.count)
        __builtin_trap();
    convert(&h, data + h.data_offset, bytes - h.data_offset);
    return 0;
}
