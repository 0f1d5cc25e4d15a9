/* Common parts of the tests of operations and plans: a device with streams, random numbers, and
 * comparisons that print the position of a difference. Values come from Philox, so every run has
 * the same. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/device.h"
#include "device/ops/elementwise.h"
#include "device/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

/* ---- Memory: from malloc, so that the address sanitizer sees every element ---- */

static inline void *get_bytes(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(p);
    return p;
}

static inline float *get_floats(int64_t n)
{
    return get_bytes((size_t)n * sizeof(float));
}

static inline double *get_doubles(int64_t n)
{
    return get_bytes((size_t)n * sizeof(double));
}

/* The bit pattern of values that were not written. */
static inline void poison(void *p, size_t bytes)
{
    memset(p, 0xff, bytes); /* a NaN in every float */
}

/* ---- Random numbers ---- */

struct rng {
    struct sw_philox stream;
    uint64_t next;
};

static inline struct rng rng_of(uint64_t seed)
{
    return (struct rng){sw_philox_stream(seed, SW_PURPOSE_TEST, 0), 0};
}

static inline uint32_t rng_word(struct rng *r)
{
    uint64_t n = r->next++;
    return sw_philox_word(r->stream, n >> 32, 0, (uint32_t)n);
}

/* Uniform in [from, to). */
static inline float rng_real(struct rng *r, double from, double to)
{
    return (float)(from + (to - from) * (double)sw_philox_uniform(rng_word(r)));
}

/* Uniform in [from, to]. */
static inline int64_t rng_int(struct rng *r, int64_t from, int64_t to)
{
    return from + (int64_t)(rng_word(r) % (uint64_t)(to - from + 1));
}

static inline float *random_floats(struct rng *r, int64_t n, double from, double to)
{
    float *x = get_floats(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_real(r, from, to);
    return x;
}

/* ---- Devices ---- */

struct fixture {
    struct sw_device *dev;
    struct sw_stream *stream;
};

static inline struct fixture open_cpu_as(bool reference, enum sw_precision precision, int threads)
{
    struct fixture f;
    struct sw_err err;
    ASSERT_OK(sw_cpu_open_as(reference, precision, &f.dev, &err));
    ASSERT_OK(sw_stream_new(f.dev, threads, &f.stream, &err));
    return f;
}

static inline struct fixture open_cpu(bool reference, int threads)
{
    return open_cpu_as(reference, SW_PRECISION_FP32, threads);
}

static inline void close_cpu(struct fixture *f)
{
    sw_stream_free(f->stream);
    sw_device_close(f->dev);
}

/* ---- Comparisons ---- */

/* |a - b| <= limit * largest |b|, element-wise. */
static inline void assert_near(const char *what, const float *a, const double *b, int64_t n,
                               double limit)
{
    double largest = 1e-30;
    for (int64_t i = 0; i < n; i++)
        largest = fabs(b[i]) > largest ? fabs(b[i]) : largest;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= limit * largest))
            fail_msg("%s: element %lld is %.9g, should be %.9g (largest %.3g, limit %.1e)", what,
                     (long long)i, (double)a[i], b[i], largest, limit);
}

static inline void assert_same_bits(const char *what, const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            fail_msg("%s: byte %zu of %zu differs", what, i, bytes);
}
