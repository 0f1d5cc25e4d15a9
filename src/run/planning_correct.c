/* Times of layers in a planner's model, corrected by what a run measured. */
#include "base/os.h"
#include "run/planning_private.h"
#include <math.h>

/* Do samples of the layer tell the times of this configuration? On devices with their own memory
 * those of any number of workers do. */
static bool is_of(const struct sw_layer_sample *s, const struct sw_planning_correction *c)
{
    return s->threads == c->threads && (s->workers == c->workers || c->threads == 0);
}

/* Adds a sample with the times that were predicted, where none is of this configuration. */
static int ensure(struct sw_net_model *m, int i, const struct sw_planning_correction *c,
                  struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);
    struct sw_layer_model *l = &p->layer[i];

    for (int k = 0; k < l->sample_count; k++)
        if (is_of(&l->samples[k], c))
            return SW_OK;

    struct sw_layer_sample *s =
        sw_array_add(&p->own[i].samples, &l->sample_count, sizeof *l->samples);
    if (!s)
        return sw_err_nomem(err, "times of layers", sizeof *s);

    l->samples = p->own[i].samples;
    *s = c->predicted[i];
    return SW_OK;
}

int sw_planning_correct(struct sw_net_model *m, const struct sw_planning_correction *c,
                        struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);
    bool first = true;

    for (int i = 0; i < m->count; i++) {
        int rc = ensure(m, i, c, err);
        if (rc != SW_OK)
            return rc;

        const bool is_input = m->layer[i].is_input;
        for (int k = 0; k < m->layer[i].sample_count; k++) {
            struct sw_layer_sample *s = &p->own[i].samples[k];
            if (!is_of(s, c))
                continue;

            s->forward_s = is_input ? (first ? c->rest_s : 0) : s->forward_s * c->compute;
            s->backward_s *= c->compute;
            s->update_s = (s->update_s > 0 ? s->update_s : c->predicted[i].update_s) * c->params;
        }
        first = first && !is_input;
    }

    return SW_OK;
}
