/* A product of matrices for the libraries of every device: plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A factor: a matrix that is stored row by row, with `pitch` elements between rows, or its
 * transpose. Elements are floats, or 16-bit values where the callee says so. */
struct sw_factor_matrix {
    const void *at;
    int64_t pitch;
    bool transposed;
};

/* c [m, n] = alpha a [m, k] b [k, n] + beta c; pitch: of c. Its elements are floats, or 16-bit
 * values where the callee says so. */
struct sw_product {
    int64_t m, n, k;
    float alpha;
    struct sw_factor_matrix a, b;
    float beta;
    float *c;
    int64_t pitch;
};

static inline struct sw_factor_matrix sw_stored(const void *at, int64_t pitch)
{
    struct sw_factor_matrix f = {at, pitch, false};
    return f;
}
static inline struct sw_factor_matrix sw_transposed(const void *at, int64_t pitch)
{
    struct sw_factor_matrix f = {at, pitch, true};
    return f;
}

/* c = a b. */
static inline struct sw_product sw_product_of(int64_t m, int64_t n, int64_t k,
                                              struct sw_factor_matrix a, struct sw_factor_matrix b,
                                              float *c, int64_t pitch)
{
    struct sw_product p = {m, n, k, 1, a, b, 0, c, pitch};
    return p;
}
/* alpha times the product plus beta c. */
static inline struct sw_product sw_product_scaled(struct sw_product p, float alpha, float beta)
{
    p.alpha = alpha;
    p.beta = beta;
    return p;
}
