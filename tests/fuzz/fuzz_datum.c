/* A Datum message of untrusted bytes: parsing it and copying its floats must not read outside of
 * it. */
#include "base/os.h"
#include "data/datum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_datum d;
    struct sw_err err;
    if (sw_datum_parse(data, bytes, &d, &err))
        return 0;
    if (d.kind != SW_DATUM_F32) {
        if (!d.bytes || d.data < data || d.data + d.bytes > data + bytes)
            __builtin_trap();
        return 0;
    }
    float *values = sw_os()->alloc(d.floats * sizeof *values);
    if (values)
        sw_datum_floats(data, bytes, d.floats, values);
    sw_free(values);
    return 0;
}
