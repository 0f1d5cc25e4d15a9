/* Layouts as oneDNN needs them, and passes with their descriptors. */
#include "device/cpu/dnnl.h"

dnnl_data_type_t sw_dnnl_type(enum sw_dtype t)
{
    static const dnnl_data_type_t types[] = {[SW_F32] = dnnl_f32,
                                             [SW_I32] = dnnl_s32,
                                             [SW_U8] = dnnl_u8,
                                             [SW_BF16] = dnnl_bf16,
                                             [SW_F16] = dnnl_f16};
    return types[t];
}

enum sw_dtype sw_dnnl_type_of(dnnl_data_type_t t)
{
    const enum sw_dtype all[] = {SW_F32, SW_I32, SW_U8, SW_BF16, SW_F16};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (sw_dnnl_type(all[i]) == t)
            return all[i];
    return SW_U8;
}

struct sw_dnnl_layout sw_dnnl_fixed(const struct sw_desc *d)
{
    return (struct sw_dnnl_layout){.desc = *d};
}

struct sw_dnnl_layout sw_dnnl_any(int ndim, const int64_t *dim)
{
    return (struct sw_dnnl_layout){.desc = sw_desc_plain(SW_F32, ndim, dim), .any = true};
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
bool sw_dnnl_weights_from_desc(const struct sw_desc *d, int64_t groups, struct sw_dnnl_layout *out)
{
    if (groups == 1) {
        *out = sw_dnnl_fixed(d);
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
    *out = sw_dnnl_fixed(&wide);

    return true;
}

bool sw_dnnl_weights_to_desc(const sw_dnnl_md *md, int64_t groups, struct sw_desc *d)
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

static dnnl_status_t make_mds(const struct sw_dnnl_pass *pass, struct sw_dnnl_mds *md)
{
    const struct sw_dnnl_layout *layouts[] = {&pass->src, &pass->weight, &pass->bias, &pass->dst};
    sw_dnnl_md **out[] = {&md->src, &md->weight, &md->bias, &md->dst};

    for (int i = 0; i < 4; i++) {
        dnnl_status_t st = sw_dnnl_md_new(layouts[i], out[i]);
        if (st != dnnl_success)
            return st;
    }

    return dnnl_success;
}

static void free_mds(struct sw_dnnl_mds *md)
{
    sw_dnnl_md_free(md->src);
    sw_dnnl_md_free(md->weight);
    sw_dnnl_md_free(md->bias);
    sw_dnnl_md_free(md->dst);
}

dnnl_status_t sw_dnnl_each(const struct sw_dnnl_pass *pass, sw_dnnl_use *use, void *user)
{
    struct sw_dnnl_mds md = {0};

    dnnl_status_t st = make_mds(pass, &md);
    if (st == dnnl_success)
        st = sw_dnnl_each_of(pass, &md, use, user);
    free_mds(&md);

    return st;
}

static bool keep(void *user, dnnl_primitive_desc_t pd)
{
    *(dnnl_primitive_desc_t *)user = pd;
    return true;
}

dnnl_status_t sw_dnnl_first(const struct sw_dnnl_pass *pass, dnnl_primitive_desc_t *out)
{
    return sw_dnnl_each(pass, keep, out);
}

dnnl_status_t sw_dnnl_reorder(const struct sw_dnnl_pass *pass, dnnl_primitive_desc_t *out)
{
    struct sw_dnnl_mds md = {0};

    dnnl_status_t st = make_mds(pass, &md);
    if (st == dnnl_success)
        st = dnnl_reorder_primitive_desc_create(out, md.src, pass->engine, md.dst, pass->engine,
                                                NULL);
    free_mds(&md);

    return st;
}
