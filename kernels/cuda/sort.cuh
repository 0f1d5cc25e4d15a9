/* Sorts the numbers 0 .. n - 1 by integer keys, equal keys in the order of the numbers, so that
 * sums over equal keys have a fixed order: from the lowest digit on (Knuth, "The Art of Computer
 * Programming", volume 3, 5.2.5), eight bits at a time. A digit takes three kernels: every block
 * counts the digits of a part, one block finds where each digit of each part begins, and every
 * block moves its part there. */
#pragma once

#include "kernels/cuda/cuda.cuh"

enum {
    SW_SORT_DIGITS = SW_THREADS, /* a thread has a digit */
    SW_SORT_BITS = 8,
    SW_SORT_PART = 4 * SW_THREADS, /* keys of a block */
};

struct sw_sort {
    int n, parts;
    uint32_t *key[2], *number[2]; /* [n]: before and after a digit */
    uint32_t *begin;              /* [parts, SW_SORT_DIGITS] */
};

static inline int64_t sw_sort_parts(int64_t n)
{
    return (n + SW_SORT_PART - 1) / SW_SORT_PART;
}

/* Returns the bytes of scratch memory that n < 2^31 numbers need. */
static inline size_t sw_sort_bytes(int64_t n)
{
    return (size_t)(4 * n + sw_sort_parts(n) * SW_SORT_DIGITS) * sizeof(uint32_t);
}

/* Divides that scratch memory. The caller then sets key[0] and number[0]. */
static inline struct sw_sort sw_sort_in(void *room, int64_t n)
{
    uint32_t *at = (uint32_t *)room;
    const struct sw_sort s = {
        (int)n, (int)sw_sort_parts(n), {at, at + n}, {at + 2 * n, at + 3 * n}, at + 4 * n};
    return s;
}

static __device__ __forceinline__ unsigned sw_sort_digit(uint32_t key, int shift)
{
    return key >> shift & (SW_SORT_DIGITS - 1);
}

static __global__ void sw_sort_count(struct sw_sort s, int shift)
{
    __shared__ unsigned count[SW_SORT_DIGITS];

    const int from = (int)blockIdx.x * SW_SORT_PART;
    const int end = s.n - from < SW_SORT_PART ? s.n : from + SW_SORT_PART;

    count[threadIdx.x] = 0;
    __syncthreads();

    for (int i = from + (int)threadIdx.x; i < end; i += SW_THREADS)
        atomicAdd(&count[sw_sort_digit(s.key[0][i], shift)], 1u);
    __syncthreads();

    s.begin[blockIdx.x * SW_SORT_DIGITS + threadIdx.x] = count[threadIdx.x];
}

/* Turns the counts into places; runs in one block. */
static __global__ void sw_sort_begin(struct sw_sort s)
{
    __shared__ unsigned total[SW_SORT_DIGITS];

    uint32_t *of_digit = s.begin + threadIdx.x;
    unsigned sum = 0, at = 0;
    for (int part = 0; part < s.parts; part++)
        sum += of_digit[part * SW_SORT_DIGITS];

    total[threadIdx.x] = sum;
    __syncthreads();

    for (unsigned digit = 0; digit < threadIdx.x; digit++)
        at += total[digit];
    for (int part = 0; part < s.parts; part++) {
        const unsigned count = of_digit[part * SW_SORT_DIGITS];
        of_digit[part * SW_SORT_DIGITS] = at;
        at += count;
    }
}

/* Thread d gives the keys with digit d their places, one after the other. */
static __global__ void sw_sort_move(struct sw_sort s, int shift)
{
    __shared__ uint32_t digits[SW_THREADS / 4]; /* a byte each */
    __shared__ uint32_t place[SW_THREADS];

    const int from = (int)blockIdx.x * SW_SORT_PART;
    const int end = s.n - from < SW_SORT_PART ? s.n : from + SW_SORT_PART;
    uint32_t next = s.begin[blockIdx.x * SW_SORT_DIGITS + threadIdx.x];

    for (int first = from; first < end; first += SW_THREADS) {
        const int n = end - first < SW_THREADS ? end - first : SW_THREADS;
        const int mine = first + (int)threadIdx.x;
        const uint32_t key = mine < end ? s.key[0][mine] : 0;

        ((unsigned char *)digits)[threadIdx.x] = (unsigned char)sw_sort_digit(key, shift);
        __syncthreads();

        for (int i = 0; i < n; i += 4)
            for (int j = 0; j < 4; j++)
                if (i + j < n && (digits[i / 4] >> 8 * j & 0xff) == threadIdx.x)
                    place[i + j] = next++;
        __syncthreads();

        if (mine < end) {
            s.key[1][place[threadIdx.x]] = key;
            s.number[1][place[threadIdx.x]] = s.number[0][mine];
        }
    }
}

/* Sorts by key[0], whose values are at most `most`; key[0] and number[0] are then in order. Returns
 * an enum cudaError. */
static inline int sw_sort_run(struct sw_sort *s, uint32_t most, const struct sw_cuda_launch *l)
{
    for (int shift = 0; shift < 32 && most >> shift; shift += SW_SORT_BITS) {
        SW_START(sw_sort_count, (unsigned)s->parts, SW_THREADS, l, *s, shift);
        SW_START(sw_sort_begin, 1, SW_THREADS, l, *s);
        SW_START(sw_sort_move, (unsigned)s->parts, SW_THREADS, l, *s, shift);

        const struct sw_sort swapped = {
            s->n, s->parts, {s->key[1], s->key[0]}, {s->number[1], s->number[0]}, s->begin};
        *s = swapped;
    }

    return (int)cudaGetLastError();
}
