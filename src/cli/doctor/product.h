/* A matrix product that can be checked: inputs, and how wrong a result is. Pure. */
#ifndef SW_CLI_DOCTOR_PRODUCT_H
#define SW_CLI_DOCTOR_PRODUCT_H

#include <stdint.h>

/* Rounding makes a product of floats less wrong than this, one wrong entry more. */
#define SW_DOCTOR_ROUNDING 1e-5

/* n numbers between -1 and 1 that a float holds exactly. */
void sw_doctor_fill(float *x, int64_t n, uint32_t seed);
/* How far c [side, side] is from a b, relative to the sizes of what is summed: c x is compared with
 * a (b x) for a random x, row by row in double (Freivalds 1977), so that every entry counts. NaN
 * where c is not finite or memory is exhausted. */
double sw_doctor_product_error(const float *a, const float *b, const float *c, int side);

#endif
