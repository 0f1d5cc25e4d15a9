/* Matrix products by oneDNN, which builds with oneDNN use for training (sw_cpu_multiply). A product
 * cannot fail, so a plain loop computes what oneDNN refuses. device/cpu/cpu.h declares the
 * functions. */
#include "device/cpu/dnnl.h"

/* Computes c [m, n] row by row, in the order of k. Used for products that oneDNN refuses: without
 * memory for copies of a and b, or with k = 0. */
static void multiply_lines(const struct sw_cpu_product *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        float *line = p->c + i * p->ldc;

        for (int64_t j = 0; j < p->n; j++)
            line[j] = p->beta == 0 ? 0 : p->beta * line[j];

        for (int64_t l = 0; l < p->k; l++) {
            const float factor = p->alpha * p->a[p->trans_a ? l * p->lda + i : i * p->lda + l];
            for (int64_t j = 0; j < p->n; j++)
                line[j] += factor * p->b[p->trans_b ? j * p->ldb + l : l * p->ldb + j];
        }
    }
}

/* The first product makes oneDNN compile the code for all others. */
int sw_cpu_dnnl_prepare(struct sw_err *err)
{
    enum { N = 16 };

    float a[N * N] = {0}, c[N * N];
    int rc = sw_dnnl_need_room(err);
    if (rc != SW_OK)
        return rc;

    sw_cpu_multiply(&(struct sw_cpu_product){
        .m = N, .n = N, .k = N, .a = a, .b = a, .c = c, .lda = N, .ldb = N, .ldc = N});
    return SW_OK;
}

void sw_cpu_dnnl_sgemm(const struct sw_cpu_product *p)
{
    dnnl_status_t status = dnnl_invalid_arguments;

    if (p->k > 0)
        status = dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k,
                            p->alpha, p->a, p->lda, p->b, p->ldb, p->beta, p->c, p->ldc);

    if (status != dnnl_success)
        multiply_lines(p);
}
