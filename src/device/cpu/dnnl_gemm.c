/* Matrix products by oneDNN, which builds with oneDNN use for training (sw_cpu_multiply). A product
 * cannot fail, so a plain loop computes what oneDNN refuses. device/cpu/cpu.h declares the
 * functions. */
#include "device/cpu/dnnl.h"

/* Computes c [m, n] row by row, in the order of k. Used for products that oneDNN refuses: without
 * memory for copies of a and b, or with k = 0. */
static void multiply_lines(const struct sw_product *p)
{
    const float *a = p->a.at, *b = p->b.at;
    int64_t a_pitch = p->a.pitch, b_pitch = p->b.pitch;

    for (int64_t i = 0; i < p->m; i++) {
        float *line = p->c + i * p->pitch;

        for (int64_t j = 0; j < p->n; j++)
            line[j] = p->beta == 0 ? 0 : p->beta * line[j];

        for (int64_t l = 0; l < p->k; l++) {
            const float factor = p->alpha * a[p->a.transposed ? l * a_pitch + i : i * a_pitch + l];
            for (int64_t j = 0; j < p->n; j++)
                line[j] += factor * b[p->b.transposed ? j * b_pitch + l : l * b_pitch + j];
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

    struct sw_product p = sw_product_of(N, N, N, sw_stored(a, N), sw_stored(a, N), c, N);
    sw_cpu_multiply(&p);
    return SW_OK;
}

void sw_cpu_dnnl_sgemm(const struct sw_product *p)
{
    dnnl_status_t status = dnnl_invalid_arguments;

    if (p->k > 0)
        status =
            dnnl_sgemm(p->a.transposed ? 'T' : 'N', p->b.transposed ? 'T' : 'N', p->m, p->n, p->k,
                       p->alpha, p->a.at, p->a.pitch, p->b.at, p->b.pitch, p->beta, p->c, p->pitch);

    if (status != dnnl_success)
        multiply_lines(p);
}
