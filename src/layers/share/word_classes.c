/* Classes of words: their number, their parameters, and scores. */
#include "layers/share/word_classes.h"

#include "device/op.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"
#include <math.h>

const char *const sw_word_bins[] = {"frequency", "equal", NULL};
const char *const sw_word_classes_params[] = {"weight_class", "bias_class", "weight", "bias", NULL};

int sw_word_classes_init(struct sw_word_classes *k, const struct sw_word_classes_conf *c,
                         int64_t classes, struct sw_err *err)
{
    if (classes > c->vocabulary)
        return sw_err_set(err, SW_ERR_INVALID, "classes = %lld, but vocabulary = %lld",
                          (long long)classes, (long long)c->vocabulary);

    *k = (struct sw_word_classes){.words = c->vocabulary,
                                  .classes = classes ? classes : lrint(sqrt((double)c->vocabulary)),
                                  .bins = (enum sw_word_bins)c->bins};
    return SW_OK;
}

void sw_word_classes_add_params(const struct sw_word_classes *k, struct sw_layer *l, int64_t width)
{
    const int64_t of_classes[] = {k->classes, width}, of_words[] = {k->words, width};
    const struct sw_desc weight_class = sw_desc_plain(SW_F32, 2, of_classes),
                         bias_class = sw_desc_plain(SW_F32, 1, of_classes),
                         weight = sw_desc_plain(SW_F32, 2, of_words),
                         bias = sw_desc_plain(SW_F32, 1, of_words);

    sw_layer_add_param(l, "weight_class", &weight_class, width, k->classes);
    sw_layer_add_param(l, "bias_class", &bias_class, 0, 0);
    sw_layer_add_param(l, "weight", &weight, width, k->words);
    sw_layer_add_param(l, "bias", &bias, 0, 0);
}

int sw_word_classes_score(const struct sw_layer *l, const struct sw_pass *r, int param,
                          int64_t rows, const float *x, float *score, struct sw_err *err)
{
    const int64_t n = l->param[param].layout.dim[0], width = l->param[param].layout.dim[1];
    const struct sw_gemm_args g = {.trans_b = true,
                                   .m = rows,
                                   .n = n,
                                   .k = width,
                                   .alpha = 1,
                                   .a = x,
                                   .b = l->param[param].value,
                                   .c = score};
    const struct sw_row_args bias = {
        .rows = rows, .columns = n, .row = l->param[param + 1].value, .y = score};

    int rc = sw_op_run(r->stream, &sw_op_gemm, &g, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_add_row, &bias, err);
}
