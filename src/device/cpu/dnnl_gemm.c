#include "device/cpu/dnnl.h"

int sw_cpu_dnnl_sgemm(const struct sw_cpu_product *p)
{
    dnnl_status_t status =
        dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k, p->alpha, p->a,
                   p->lda, p->b, p->ldb, p->beta, p->c, p->ldc);
    return status == dnnl_success ? SW_OK : SW_ERR_LIBRARY;
}
