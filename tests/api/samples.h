/* The data of both programs: points in four dimensions, of two classes that a line separates except
 * for a few; and printing of what they have learned. */
#pragma once

#include <stdint.h>
#include <stdio.h>

enum { SAMPLES = 200, INPUTS = 4, OUTPUTS = 2, EPOCHS = 30 };

/* x [SAMPLES, INPUTS] between -1 and 1; y [SAMPLES, OUTPUTS], 1 for the class and 0 for the other.
 */
static inline void make_samples(float *x, float *y)
{
    uint32_t state = 12345;
    for (int s = 0; s < SAMPLES; s++) {
        float side = 0;
        for (int i = 0; i < INPUTS; i++) {
            state = state * 1664525u + 1013904223u; /* Numerical Recipes' generator */
            x[s * INPUTS + i] = (float)(state >> 8) / 8388608.0f - 1.0f;
            side += x[s * INPUTS + i] * (float)(i + 1);
        }
        int class = side + 0.3f * x[s * INPUTS] > 0;
        y[s * OUTPUTS] = (float)class;
        y[s * OUTPUTS + 1] = (float)!class;
    }
}

/* One line a number: what the test compares. */
static inline void print_numbers(const char *name, const float *value, int count)
{
    for (int i = 0; i < count; i++)
        printf("%s[%d] %.7f\n", name, i, (double)value[i]);
}
