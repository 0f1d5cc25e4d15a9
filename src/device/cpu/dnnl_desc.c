/* Converts layout descriptors between our form and oneDNN's; both are strided arrays of inner
 * blocks. */
#include "device/cpu/dnnl.h"

#include <string.h>

static dnnl_data_type_t dtype_to(enum sw_dtype t)
{
    static const dnnl_data_type_t types[] = {[SW_F32] = dnnl_f32,
                                             [SW_I32] = dnnl_s32,
                                             [SW_U8] = dnnl_u8,
                                             [SW_BF16] = dnnl_bf16,
                                             [SW_F16] = dnnl_f16};
    return types[t];
}

void sw_dnnl_from_desc(const struct sw_desc *d, dnnl_memory_desc_t *md)
{
    memset(md, 0, sizeof *md);
    md->ndims = d->ndim;
    md->data_type = dtype_to(d->dtype);
    md->format_kind = dnnl_blocked;

    dnnl_blocking_desc_t *b = &md->format_desc.blocking;
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

static enum sw_dtype dtype_of(dnnl_data_type_t t)
{
    enum sw_dtype all[] = {SW_F32, SW_I32, SW_U8, SW_BF16, SW_F16};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (dtype_to(all[i]) == t)
            return all[i];
    return SW_U8;
}

bool sw_dnnl_to_desc(const dnnl_memory_desc_t *md, struct sw_desc *d)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    if (md->format_kind != dnnl_blocked || md->ndims > SW_MAX_DIMS || md->offset0 != 0 ||
        md->extra.flags != dnnl_memory_extra_flag_none || b->inner_nblks > SW_MAX_BLOCKS)
        return false;

    memset(d, 0, sizeof *d);
    d->dtype = dtype_of(md->data_type);

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

static int64_t blocks_of(const struct sw_desc *d, int dim)
{
    int64_t n = 1;

    for (int i = 0; i < d->nblock; i++)
        if (d->block_dim[i] == dim)
            n *= d->block[i];

    return n;
}

/* Dimension 0 = group * (M/g) + output: one stride describes both if a group consists of whole
 * blocks.
 */
bool sw_dnnl_weights_from_desc(const struct sw_desc *d, int64_t groups, dnnl_memory_desc_t *md)
{
    if (groups == 1) {
        sw_dnnl_from_desc(d, md);
        return true;
    }

    struct sw_desc wide = *d;
    int64_t per_group = d->dim[0] / groups;
    int64_t block = blocks_of(d, 0);
    if (d->ndim >= SW_MAX_DIMS || (block > 1 && per_group % block != 0))
        return false;

    wide.ndim = d->ndim + 1;
    for (int i = d->ndim; i > 1; i--) {
        wide.dim[i] = d->dim[i - 1];
        wide.padded[i] = d->padded[i - 1];
        wide.stride[i] = d->stride[i - 1];
    }

    wide.dim[0] = wide.padded[0] = groups;
    wide.dim[1] = wide.padded[1] = per_group;
    wide.stride[1] = d->stride[0];
    wide.stride[0] = per_group / block * d->stride[0];
    for (int i = 0; i < d->nblock; i++)
        wide.block_dim[i] = d->block_dim[i] + 1;
    sw_dnnl_from_desc(&wide, md);

    return true;
}

bool sw_dnnl_weights_to_desc(const dnnl_memory_desc_t *md, int64_t groups, struct sw_desc *d)
{
    struct sw_desc wide;
    if (!sw_dnnl_to_desc(md, &wide))
        return false;
    if (groups == 1) {
        *d = wide;
        return true;
    }

    bool padded = wide.padded[0] != wide.dim[0] || wide.padded[1] != wide.dim[1];
    if (padded || blocks_of(&wide, 0) != 1 ||
        wide.stride[0] != wide.dim[1] / blocks_of(&wide, 1) * wide.stride[1])
        return false;

    *d = wide;

    d->ndim = wide.ndim - 1;
    for (int i = 0; i < d->ndim; i++) {
        d->dim[i] = wide.dim[i + 1];
        d->padded[i] = wide.padded[i + 1];
        d->stride[i] = wide.stride[i + 1];
    }

    d->dim[0] = d->padded[0] = groups * wide.dim[1];
    d->dim[d->ndim] = d->padded[d->ndim] = d->stride[d->ndim] = 0;
    for (int i = 0; i < d->nblock; i++)
        d->block_dim[i] = wide.block_dim[i] - 1;

    return true;
}

void sw_dnnl_any(int ndims, const int64_t *dims, dnnl_memory_desc_t *md)
{
    dnnl_dims_t d = {0};

    memcpy(d, dims, (size_t)ndims * sizeof *dims);
    /* Fails only on bad arguments; shapes were checked. */
    if (dnnl_memory_desc_init_by_tag(md, ndims, d, dnnl_f32, dnnl_format_tag_any) != dnnl_success)
        memset(md, 0, sizeof *md);
}
