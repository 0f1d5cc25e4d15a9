/* OpenBLAS and its LAPACK as a module (device/module.h), singa_blas.so, which blas.c loads at the
 * first product: OpenBLAS allocates memory for every core when it is loaded, and retries forever if
 * the system refuses the memory. SINGA_BLAS_MODULE names another file. The functions of the table
 * compute on the calling thread only, after one_thread() was called. */
#pragma once

#include "device/cpu/cpu.h"
#include "device/module.h"

/* Increased with every change of the table. */
enum { SW_BLAS_ABI = 3 };
#define SW_BLAS_TABLE_BYTES ((uint32_t)(sizeof(struct sw_blas_module) + sizeof(struct sw_product)))

struct sw_blas_module {
    struct sw_module_head head;
    void (*one_thread)(void);    /* also sets the size of the caller's OpenMP team to 1 */
    const char *(*config)(void); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
    /* Takes a buffer from OpenBLAS's pool, which allocates a new one if none is free and retries
     * forever without memory. */
    void *(*acquire_buffer)(void);
    void (*release_buffer)(void *buffer);
    void (*sgemm)(const struct sw_product *p);
    /* c [m, n] = a^T b for a [k, m] with a row pitch of `pitch`, and b [k, n]; row-major. */
    void (*dgemm)(int m, int n, int k, const double *a, int pitch, const double *b, double *c);
    /* LAPACK's dsyevd: all eigenvalues and -vectors of the symmetric a [n, n], which become the
     * rows of a. Returns LAPACK's info, 0 when it has converged. */
    int (*eigen)(int n, double *a, double *values, double *work, int work_count, int *ints,
                 int int_count);
};
