/* OpenBLAS, always on one thread: parallel work is divided by us, so that its pieces depend on
 * shapes only. Its OpenMP build starts a team of omp_get_max_threads() when it is called outside a
 * parallel region, and keeps its own count in one global that every change of size rewrites. */
#include "device/cpu/cpu.h"
#include <cblas.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* OpenBLAS's own; the netlib header that some systems install as cblas.h does not declare them. */
void openblas_set_num_threads(int num_threads);
char *openblas_get_config(void);

void sw_cpu_blas_init(void)
{
    int before = omp_get_max_threads();
    openblas_set_num_threads(1); /* sets the OpenMP setting of the calling thread, too */
    omp_set_num_threads(before);
}

#ifndef SW_HAVE_ONEDNN
const char *sw_cpu_dnnl_version(void)
{
    return "";
}
#endif

const char *sw_cpu_libraries(char *out, size_t bytes)
{
    const char *blas = openblas_get_config(); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
    int n = (int)strcspn(blas, " ");
    n += blas[n] ? 1 + (int)strcspn(blas + n + 1, " ") : 0;
    const char *dnnl = sw_cpu_dnnl_version();
    snprintf(out, bytes, "%s%s%.*s", dnnl, *dnnl ? ", " : "", n, blas);
    return out;
}

/* Both libraries take as many threads as they find outside of a parallel region. */
static int stay_alone(void)
{
    int team = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (team > 1)
        omp_set_num_threads(1);
    return team;
}

static void be_team(int team)
{
    if (team > 1)
        omp_set_num_threads(team);
}

void sw_cpu_sgemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc)
{
    int team = stay_alone();
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
                (int)ldb, beta, c, (int)ldc);
    be_team(team);
}

void sw_cpu_multiply(const struct sw_cpu_product *p)
{
#ifdef SW_HAVE_ONEDNN
    int team = stay_alone();
    int rc = p->k > 0 ? sw_cpu_dnnl_sgemm(p) : SW_ERR_UNSUPPORTED;
    be_team(team);
    if (rc == SW_OK)
        return;
#endif
    sw_cpu_sgemm(p->trans_a, p->trans_b, p->m, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb,
                 p->beta, p->c, p->ldc);
}
