/* Decides from the shapes of the two sources what scores are compared with: a label per row, a
 * label per step of a sequence, or a row of targets. Steps of a sequence become rows. */
#include "layers/share/class_targets.h"

#include "layers/share/target_loss.h"

static bool is_ignored_given(int64_t ignore_label)
{
    return ignore_label >= INT32_MIN;
}

int sw_class_targets_init(struct sw_class_targets *c, struct sw_layer *l,
                          const struct sw_layer_setup *s, int64_t ignore_label, struct sw_err *err)
{
    const struct sw_desc *first = &l->src[0]->desc, *second = &l->src[1]->desc;
    const bool steps = first->ndim == 3 && second->ndim == 2 && second->dtype == SW_I32 &&
                       first->dim[0] == second->dim[0] && first->dim[1] == second->dim[1];

    c->per_sample = steps ? first->dim[1] : 1;
    c->by_label = steps || (second->ndim == 1 && (second->dtype == SW_I32 || first->ndim > 1));

    int rc = SW_OK;
    if (!steps)
        rc = c->by_label ? sw_layer_need_labels(l, 1, err) : sw_layer_need_same_rows(l, 0, 1, err);
    if (rc != SW_OK)
        return rc;
    if (!c->by_label && is_ignored_given(ignore_label))
        return sw_err_set(err, SW_ERR_INVALID,
                          "ignore_label = %lld: source 2 has targets, not labels",
                          (long long)ignore_label);

    rc = sw_plain_init(&c->scores, l, 0, s, err);
    if (rc != SW_OK)
        return rc;

    if (steps) {
        c->scores.rows *= c->per_sample;
        c->scores.columns /= c->per_sample;
    }

    c->ignores = is_ignored_given(ignore_label);
    c->ignored = c->ignores ? (int32_t)ignore_label : 0;
    if (c->by_label)
        l->labels =
            (struct sw_layer_labels){1, c->scores.columns, c->per_sample, c->ignores, c->ignored};
    return c->by_label ? SW_OK : sw_plain_init(&c->targets, l, 1, s, err);
}

struct sw_desc sw_class_rows(const struct sw_class_targets *c)
{
    const int64_t dim[] = {c->scores.rows / c->per_sample, c->per_sample};
    return sw_desc_plain(SW_F32, c->per_sample > 1 ? 2 : 1, dim);
}

struct sw_labels sw_class_labels(const struct sw_class_targets *c, const struct sw_layer *l)
{
    return (struct sw_labels){.label = c->by_label ? l->src[1]->data : NULL,
                              .ignores = c->ignores,
                              .ignored = c->ignored,
                              .per_sample = c->per_sample};
}

int sw_class_values(const struct sw_class_targets *c, const struct sw_layer *l,
                    const struct sw_pass *r, const float **x, const float **target,
                    struct sw_err *err)
{
    int rc = sw_plain_values(&c->scores, l, r, x, err);

    *target = NULL;
    if (rc != SW_OK)
        return rc;

    return c->by_label ? SW_OK : sw_plain_values(&c->targets, l, r, target, err);
}
