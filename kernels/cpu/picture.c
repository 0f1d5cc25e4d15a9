/* Converts the pixels of a cropped row to floats, (x - mean) * gain, and computes the two passes of
 * resampling. Packed pixels are red, green, blue and an unused byte. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

/* ---- Cropped rows: loops are compiled for each direction ---- */

SW_KERNEL_INLINE void scale_u8(int64_t n, const uint8_t *restrict x, float mean, float gain,
                               bool mirrored, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[mirrored ? n - 1 - i : i] - mean) * gain;
}

SW_KERNEL void sw_kernel_scale_u8(int64_t n, const uint8_t *x, float mean, float gain,
                                  bool mirrored, float *y)
{
    if (mirrored)
        scale_u8(n, x, mean, gain, true, y);
    else
        scale_u8(n, x, mean, gain, false, y);
}

SW_KERNEL_INLINE void scale_f32(int64_t n, const float *restrict x, float mean, float gain,
                                bool mirrored, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[mirrored ? n - 1 - i : i] - mean) * gain;
}

SW_KERNEL void sw_kernel_scale_f32(int64_t n, const float *x, float mean, float gain, bool mirrored,
                                   float *y)
{
    if (mirrored)
        scale_f32(n, x, mean, gain, true, y);
    else
        scale_f32(n, x, mean, gain, false, y);
}

/* A pixel is one word, so that the three planes are shifts of one vector. */
SW_KERNEL_INLINE uint32_t pixel(const uint8_t *x, int64_t i)
{
    uint32_t word;
    __builtin_memcpy(&word, x + 4 * i, sizeof word);
    return word;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { RED = 0, GREEN = 8, BLUE = 16 };
#else
enum { RED = 24, GREEN = 16, BLUE = 8 };
#endif

SW_KERNEL_INLINE void scale_words(int64_t n, const uint8_t *restrict x, const float *mean,
                                  const float *gain, bool mirrored, float *restrict red,
                                  float *restrict green, float *restrict blue)
{
    const float m0 = mean[0], m1 = mean[1], m2 = mean[2];
    const float g0 = gain[0], g1 = gain[1], g2 = gain[2];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const uint32_t p = pixel(x, mirrored ? n - 1 - i : i);
        red[i] = ((float)(int32_t)(p >> RED & 255) - m0) * g0;
        green[i] = ((float)(int32_t)(p >> GREEN & 255) - m1) * g1;
        blue[i] = ((float)(int32_t)(p >> BLUE & 255) - m2) * g2;
    }
}

SW_KERNEL void sw_kernel_scale_packed(int64_t n, const uint8_t *x, const float *mean,
                                      const float *gain, bool mirrored, float *y, int64_t plane)
{
    if (mirrored)
        scale_words(n, x, mean, gain, true, y, y + plane, y + 2 * plane);
    else
        scale_words(n, x, mean, gain, false, y, y + plane, y + 2 * plane);
}

SW_KERNEL_INLINE void subtract_scale(int64_t n, const float *restrict mean, float gain,
                                     bool mirrored, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (y[i] - mean[mirrored ? n - 1 - i : i]) * gain;
}

SW_KERNEL void sw_kernel_subtract_scale(int64_t n, const float *mean, float gain, bool mirrored,
                                        float *y)
{
    if (mirrored)
        subtract_scale(n, mean, gain, true, y);
    else
        subtract_scale(n, mean, gain, false, y);
}

SW_KERNEL void sw_kernel_rescale(int64_t n, float mean, float gain, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (y[i] - mean) * gain;
}

/* ---- Resampling ---- */

/* Loops over taps are unrolled for small counts, the common case unless an image is shrunk a
 * lot. */
#define SWITCH_TAPS(taps, call)                                                                    \
    switch (taps) {                                                                                \
    case 1:                                                                                        \
        call(1);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;                                                                                     \
    case 4:                                                                                        \
        call(4);                                                                                   \
        break;                                                                                     \
    case 5:                                                                                        \
        call(5);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        call(taps);                                                                                \
    }

SW_KERNEL_INLINE void blend_taps_u8(int64_t n, int64_t taps, const uint8_t *x, int64_t step,
                                    const float *weight, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float sum = weight[0] * (float)x[i];
        for (int64_t k = 1; k < taps; k++)
            sum += weight[k] * (float)x[k * step + i];
        y[i] = sum;
    }
}

SW_KERNEL void sw_kernel_blend_u8(int64_t n, int64_t taps, const uint8_t *x, int64_t step,
                                  const float *weight, float *restrict y){
#define CALL(t) blend_taps_u8(n, t, x, step, weight, y)
    SWITCH_TAPS(taps, CALL)
#undef CALL
}

SW_KERNEL_INLINE void blend_taps_f32(int64_t n, int64_t taps, const float *x, int64_t step,
                                     const float *weight, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float sum = weight[0] * x[i];
        for (int64_t k = 1; k < taps; k++)
            sum += weight[k] * x[k * step + i];
        y[i] = sum;
    }
}

SW_KERNEL void sw_kernel_blend_f32(int64_t n, int64_t taps, const float *x, int64_t step,
                                   const float *weight, float *restrict y){
#define CALL(t) blend_taps_f32(n, t, x, step, weight, y)
    SWITCH_TAPS(taps, CALL)
#undef CALL
}

SW_KERNEL_INLINE void stretch_taps(int64_t n, int64_t taps, const int32_t *first,
                                   const float *weight, const float *restrict x, float *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        const float *from = x + first[i];
        float sum = 0;
        for (int64_t k = 0; k < taps; k++)
            sum += weight[i * taps + k] * from[k];
        y[i] = sum;
    }
}

SW_KERNEL void sw_kernel_stretch(int64_t n, int64_t taps, const int32_t *first, const float *weight,
                                 const float *restrict x, float *restrict y)
{
#define CALL(t) stretch_taps(n, t, first, weight, x, y)
    SWITCH_TAPS(taps, CALL)
#undef CALL
}

/* A pixel is one vector. */
typedef float four __attribute__((vector_size(16)));

SW_KERNEL_INLINE four load_four(const float *x)
{
    four v;
    __builtin_memcpy(&v, x, sizeof v);
    return v;
}

SW_KERNEL_INLINE void stretch_taps_packed(int64_t n, int64_t taps, const int32_t *first,
                                          const float *weight, const float *restrict x,
                                          float *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        const float *from = x + 4 * (int64_t)first[i];
        four sum = weight[i * taps] * load_four(from);
        for (int64_t k = 1; k < taps; k++)
            sum += weight[i * taps + k] * load_four(from + 4 * k);
        __builtin_memcpy(y + 4 * i, &sum, sizeof sum);
    }
}

SW_KERNEL void sw_kernel_stretch_packed(int64_t n, int64_t taps, const int32_t *first,
                                        const float *weight, const float *restrict x,
                                        float *restrict y){
#define CALL(t) stretch_taps_packed(n, t, first, weight, x, y)
    SWITCH_TAPS(taps, CALL)
#undef CALL
}

SW_KERNEL_INLINE void scale_fours(int64_t n, const float *restrict x, const float *mean,
                                  const float *gain, bool mirrored, float *restrict red,
                                  float *restrict green, float *restrict blue)
{
    const float m0 = mean[0], m1 = mean[1], m2 = mean[2];
    const float g0 = gain[0], g1 = gain[1], g2 = gain[2];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const int64_t to = mirrored ? n - 1 - i : i;
        red[to] = (x[4 * i] - m0) * g0;
        green[to] = (x[4 * i + 1] - m1) * g1;
        blue[to] = (x[4 * i + 2] - m2) * g2;
    }
}

SW_KERNEL void sw_kernel_scale_packed_f32(int64_t n, const float *x, const float *mean,
                                          const float *gain, bool mirrored, float *y, int64_t plane)
{
    if (mirrored)
        scale_fours(n, x, mean, gain, true, y, y + plane, y + 2 * plane);
    else
        scale_fours(n, x, mean, gain, false, y, y + plane, y + 2 * plane);
}

SW_KERNEL void sw_kernel_matrix_vector(int64_t rows, int64_t columns, const float *a,
                                       const float *restrict x, float *restrict y)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict row = a + r * columns;
        float sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < columns; i++)
            sum += row[i] * x[i];
        y[r] = sum;
    }
}
