#include "cli/doctor/product.h"

#include "base/os.h"
#include <math.h>

void sw_doctor_fill(float *x, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int32_t)(seed >> 20) - 2048) / 2048;
    }
}

static double row_times(const float *row, const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)row[i] * x[i];
    return sum;
}

double sw_doctor_product_error(const float *a, const float *b, const float *c, int side)
{
    double worst = 0;
    double *x = sw_calloc(2 * (size_t)side, sizeof *x);
    if (!x)
        return NAN;
    double *bx = x + side;
    for (int i = 0; i < side; i++)
        x[i] = 1 + (double)(i * 2654435761u % 1024) / 1024;
    for (int i = 0; i < side; i++)
        bx[i] = row_times(b + (size_t)i * (size_t)side, x, side);
    for (int i = 0; i < side; i++) {
        const float *row = c + (size_t)i * (size_t)side;
        double size = 0;
        for (int k = 0; k < side; k++)
            size += fabs((double)row[k]) * x[k];
        double off =
            fabs(row_times(row, x, side) - row_times(a + (size_t)i * (size_t)side, bx, side));
        double error = size > 0 ? off / size : off;
        worst = error > worst || isnan(error) ? error : worst;
        if (isnan(worst))
            break;
    }
    sw_free(x);
    return worst;
}
