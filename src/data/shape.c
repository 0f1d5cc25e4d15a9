/* The shape of an image from the key `shape` ("CxHxW") or, if that is unset, from the number of
 * values. Pure; any thread. */
#include "data/shape.h"
#include "data/transform.h"
#include <stdio.h>

int sw_shape_read(const char *text, int64_t count, int64_t shape[3], struct sw_err *err)
{
    long long a = 0, b = 0, c = 0;

    int used = 0;
    if (!text || !*text) {
        shape[0] = count <= SW_MAX_CHANNELS ? count : 1;
        shape[1] = 1;
        shape[2] = count <= SW_MAX_CHANNELS ? 1 : count;
        return SW_OK;
    }

    if (sscanf(text, "%6lldx%6lldx%6lld%n", &a, &b, &c, &used) == 3 && !text[used]) {
        shape[0] = a, shape[1] = b, shape[2] = c;
    } else if (sscanf(text, "%6lldx%6lld%n", &a, &b, &used) == 2 && !text[used]) {
        shape[0] = 1, shape[1] = a, shape[2] = b;
    } else {
        return sw_err_set(err, SW_ERR_INVALID,
                          "shape = %s: expected channels x height x width, such as 1x8x8", text);
    }

    if (shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[0] * shape[1] * shape[2] != count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "shape = %s has %lld elements, but a record has %lld values", text,
                          (long long)(shape[0] * shape[1] * shape[2]), (long long)count);

    return SW_OK;
}
