/* The list of findings of `singa-ws doctor`, and the check of a matrix product that its parts
 * share. The product is checked with a vector (Freivalds): C x is compared with A (B x), which
 * costs far less than a second product. The contract is in cli/doctor/doctor.h. */
#include "cli/doctor/doctor.h"

#include "base/os.h"
#include <math.h>
#include <stdarg.h>

static void add(struct sw_doctor *d, struct sw_finding found, const char *what, va_list ap)
{
    struct sw_bytes text = {0};

    sw_bytes_vprintf(&text, what, ap);
    found.what = sw_bytes_take(&text);
    sw_bytes_fini(&text);

    struct sw_finding *f = found.what ? sw_array_add(&d->findings, &d->count, sizeof *f) : NULL;
    d->failed |= !f;

    if (f)
        *f = found;
    else
        sw_free(found.what);
}

void sw_doctor_find(struct sw_doctor *d, enum sw_finding_level level, const char *part,
                    const char *why, const char *fix, const char *what, ...)
{
    va_list ap;
    va_start(ap, what);
    add(d, (struct sw_finding){.level = level, .part = part, .why = why, .fix = fix}, what, ap);
    va_end(ap);
}

void sw_doctor_ok(struct sw_doctor *d, const char *part, const char *what, ...)
{
    va_list ap;
    va_start(ap, what);
    add(d, (struct sw_finding){.level = SW_FINDING_OK, .part = part}, what, ap);
    va_end(ap);
}

void sw_doctor_fini(struct sw_doctor *d)
{
    for (int i = 0; i < d->count; i++)
        sw_free(d->findings[i].what);
    sw_free(d->findings);
    sw_survey_fini(&d->survey);
    sw_machine_free(d->machine);
    *d = (struct sw_doctor){0};
}

/* ---- A product --------------------------------------------------------------------------------
 */

void sw_doctor_fill(float *x, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int32_t)(seed >> 20) - 2048) / 2048;
    }
}

static double dot(const float *row, const double *x, int n)
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
        bx[i] = dot(b + (size_t)i * (size_t)side, x, side);

    for (int i = 0; i < side; i++) {
        const float *row = c + (size_t)i * (size_t)side;
        double size = 0;

        for (int k = 0; k < side; k++)
            size += fabs((double)row[k]) * x[k];

        double off = fabs(dot(row, x, side) - dot(a + (size_t)i * (size_t)side, bx, side));
        double error = size > 0 ? off / size : off;
        worst = error > worst || isnan(error) ? error : worst;
        if (isnan(worst))
            break;
    }

    sw_free(x);
    return worst;
}
