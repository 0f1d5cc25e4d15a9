/* A hidden unit of one step of a recurrent cell; formulas in kernels/ops/recurrent.h and, for the
 * gradients, kernels/cpu/recurrent.c. n: elements between the blocks of a unit. */
#pragma once

#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ float sw_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* Reads r, z, q, n; keeps r, z, n, q. */
static __device__ __forceinline__ float sw_cell_gru(float *a, const float *b, int64_t n,
                                                    float before)
{
    float r = sw_sigmoid(a[0] + b[0]), z = sw_sigmoid(a[n] + b[n]), q = a[2 * n] + b[3 * n];
    float t = tanhf(a[3 * n] + b[2 * n] + r * q);

    a[0] = r;
    a[n] = z;
    a[2 * n] = t;
    a[3 * n] = q;

    return (1 - z) * t + z * before;
}

static __device__ __forceinline__ float sw_cell_lstm(float *a, const float *b, int64_t n, float *c)
{
    float i = sw_sigmoid(a[0] + b[0]), f = sw_sigmoid(a[n] + b[n]);
    float g = tanhf(a[2 * n] + b[2 * n]), o = sw_sigmoid(a[3 * n] + b[3 * n]);
    float now = f * *c + i * g;

    a[0] = i;
    a[n] = f;
    a[2 * n] = g;
    a[3 * n] = o;
    a[4 * n] = *c;
    *c = now;

    return o * tanhf(now);
}

static __device__ __forceinline__ float sw_cell_rnn(bool relu, float *a, const float *b)
{
    float v = *a + *b;
    return *a = relu ? (0.0f > v ? 0.0f : v) : tanhf(v);
}

/* Writes the gradients of r, z, q, n; returns the part of dh that bypasses the gates to the
 * previous step. */
static __device__ __forceinline__ float sw_cell_gru_back(const float *a, float before, float dh,
                                                         int64_t n, float *d)
{
    float r = a[0], z = a[n], t = a[2 * n], q = a[3 * n];
    float candidate = dh * (1 - z) * (1 - t * t);

    d[0] = candidate * q * r * (1 - r);
    d[n] = dh * (before - t) * z * (1 - z);
    d[2 * n] = candidate * r;
    d[3 * n] = candidate;

    return dh * z;
}

static __device__ __forceinline__ void sw_cell_lstm_back(const float *a, float dh, float *dc,
                                                         int64_t n, float *d)
{
    float i = a[0], f = a[n], g = a[2 * n], o = a[3 * n], before = a[4 * n];
    float t = tanhf(f * before + i * g), c = *dc + dh * o * (1 - t * t);

    d[0] = c * g * i * (1 - i);
    d[n] = c * before * f * (1 - f);
    d[2 * n] = c * i * (1 - g * g);
    d[3 * n] = dh * t * o * (1 - o);
    *dc = c * f;
}

static __device__ __forceinline__ float sw_cell_rnn_back(bool relu, float a, float dh)
{
    return dh * (relu ? (a > 0 ? 1.0f : 0.0f) : 1 - a * a);
}
