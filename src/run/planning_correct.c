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

/* What a step takes beside its layers changes for all kinds of steps. */
static int correct_rest(struct sw_net_model *m, const struct sw_planning_correction *c,
                        struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);
    int found = 0;

    for (int i = 0; i < m->rest_count; i++) {
        struct sw_rest_sample *r = &p->rest[i];
        if (r->threads != c->threads || (r->workers != c->workers && c->threads > 0))
            continue;

        r->seconds = fmax(r->seconds + c->rest_s, 0);
        found++;
    }

    if (found > 0)
        return SW_OK;

    struct sw_rest_sample *r = sw_array_add(&p->rest, &m->rest_count, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "times of steps", sizeof *r);

    m->rest = p->rest;
    *r = (struct sw_rest_sample){.workers = c->workers,
                                 .threads = c->threads,
                                 .kind = SW_STEP_GRADIENTS,
                                 .seconds = fmax(c->predicted_rest_s + c->rest_s, 0)};
    return SW_OK;
}

int sw_planning_correct(struct sw_net_model *m, const struct sw_planning_correction *c,
                        struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);

    for (int i = 0; i < m->count; i++) {
        int rc = ensure(m, i, c, err);
        if (rc != SW_OK)
            return rc;

        for (int k = 0; k < m->layer[i].sample_count; k++) {
            struct sw_layer_sample *s = &p->own[i].samples[k];
            if (!is_of(s, c))
                continue;

            s->forward_s *= c->compute;
            s->backward_s *= c->compute;
            s->update_s = (s->update_s > 0 ? s->update_s : c->predicted[i].update_s) * c->params;
        }
    }

    return correct_rest(m, c, err);
}
