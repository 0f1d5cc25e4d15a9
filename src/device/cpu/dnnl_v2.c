/* What differs by version, for oneDNN 2: a layout is a public struct, and a pass is first described
 * and then listed. device/cpu/dnnl.h declares the functions. */
#include "device/cpu/dnnl.h"

#include "base/os.h"
#include <string.h>

static void write_blocked(const struct sw_desc *d, dnnl_memory_desc_t *md)
{
    dnnl_blocking_desc_t *b = &md->format_desc.blocking;

    md->ndims = d->ndim;
    md->data_type = sw_dnnl_type(d->dtype);
    md->format_kind = dnnl_blocked;
    for (int i = 0; i < d->ndim; i++) {
        md->dims[i] = d->dim[i];
        md->padded_dims[i] = d->padded[i];
        b->strides[i] = d->stride[i];
    }

    b->inner_nblks = d->nblock;
    for (int i = 0; i < d->nblock; i++) {
        b->inner_blks[i] = d->block[i];
        b->inner_idxs[i] = d->block_dim[i];
    }
}

static dnnl_status_t write_any(const struct sw_desc *d, dnnl_memory_desc_t *md)
{
    dnnl_dims_t dims = {0};

    memcpy(dims, d->dim, (size_t)d->ndim * sizeof *dims);
    return dnnl_memory_desc_init_by_tag(md, d->ndim, dims, sw_dnnl_type(d->dtype),
                                        dnnl_format_tag_any);
}

dnnl_status_t sw_dnnl_md_new(const struct sw_dnnl_layout *layout, sw_dnnl_md **out)
{
    dnnl_status_t st = dnnl_success;

    *out = NULL;
    if (sw_dnnl_is_empty(layout))
        return dnnl_success;

    dnnl_memory_desc_t *md = sw_calloc(1, sizeof *md);
    if (!md)
        return dnnl_out_of_memory;

    if (layout->chosen)
        *md = *layout->chosen;
    else if (layout->any)
        st = write_any(&layout->desc, md);
    else
        write_blocked(&layout->desc, md);

    if (st == dnnl_success)
        *out = md;
    else
        sw_free(md);
    return st;
}

void sw_dnnl_md_free(sw_dnnl_md *md)
{
    sw_free(md);
}

bool sw_dnnl_to_desc(const sw_dnnl_md *md, struct sw_desc *d)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    if (md->format_kind != dnnl_blocked || md->ndims > SW_MAX_DIMS || md->offset0 != 0 ||
        md->extra.flags != dnnl_memory_extra_flag_none || b->inner_nblks > SW_MAX_BLOCKS)
        return false;

    memset(d, 0, sizeof *d);
    d->dtype = sw_dnnl_type_of(md->data_type);

    d->ndim = md->ndims;
    for (int i = 0; i < d->ndim; i++) {
        d->dim[i] = md->dims[i];
        d->padded[i] = md->padded_dims[i];
        d->stride[i] = b->strides[i];
    }

    d->nblock = b->inner_nblks;
    for (int i = 0; i < d->nblock; i++) {
        d->block[i] = (int)b->inner_blks[i];
        d->block_dim[i] = (int)b->inner_idxs[i];
    }

    return true;
}

dnnl_status_t sw_dnnl_append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

union op_desc {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t inner_product;
    dnnl_pooling_desc_t pooling;
    dnnl_lrn_desc_t lrn;
};

static dnnl_status_t describe_convolution(const struct sw_dnnl_pass *p,
                                          const struct sw_dnnl_mds *md, union op_desc *out)
{
    dnnl_convolution_desc_t *d = &out->convolution;

    switch ((int)p->kind) {
    case dnnl_backward_data:
        return dnnl_dilated_convolution_backward_data_desc_init(
            d, p->algorithm, md->src, md->weight, md->dst, p->stride, p->dilation, p->pad_before,
            p->pad_after);
    case dnnl_backward_weights:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            d, p->algorithm, md->src, md->weight, md->bias, md->dst, p->stride, p->dilation,
            p->pad_before, p->pad_after);
    default:
        return dnnl_dilated_convolution_forward_desc_init(d, p->kind, p->algorithm, md->src,
                                                          md->weight, md->bias, md->dst, p->stride,
                                                          p->dilation, p->pad_before, p->pad_after);
    }
}

static dnnl_status_t describe_inner_product(const struct sw_dnnl_pass *p,
                                            const struct sw_dnnl_mds *md, union op_desc *out)
{
    dnnl_inner_product_desc_t *d = &out->inner_product;

    switch ((int)p->kind) {
    case dnnl_backward_data:
        return dnnl_inner_product_backward_data_desc_init(d, md->src, md->weight, md->dst);
    case dnnl_backward_weights:
        return dnnl_inner_product_backward_weights_desc_init(d, md->src, md->weight, md->bias,
                                                             md->dst);
    default:
        return dnnl_inner_product_forward_desc_init(d, p->kind, md->src, md->weight, md->bias,
                                                    md->dst);
    }
}

/* The older form of pooling, whose kernels are never dilated. */
static dnnl_status_t describe_pooling(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                                      union op_desc *out)
{
    dnnl_pooling_desc_t *d = &out->pooling;

    if (p->kind == dnnl_backward_data)
        return dnnl_pooling_backward_desc_init(d, p->algorithm, md->src, md->dst, p->stride,
                                               p->kernel, p->pad_before, p->pad_after);

    return dnnl_pooling_forward_desc_init(d, p->kind, p->algorithm, md->src, md->dst, p->stride,
                                          p->kernel, p->pad_before, p->pad_after);
}

static dnnl_status_t describe_lrn(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                                  union op_desc *out)
{
    dnnl_lrn_desc_t *d = &out->lrn;
    const struct sw_lrn_shape *c = p->lrn;

    if (p->kind == dnnl_backward_data)
        return dnnl_lrn_backward_desc_init(d, p->algorithm, md->dst, md->src, c->size, c->alpha,
                                           c->beta, c->k);

    return dnnl_lrn_forward_desc_init(d, p->kind, p->algorithm, md->src, c->size, c->alpha, c->beta,
                                      c->k);
}

typedef dnnl_status_t describer(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                                union op_desc *out);
static describer *const describers[SW_DNNL_OPERATIONS] = {
    [SW_DNNL_CONVOLUTION] = describe_convolution,
    [SW_DNNL_INNER_PRODUCT] = describe_inner_product,
    [SW_DNNL_POOLING] = describe_pooling,
    [SW_DNNL_LRN] = describe_lrn,
};

dnnl_status_t sw_dnnl_each_of(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                              sw_dnnl_use *use, void *user)
{
    union op_desc d;
    dnnl_primitive_desc_iterator_t it = NULL;
    bool kept = false;

    dnnl_status_t st = describers[p->operation](p, md, &d);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_iterator_create(&it, &d, p->attr, p->engine, p->forward);

    while (st == dnnl_success && !kept) {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        if (!pd) {
            st = dnnl_out_of_memory;
            break;
        }

        kept = use(user, pd);
        if (!kept) {
            dnnl_primitive_desc_destroy(pd);
            st = dnnl_primitive_desc_iterator_next(it);
        }
    }

    if (it)
        dnnl_primitive_desc_iterator_destroy(it);
    return st;
}
