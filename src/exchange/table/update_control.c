/* Update control in two phases, where all gradients are needed before any parameter is updated:
 * clipping by norm, norms that an updater needs, dropping an update that is not finite. Each update
 * group decides about its own updates. First every slice is summed and measured as its gradients
 * arrive (apply.c), and nothing changes. The thread that completes the last slice, or reports the
 * last verdict, decides for the whole update group and tells every server (push.c), which then
 * applies or drops the update; without servers it does so itself (hogwild.c). Values are measured
 * when the slice is complete, because other update groups may change them before they are updated.
 * Gradients that are multiplied by a loss scale (optim/loss_scale.h) are divided by it here:
 * d.scale is the remaining factor. No phase waits: missing contributions are counted. Sums of
 * squares are added in the order of parameters and blocks, so all results that follow from a norm
 * have the same bits for any number of servers. */
#include "exchange/table/table_private.h"

#include "base/os.h"
#include "base/str.h"
#include <math.h>

bool sw_table_has_phases(const struct sw_table *t)
{
    return t->two_phases;
}

bool sw_table_is_controlled_on_device(const struct sw_table *t)
{
    return t->two_phases && t->args.updates_on_device;
}

/* The number of contributions to a decision. */
static int contributions_needed(const struct sw_table *t)
{
    return t->slice_count + (t->args.bad != SW_BAD_STOPS ? t->update_group_size : 0);
}

static int make_phases(const struct sw_table *t, struct sw_phases *ph, int64_t blocks,
                       struct sw_err *err)
{
    size_t bytes = (size_t)(blocks + 1) * sizeof *ph->squares;
    size_t sums = (size_t)(t->param_count + 1) * sizeof *ph->sums;
    bool norms = t->args.updater->needs_norms;

    ph->squares = sw_calloc(1, bytes);
    ph->value_squares = norms ? sw_calloc(1, bytes) : NULL;
    ph->norms = norms ? sw_calloc((size_t)t->param_count + 1, sizeof *ph->norms) : NULL;

    ph->sums = sw_calloc(1, sums);
    if (!ph->squares || !ph->sums || (norms && (!ph->value_squares || !ph->norms)))
        return sw_err_nomem(err, "norms of gradients", bytes + sums);

    ph->missing = contributions_needed(t);
    ph->version = 1;
    ph->scale.value = t->args.loss_scale;

    return SW_OK;
}

int sw_table_make_phases(struct sw_table *t, struct sw_err *err)
{
    int64_t blocks = 0;

    t->nonfinite_param = -1;
    if (!t->two_phases)
        return SW_OK;
    t->phases = sw_calloc((size_t)t->update_groups, sizeof *t->phases);
    if (!t->phases)
        return sw_err_nomem(err, "norms of gradients",
                            (size_t)t->update_groups * sizeof *t->phases);

    for (int i = 0; i < t->slice_count && !t->args.updates_on_device; i++) {
        t->slices[i].first_block = blocks;
        blocks += sw_norm_blocks(t->slices[i].count);
    }

    for (int r = 0; r < t->update_groups; r++) {
        int rc = make_phases(t, &t->phases[r], blocks, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_table_free_phases(struct sw_table *t)
{
    for (int r = 0; t->phases && r < t->update_groups; r++) {
        sw_free(t->phases[r].squares);
        sw_free(t->phases[r].value_squares);
        sw_free(t->phases[r].norms);
        sw_free(t->phases[r].sums);
    }

    sw_free(t->phases);
}

/* ---- The decision ---- */

/* Slices end at block boundaries, so the blocks of a parameter are contiguous and the same for
 * every partition into slices. */
static double sum_of(const struct sw_table *t, const double *squares, const struct sw_param *p)
{
    int64_t blocks = 0;
    for (int i = p->first_slice; i < p->first_slice + p->slice_count; i++)
        blocks += sw_norm_blocks(t->slices[i].count);
    return blocks ? sw_norm_total(squares + t->slices[p->first_slice].first_block, blocks) : 0;
}

/* Computes the norms; parts of one parameter share one. */
static void distribute_norms(const struct sw_table *t, struct sw_phases *ph, float scale)
{
    for (int i = 0; i < t->param_count; i++) {
        const struct sw_param *p = &t->params[i];
        double value = 0, gradient = 0;

        for (int k = 0; k < t->param_count; k++) {
            const struct sw_param *part = &t->params[k];
            if (k != i && !(p->part_whole && sw_str_eq(part->name, p->name)))
                continue;

            value += sum_of(t, ph->value_squares, part);
            gradient += sum_of(t, ph->squares, part);
        }

        ph->norms[i] = (struct sw_norms){sqrt(value), sqrt(gradient) * (double)scale};
    }
}

/* Converts the result to the table's form. */
static struct sw_table_control control_of(const struct sw_phases *ph, uint64_t version,
                                          const struct sw_update_control_result *d)
{
    bool bad = d->bad_param >= 0;

    return (struct sw_table_control){.version = version,
                                     .grad_norm = d->grad_norm,
                                     .scale = d->scale,
                                     .loss_scale = d->loss_scale,
                                     .dropped = d->dropped,
                                     .overflow =
                                         bad && !d->vetoed && sw_loss_scale_can_halve(&ph->scale),
                                     .bad_param = d->bad_param};
}

static struct sw_table_control make_control(const struct sw_table *t, struct sw_phases *ph)
{
    struct sw_update_control_input known = {.loss_scale = sw_loss_scale_factor(&ph->scale),
                                            .vetoes = ph->vetoes};

    for (int p = 0; p < t->param_count; p++)
        ph->sums[p] = sum_of(t, ph->squares, &t->params[p]);

    struct sw_update_control_result all =
        sw_update_control(ph->sums, t->param_count, known, t->args.clip_norm);
    struct sw_table_control d = control_of(ph, ph->version, &all);
    if (ph->value_squares && !d.dropped)
        distribute_norms(t, ph, d.scale);

    return d;
}

/* Adjusts the loss scale for the next update, counts drops, and stores the result for all readers.
 */
static void store_result(struct sw_table *t, struct sw_phases *ph, struct sw_table_control *d)
{
    if (d->overflow)
        sw_loss_scale_halve(&ph->scale);
    else if (!d->dropped)
        sw_loss_scale_made(&ph->scale, t->args.loss_scale_every);

    d->dropped_so_far = __atomic_add_fetch(&t->dropped, d->dropped, __ATOMIC_RELAXED);
    ph->ring[d->version % SW_UPDATE_CONTROLS] = *d;
}

int sw_table_settle(struct sw_table *t, const struct sw_update_control_result *control,
                    uint64_t version, struct sw_err *err)
{
    struct sw_phases *ph = &t->phases[0];
    int rc = SW_OK;

    sw_mutex_lock(&t->lock);

    if (ph->version == version) {
        struct sw_table_control d = control_of(ph, version, control);
        store_result(t, ph, &d);
        __atomic_store_n(&ph->version, version + 1, __ATOMIC_RELEASE);
    }

    bool stops = t->args.bad == SW_BAD_STOPS && ph->ring[version % SW_UPDATE_CONTROLS].dropped &&
                 !ph->ring[version % SW_UPDATE_CONTROLS].overflow;
    if (ph->version <= version)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "update control for update %llu, but the next update is %llu",
                        (unsigned long long)version, (unsigned long long)ph->version);
    else if (stops)
        rc = sw_table_report_nonfinite(t, control->bad_param, version, err);

    sw_mutex_unlock(&t->lock);
    return rc;
}

int sw_table_complete(struct sw_table *t, int group, int count, struct sw_err *err)
{
    struct sw_phases *ph = &t->phases[group];
    /* Releases the measurements; the thread that brings the count to 0 acquires those of all
     * others. */
    if (count == 0 || __atomic_sub_fetch(&ph->missing, count, __ATOMIC_ACQ_REL) != 0)
        return SW_OK;

    struct sw_table_control d = make_control(t, ph);
    ph->vetoes = 0;
    store_result(t, ph, &d);
    __atomic_store_n(&ph->missing, contributions_needed(t), __ATOMIC_RELAXED);

    /* Releases the result to sw_table_control, which acquires it. */
    __atomic_store_n(&ph->version, d.version + 1, __ATOMIC_RELEASE);
    return t->args.rule->apply(t, group, &d, err);
}

int sw_table_report_loss(struct sw_table *t, int worker, bool fine, struct sw_err *err)
{
    int group = sw_table_update_group(t, worker);

    if (!t->phases || t->args.bad == SW_BAD_STOPS)
        return SW_OK;

    if (!fine)
        __atomic_add_fetch(&t->phases[group].vetoes, 1, __ATOMIC_RELAXED);
    return sw_table_complete(t, group, 1, err);
}

/* ---- Results ---- */

bool sw_table_control(const struct sw_table *t, int group, uint64_t version,
                      struct sw_table_control *out)
{
    const struct sw_phases *ph = &t->phases[group];
    if (!t->phases)
        return false;

    uint64_t coming = __atomic_load_n(&ph->version, __ATOMIC_ACQUIRE);
    if (version >= coming || version + SW_UPDATE_CONTROLS <= coming)
        return false;

    *out = ph->ring[version % SW_UPDATE_CONTROLS];
    return out->version == version;
}

bool sw_table_scales(const struct sw_table *t)
{
    return t->args.loss_scale > 0;
}

double sw_table_loss_scale(const struct sw_table *t, int group)
{
    return t->phases ? sw_loss_scale_factor(&t->phases[group].scale) : 1;
}

struct sw_loss_scale sw_table_scale(const struct sw_table *t, int group)
{
    return t->phases ? t->phases[group].scale : (struct sw_loss_scale){0};
}

void sw_table_put_scale(struct sw_table *t, int group, struct sw_loss_scale scale)
{
    if (t->phases && t->args.loss_scale > 0)
        t->phases[group].scale = scale;
}
