/* The module singa_blas.so: its functions and its table. Only this file is linked to OpenBLAS. */
#include "device/cpu/blas_module.h"
#include <cblas.h>

/* Functions of OpenBLAS that the netlib header, which some systems install as cblas.h, does not
 * declare. Every routine of OpenBLAS gets its buffer by the last two. */
void openblas_set_num_threads(int num_threads);
char *openblas_get_config(void);
void *blas_memory_alloc(int unused);
void blas_memory_free(void *buffer);

/* LAPACK, divide and conquer. Fortran passes the lengths of strings as the last arguments. */
void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
             double *work, const int *lwork, int *iwork, const int *liwork, int *info,
             size_t jobz_bytes, size_t uplo_bytes);

static void one_thread(void)
{
    openblas_set_num_threads(1);
}

static const char *config(void)
{
    return openblas_get_config();
}

static void *acquire_buffer(void)
{
    return blas_memory_alloc(0);
}

static CBLAS_TRANSPOSE transpose(bool is_transposed)
{
    return is_transposed ? CblasTrans : CblasNoTrans;
}

static void sgemm(const struct sw_product *p)
{
    cblas_sgemm(CblasRowMajor, transpose(p->a.transposed), transpose(p->b.transposed), (int)p->m,
                (int)p->n, (int)p->k, p->alpha, p->a.at, (int)p->a.pitch, p->b.at, (int)p->b.pitch,
                p->beta, p->c, (int)p->pitch);
}

static void dgemm(int m, int n, int k, const double *a, int pitch, const double *b, double *c)
{
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1, a, pitch, b, n, 0, c, n);
}

static int eigen(int n, double *a, double *values, double *work, int work_count, int *ints,
                 int int_count)
{
    int info = 0;
    dsyevd_("V", "L", &n, a, &n, values, work, &work_count, ints, &int_count, &info, 1, 1);
    return info;
}

__attribute__((visibility("default"))) extern const struct sw_blas_module sw_blas_module;
const struct sw_blas_module sw_blas_module = {
    .head = {.abi = SW_BLAS_ABI, .table_bytes = SW_BLAS_TABLE_BYTES},
    .one_thread = one_thread,
    .config = config,
    .acquire_buffer = acquire_buffer,
    .release_buffer = blas_memory_free,
    .sgemm = sgemm,
    .dgemm = dgemm,
    .eigen = eigen,
};
