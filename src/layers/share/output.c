/* Helpers of output layers. Their forward computes nothing; the trainer calls their rows() during
 * an evaluation (worker/outputs.c). */
#include "layers/share/output.h"

#include "base/str.h"

char *sw_output_path(const char *folder, const char *path)
{
    return folder && path[0] != '/' ? sw_format("%s/%s", folder, path) : sw_format("%s", path);
}

int64_t sw_output_columns(const struct sw_layer *l, int k)
{
    return sw_desc_features(&l->src[k]->desc);
}

void sw_output_finish_setup(struct sw_layer *l)
{
    l->dst.desc = sw_desc_plain(SW_F32, 1, l->src[0]->desc.dim);
}

int sw_output_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    return SW_OK;
}
