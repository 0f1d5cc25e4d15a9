/* Gradients that have only the rows that are not zero, and updates that visit only these
 * (kernels/row_list.h). A worker without a list writes all rows, and every kind of exchange moves
 * these; a list is made only where all of this holds, and the result has the bits of an update of
 * all rows:
 *
 *   - the updater leaves an element with a gradient of zero as it is: sgd and adagrad do, but not
 *     with weight decay, and nothing with momentum;
 *   - an update has one gradient, that of one worker with one microbatch, which no other one is
 *     added to;
 *   - nobody sums, scales or measures gradients before the update: no clipping by norm, no loss
 *     scale, no other table, no update on a device. */
#include "exchange/table/table_private.h"

#include "base/os.h"

static bool keeps_other_rows(const struct sw_table *t, const struct sw_param *p)
{
    const struct sw_updater *u = t->args.updater;
    const double decay = t->args.common->weight_decay * (double)p->decay_mult;

    return u->keeps_at_zero && u->keeps_at_zero(t->args.updater_conf) && decay == 0;
}

static bool is_listed(const struct sw_table *t, const struct sw_param *p)
{
    const bool alone = t->first_partial[t->update_group_size] == 1 && p->factors < 0;
    const bool direct = !t->whole_blocks && !t->args.updates_on_device &&
                        !t->args.updates_outside && t->args.remote_groups == 0 &&
                        !sw_table_has_outer(t);

    return p->lists_rows && !p->frozen && alone && direct && keeps_other_rows(t, p);
}

static int make(const struct sw_table *t, struct sw_param *p, struct sw_err *err)
{
    const int64_t rows = p->layout.dim[0];

    p->listed = sw_calloc((size_t)t->update_groups, sizeof *p->listed);
    if (!p->listed)
        return sw_err_nomem(err, p->name, (size_t)t->update_groups * sizeof *p->listed);

    for (int g = 0; g < t->update_groups; g++) {
        struct sw_row_list *l = &p->listed[g];

        *l = (struct sw_row_list){.count = SW_ROW_LIST_ALL,
                                  .row = sw_calloc((size_t)rows, sizeof *l->row),
                                  .place = sw_calloc((size_t)rows, sizeof *l->place),
                                  .rows = rows};
        if (!l->row || !l->place)
            return sw_err_nomem(err, p->name, (size_t)rows * sizeof *l->row);
    }

    return SW_OK;
}

int sw_table_make_row_lists(struct sw_table *t, struct sw_err *err)
{
    for (int i = 0; i < t->param_count; i++) {
        int rc = is_listed(t, &t->params[i]) ? make(t, &t->params[i], err) : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_table_free_row_lists(const struct sw_table *t, struct sw_param *p)
{
    for (int g = 0; p->listed && g < t->update_groups; g++) {
        sw_free(p->listed[g].row);
        sw_free(p->listed[g].place);
    }

    sw_free(p->listed);
}

struct sw_row_list *sw_table_row_list(const struct sw_table *t, int worker, int param)
{
    struct sw_row_list *lists = t->params[param].listed;
    return lists ? &lists[sw_table_update_group(t, worker)] : NULL;
}
