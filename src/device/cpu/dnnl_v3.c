/* What differs by version, for oneDNN 3: its descriptors of layouts are opaque, and a pass is
 * created with its first implementation. device/cpu/dnnl.h declares the functions. */
#include "device/cpu/dnnl.h"

#include <string.h>

/* An array that oneDNN holds for md. */
static const dnnl_dim_t *numbers_of(const sw_dnnl_md *md, dnnl_query_t what)
{
    static const dnnl_dims_t none;
    const dnnl_dims_t *numbers = NULL;

    return dnnl_memory_desc_query(md, what, (void *)&numbers) == dnnl_success ? *numbers : none;
}

static int number_of(const sw_dnnl_md *md, dnnl_query_t what)
{
    int number = 0;

    return dnnl_memory_desc_query(md, what, &number) == dnnl_success ? number : 0;
}

/* Whether md is blocked as sw_desc can express it; stores that in *d. */
static bool read_blocked(const sw_dnnl_md *md, struct sw_desc *d)
{
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_data_type_t type = dnnl_data_type_undef;
    int ndim = number_of(md, dnnl_query_ndims_s32);

    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_data_type, &type) != dnnl_success ||
        kind != dnnl_blocked || ndim > SW_MAX_DIMS)
        return false;

    int nblock = number_of(md, dnnl_query_inner_nblks_s32);
    if (nblock > SW_MAX_BLOCKS)
        return false;

    const dnnl_dim_t *dims = numbers_of(md, dnnl_query_dims);
    const dnnl_dim_t *padded = numbers_of(md, dnnl_query_padded_dims);
    const dnnl_dim_t *strides = numbers_of(md, dnnl_query_strides);
    const dnnl_dim_t *blocks = numbers_of(md, dnnl_query_inner_blks);
    const dnnl_dim_t *block_dims = numbers_of(md, dnnl_query_inner_idxs);

    memset(d, 0, sizeof *d);
    d->dtype = sw_dnnl_type_of(type);

    d->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        d->dim[i] = dims[i];
        d->padded[i] = padded[i];
        d->stride[i] = strides[i];
    }

    d->nblock = nblock;
    for (int i = 0; i < nblock; i++) {
        d->block[i] = (int)blocks[i];
        d->block_dim[i] = (int)block_dims[i];
    }

    return true;
}

/* Whether the storage is described by the same numbers. sw_desc_equal takes nChw16c of 16 channels
 * for nhwc, but oneDNN has other code for it. */
static bool is_same(const struct sw_desc *a, const struct sw_desc *b)
{
    size_t dims = (size_t)a->ndim * sizeof *a->dim, blocks = (size_t)a->nblock * sizeof *a->block;

    return a->ndim == b->ndim && a->nblock == b->nblock && !memcmp(a->padded, b->padded, dims) &&
           !memcmp(a->stride, b->stride, dims) && !memcmp(a->block, b->block, blocks) &&
           !memcmp(a->block_dim, b->block_dim, blocks);
}

/* Creates the descriptor of a format; NULL if that is not the one of d. The format has `more`
 * dimensions of 1 at its end, which are taken away. */
static dnnl_status_t try_format(const struct sw_desc *d, int more, dnnl_format_tag_t tag,
                                sw_dnnl_md **out)
{
    sw_dnnl_md *md = NULL;
    dnnl_dims_t dims = {0};
    struct sw_desc found;

    for (int i = 0; i < d->ndim + more; i++)
        dims[i] = i < d->ndim ? d->dim[i] : 1;

    dnnl_status_t st =
        dnnl_memory_desc_create_with_tag(&md, d->ndim + more, dims, sw_dnnl_type(d->dtype), tag);
    if (st == dnnl_success && more > 0) {
        sw_dnnl_md *wide = md;
        md = NULL;
        st = dnnl_memory_desc_reshape(&md, wide, d->ndim, dims);
        dnnl_memory_desc_destroy(wide);
    }

    if (st != dnnl_success)
        return st == dnnl_out_of_memory ? st : dnnl_success;

    if (read_blocked(md, &found) && is_same(&found, d))
        *out = md;
    else
        dnnl_memory_desc_destroy(md);
    return dnnl_success;
}

/* Inner blocks are given to oneDNN only by the name of a format, so this tries all names. There are
 * few for two dimensions: [N, C] in blocks of 8 is found as nCw8c with a width of 1. */
static dnnl_status_t find_format(const struct sw_desc *d, sw_dnnl_md **out)
{
    for (int more = 0; more < 2; more++) {
        for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++) {
            dnnl_status_t st = try_format(d, more, (dnnl_format_tag_t)tag, out);
            if (st != dnnl_success || *out)
                return st;
        }
    }

    return dnnl_unimplemented;
}

dnnl_status_t sw_dnnl_md_new(const struct sw_dnnl_layout *layout, sw_dnnl_md **out)
{
    const struct sw_desc *d = &layout->desc;
    dnnl_dims_t dims = {0}, strides = {0};

    *out = NULL;
    if (sw_dnnl_is_empty(layout))
        return dnnl_success;
    if (layout->chosen)
        return dnnl_memory_desc_clone(out, layout->chosen);

    memcpy(dims, d->dim, (size_t)d->ndim * sizeof *dims);
    memcpy(strides, d->stride, (size_t)d->ndim * sizeof *strides);
    if (layout->any)
        return dnnl_memory_desc_create_with_tag(out, d->ndim, dims, sw_dnnl_type(d->dtype),
                                                dnnl_format_tag_any);
    if (d->nblock == 0)
        return dnnl_memory_desc_create_with_strides(out, d->ndim, dims, sw_dnnl_type(d->dtype),
                                                    strides);
    return find_format(d, out);
}

void sw_dnnl_md_free(sw_dnnl_md *md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

/* The layout has to be found again from ours, without the rest of md that queries do not tell. */
bool sw_dnnl_to_desc(const sw_dnnl_md *md, struct sw_desc *d)
{
    sw_dnnl_md *again = NULL;
    if (!read_blocked(md, d))
        return false;

    const struct sw_dnnl_layout layout = sw_dnnl_fixed(d);
    bool same =
        sw_dnnl_md_new(&layout, &again) == dnnl_success && dnnl_memory_desc_equal(again, md);
    sw_dnnl_md_free(again);

    return same;
}

dnnl_status_t sw_dnnl_append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_relu, 0.0f, 0.0f);
}

static dnnl_status_t create_convolution(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                                        dnnl_primitive_desc_t *out)
{
    switch ((int)p->kind) {
    case dnnl_backward_data:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, p->engine, p->algorithm, md->src, md->weight, md->dst, p->stride, p->dilation,
            p->pad_before, p->pad_after, p->forward, p->attr);
    case dnnl_backward_weights:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, p->engine, p->algorithm, md->src, md->weight, md->bias, md->dst, p->stride,
            p->dilation, p->pad_before, p->pad_after, p->forward, p->attr);
    default:
        return dnnl_convolution_forward_primitive_desc_create(
            out, p->engine, p->kind, p->algorithm, md->src, md->weight, md->bias, md->dst,
            p->stride, p->dilation, p->pad_before, p->pad_after, p->attr);
    }
}

static dnnl_status_t create_inner_product(const struct sw_dnnl_pass *p,
                                          const struct sw_dnnl_mds *md, dnnl_primitive_desc_t *out)
{
    switch ((int)p->kind) {
    case dnnl_backward_data:
        return dnnl_inner_product_backward_data_primitive_desc_create(
            out, p->engine, md->src, md->weight, md->dst, p->forward, p->attr);
    case dnnl_backward_weights:
        return dnnl_inner_product_backward_weights_primitive_desc_create(
            out, p->engine, md->src, md->weight, md->bias, md->dst, p->forward, p->attr);
    default:
        return dnnl_inner_product_forward_primitive_desc_create(
            out, p->engine, p->kind, md->src, md->weight, md->bias, md->dst, p->attr);
    }
}

static dnnl_status_t create_pooling(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                                    dnnl_primitive_desc_t *out)
{
    if (p->kind == dnnl_backward_data)
        return dnnl_pooling_backward_primitive_desc_create(
            out, p->engine, p->algorithm, md->src, md->dst, p->stride, p->kernel, p->dilation,
            p->pad_before, p->pad_after, p->forward, p->attr);

    return dnnl_pooling_forward_primitive_desc_create(
        out, p->engine, p->kind, p->algorithm, md->src, md->dst, p->stride, p->kernel, p->dilation,
        p->pad_before, p->pad_after, p->attr);
}

/* The gradients have the layouts of the image and of the result. */
static dnnl_status_t create_lrn(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                                dnnl_primitive_desc_t *out)
{
    const struct sw_lrn_shape *c = p->lrn;

    if (p->kind == dnnl_backward_data)
        return dnnl_lrn_backward_primitive_desc_create(out, p->engine, p->algorithm, md->src,
                                                       md->dst, md->src, c->size, c->alpha, c->beta,
                                                       c->k, p->forward, p->attr);

    return dnnl_lrn_forward_primitive_desc_create(out, p->engine, p->kind, p->algorithm, md->src,
                                                  md->dst, c->size, c->alpha, c->beta, c->k,
                                                  p->attr);
}

typedef dnnl_status_t creator(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                              dnnl_primitive_desc_t *out);
static creator *const creators[SW_DNNL_OPERATIONS] = {
    [SW_DNNL_CONVOLUTION] = create_convolution,
    [SW_DNNL_INNER_PRODUCT] = create_inner_product,
    [SW_DNNL_POOLING] = create_pooling,
    [SW_DNNL_LRN] = create_lrn,
};

dnnl_status_t sw_dnnl_each_of(const struct sw_dnnl_pass *p, const struct sw_dnnl_mds *md,
                              sw_dnnl_use *use, void *user)
{
    dnnl_primitive_desc_t pd = NULL;

    dnnl_status_t st = creators[p->operation](p, md, &pd);
    while (st == dnnl_success && !use(user, pd))
        st = dnnl_primitive_desc_next_impl(pd);
    if (st != dnnl_success && pd)
        dnnl_primitive_desc_destroy(pd);

    return st;
}
