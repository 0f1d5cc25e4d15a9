/* Creating and freeing a table: its partial sums, and the parameters that are added. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

#include "base/os.h"
#include "base/str.h"

/* Groups every worker's leaves into tree nodes that are as large as possible. */
static int make_partials(struct sw_table *t, struct sw_err *err)
{
    int workers = t->args.workers, partials = 0;

    t->first_partial = sw_calloc((size_t)workers + 1, sizeof *t->first_partial);
    t->partial_end = sw_calloc((size_t)t->leaves, sizeof *t->partial_end);
    if (!t->first_partial || !t->partial_end)
        return sw_err_nomem(err, "the parameter table", (size_t)workers * sizeof *t->first_partial);

    for (int w = 0; w < workers; w++) {
        int at, count;

        sw_table_leaves(t, w, &at, &count);

        t->first_partial[w] = partials;
        for (int end = at + count; at < end; partials++) {
            at = sw_tree_node_end(t->leaves, at, end);
            if (w < t->update_group_size)
                t->partial_end[partials] = at;
        }
    }

    t->first_partial[workers] = partials;
    return SW_OK;
}

/* Sums over tables are of one update group; updates that are made in another table need the rule
 * for several of them. */
static int check_outer(const struct sw_table_args *args, struct sw_err *err)
{
    bool splits = args->remote_groups > 0 || args->updates_outside;
    bool asynchronous =
        (args->rule && (args->rule->is_async || args->rule->races)) || args->others > 0;

    if (args->remote_groups > 0 && (!args->outer.answer || args->outer.give))
        return sw_err_set(err, SW_ERR_INVALID, "%d remote update groups without answers",
                          args->remote_groups);
    if (args->updates_outside && !args->outer.give)
        return sw_err_set(err, SW_ERR_INVALID, "updates outside that get no gradients");
    if (splits && (args->rule != &sw_table_async || args->others > 0 || args->updates_on_device ||
                   args->bad != SW_BAD_STOPS || args->loss_scale > 0))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "update groups whose values are in another table need asynchronous "
                          "updates from servers of one server group, gradients without a loss "
                          "scale, and cannot drop an update that is not finite");
    if (!splits && args->outer.give && (asynchronous || args->bad != SW_BAD_STOPS))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "sums over several tables need synchronous updates, and cannot drop an "
                          "update that is not finite");

    return SW_OK;
}

/* How the workers make update groups. */
static void set_groups(struct sw_table *t)
{
    if (t->args.groups < 1)
        t->args.groups = 1;
    t->local_groups = t->args.rule->is_async ? t->args.groups : 1;
    t->update_groups = t->local_groups + t->args.remote_groups;
    t->update_group_size = t->args.workers / t->local_groups;
    t->group_workers = t->args.workers / t->args.groups;
    t->senders = t->args.workers + t->args.remote_groups;
    t->leaves = t->args.leaves > 0 ? t->args.leaves : t->update_group_size;
}

int sw_table_new(const struct sw_table_args *args, struct sw_table **out, struct sw_err *err)
{
    if (args->workers > SW_TREE_LEAVES || args->leaves > SW_TREE_LEAVES)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%d workers and %d microbatches: at most %d gradients can be summed in one update",
            args->workers, args->leaves, SW_TREE_LEAVES);

    int rc = check_outer(args, err);
    if (rc != SW_OK)
        return rc;

    struct sw_table *t = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, "the parameter table", sizeof *t);

    t->args = *args;
    if (!t->args.rule)
        t->args.rule = &sw_table_bsp;
    set_groups(t);
    t->whole_blocks = args->two_phases || args->loss_scale > 0 || args->clip_norm > 0 ||
                      args->bad != SW_BAD_STOPS || args->updater->needs_norms;
    t->two_phases = t->whole_blocks && !args->updates_outside;
    sw_mutex_init(&t->lock);
    sw_cond_init(&t->changed);
    t->slots = args->updates_outside ? 0 : sw_updater_slots(args->updater, args->updater_conf);
    t->servers = sw_calloc((size_t)args->servers, sizeof *t->servers);
    t->lost = sw_calloc((size_t)t->update_groups, sizeof *t->lost);

    rc = t->servers && t->lost
             ? SW_OK
             : sw_err_nomem(err, "the parameter table", (size_t)args->servers * sizeof *t->servers);
    if (rc != SW_OK)
        goto out;
    rc = make_partials(t, err);
    if (rc != SW_OK)
        goto out;

    *out = t;
    return SW_OK;

out:
    sw_table_free(t);
    return rc;
}

static void fini_server(struct sw_server_state *s)
{
    if (s->inbox_open)
        sw_queue_fini(&s->inbox);
    sw_free(s->slices);
    sw_free(s->first);
    sw_free(s->contributed);
    sw_free(s->turns);
    sw_free(s->early);
}

void sw_table_free(struct sw_table *t)
{
    if (!t)
        return;

    for (int i = 0; i < t->param_count; i++) {
        sw_table_free_row_lists(t, &t->params[i]);
        sw_free(t->params[i].name);
        sw_free(t->params[i].gradient);
        sw_free(t->params[i].view);
    }

    for (int i = 0; t->servers && i < t->args.servers; i++)
        fini_server(&t->servers[i]);
    sw_device_free(t->args.device, t->values, t->value_bytes);
    sw_device_free(t->args.device, t->state, t->state_bytes);
    sw_table_free_phases(t);
    sw_factor_free(t);
    sw_cond_fini(&t->changed);
    sw_mutex_fini(&t->lock);
    sw_free(t->first_partial);
    sw_free(t->partial_end);
    sw_free(t->lost);
    sw_free(t->servers);
    sw_free(t->params);
    sw_free(t->slices);
    sw_free(t);
}

static int grow_params(struct sw_table *t, struct sw_err *err)
{
    if (t->param_count < t->param_capacity)
        return SW_OK;

    int capacity = t->param_capacity ? 2 * t->param_capacity : 16;
    struct sw_param *p = sw_realloc_array(t->params, (size_t)capacity, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "the parameter table", (size_t)capacity * sizeof *p);

    t->params = p;
    t->param_capacity = capacity;
    return SW_OK;
}

int sw_table_add(struct sw_table *t, const struct sw_param_spec *spec, int *index,
                 struct sw_err *err)
{
    if (sw_table_find(t, spec->name, spec->part_first) >= 0)
        return sw_err_set(err, SW_ERR_INVALID, "parameter %s already exists", spec->name);

    int rc = grow_params(t, err);
    if (rc != SW_OK)
        return rc;

    struct sw_param *p = &t->params[t->param_count];
    *p = (struct sw_param){.layout = spec->layout,
                           .fan_in = spec->fan_in,
                           .fan_out = spec->fan_out,
                           .owner = spec->owner,
                           .part_first = spec->part_first,
                           .part_whole = spec->part_whole,
                           .part_dim = spec->part_dim,
                           .init = spec->init,
                           .factors = spec->factors - 1,
                           .frozen = spec->frozen,
                           .lists_rows = spec->lists_rows,
                           .lr_mult = (float)spec->lr_mult,
                           .decay_mult = (float)spec->decay_mult};
    if (!p->frozen)
        p->contributors = t->update_group_size / (p->owner < 0 ? 1 : t->group_workers);
    p->name = sw_strdup(spec->name);
    p->gradient = sw_calloc((size_t)t->first_partial[t->args.workers], sizeof *p->gradient);

    p->view = sw_calloc((size_t)t->update_groups, sizeof *p->view);
    if (!p->name || !p->gradient || !p->view) {
        sw_free(p->name);
        sw_free(p->gradient);
        sw_free(p->view);
        return sw_err_nomem(err, spec->name, sizeof *p);
    }

    *index = t->param_count++;

    if (p->factors >= 0)
        *(p->layout.ndim > 1 ? &t->factors[p->factors].weight : &t->factors[p->factors].bias) =
            *index;

    return SW_OK;
}
