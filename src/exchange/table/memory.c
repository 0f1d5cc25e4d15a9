/* The memory of a table: its size, the address of every array of every parameter, and its NUMA
 * nodes. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

/* Does the parameter have an array for the sum of its gradients? */
static bool has_sum(const struct sw_table *t, int param)
{
    return t->args.updates_on_device && sw_table_reduction(t, param) == SW_REDUCTION_SERVERS;
}

/* Gradient arrays of a parameter; a remote update group has one. */
static int gradients_of(const struct sw_table *t, int param)
{
    const struct sw_param *p = &t->params[param];
    int local = p->factors >= 0 ? t->local_groups
                : p->owner < 0  ? t->first_partial[t->args.workers]
                                : t->args.groups * sw_table_partials(t, p->owner);

    return p->frozen || sw_table_is_exchanged(t, param) ? 0 : local + t->args.remote_groups;
}

/* Do update groups read copies of their own? A frozen parameter needs none: it never changes. Nor
 * does one whose values come to a single update group when that does not read them, or one that
 * workers update. */
static bool has_buffers(const struct sw_table *t, int param)
{
    bool alone = t->args.updates_outside && t->update_groups == 1;
    return !t->args.rule->in_place && !t->params[param].frozen && !alone &&
           !sw_table_is_exchanged(t, param);
}

void sw_table_bytes(const struct sw_table *t, size_t *value_bytes, size_t *state_bytes)
{
    *value_bytes = *state_bytes = 0;
    for (int i = 0; i < t->param_count; i++) {
        size_t bytes = sw_param_array_bytes(&t->params[i]);
        *value_bytes += bytes;
        *state_bytes += bytes * (size_t)(gradients_of(t, i) + sw_table_param_slots(t, i));
        *state_bytes += has_buffers(t, i) ? bytes * (size_t)t->update_groups : 0;
        *state_bytes += has_sum(t, i) ? bytes : 0;
    }

    *state_bytes += sw_factor_bytes(t);
}

/* Is there an array for partial sum g of a contributor? */
static bool has_partial(const struct sw_table *t, int param, int g)
{
    bool first = g % t->first_partial[t->update_group_size] == 0;
    return t->params[param].factors < 0 || (first && !sw_table_is_exchanged(t, param));
}

static void point_into(struct sw_table *t)
{
    char *value = t->values, *other = t->state;

    for (int i = 0; i < t->param_count; i++) {
        struct sw_param *p = &t->params[i];
        size_t bytes = sw_param_array_bytes(p);

        p->value = (float *)(void *)value;
        value += bytes;

        for (int w = 0; w < t->args.workers; w++)
            for (int g = t->first_partial[w];
                 g < t->first_partial[w + 1] && sw_table_contributes(t, i, w); g++)
                if (has_partial(t, i, g)) {
                    struct sw_param_view *view = &p->view[sw_table_update_group(t, w)];

                    p->gradient[g] = (float *)(void *)other;
                    view->gradient = view->gradient ? view->gradient : p->gradient[g];
                    other += bytes;
                }

        for (int r = t->local_groups; r < t->update_groups && !p->frozen; r++, other += bytes)
            p->view[r].gradient = (float *)(void *)other;
        for (int s = 0; s < sw_table_param_slots(t, i); s++, other += bytes)
            p->slot[s] = (float *)(void *)other;
        p->sum = has_sum(t, i) ? (float *)(void *)other : NULL;

        other += has_sum(t, i) ? bytes : 0;
        for (int r = 0; r < t->update_groups; r++) {
            p->view[r].value = has_buffers(t, i) ? (float *)(void *)other : p->value;
            other += has_buffers(t, i) ? bytes : 0;
        }
    }

    sw_factor_point(t, other);
}

/* Binds pages to NUMA nodes: values and updater state of a slice to the server that updates it,
 * gradients to the worker that writes them, since both write and read there, while others only read
 * once. */
static void place(struct sw_table *t)
{
    const struct sw_table_args *a = &t->args;

    for (int i = 0; i < t->slice_count && a->server_nodes; i++) {
        const struct sw_slice *s = &t->slices[i];
        const struct sw_param *p = &t->params[s->param];
        uint64_t nodes = a->server_nodes(a->nodes_user, s->server);
        size_t bytes = (size_t)s->count * sizeof(float);

        if (t->value_bytes >= SW_DEVICE_PAGES_BYTES)
            sw_device_place(a->device, p->value + s->from, bytes, nodes);
        for (int k = 0; k < t->slots && t->state_bytes >= SW_DEVICE_PAGES_BYTES; k++)
            sw_device_place(a->device, p->slot[k] + s->from, bytes, nodes);
    }

    if (a->server_nodes && t->state_bytes >= SW_DEVICE_PAGES_BYTES)
        sw_factor_place(t);

    for (int i = 0; i < t->param_count && a->worker_nodes; i++) {
        const struct sw_param *p = &t->params[i];

        for (int w = 0; w < a->workers && p->factors < 0 && t->state_bytes >= SW_DEVICE_PAGES_BYTES;
             w++)
            for (int g = t->first_partial[w]; g < t->first_partial[w + 1] && p->gradient[g]; g++)
                sw_device_place(a->device, p->gradient[g], sw_param_array_bytes(p),
                                a->worker_nodes(a->nodes_user, w));

        for (int r = 0; r < t->local_groups && t->state_bytes >= SW_DEVICE_PAGES_BYTES; r++)
            if (has_buffers(t, i))
                sw_device_place(a->device, p->view[r].value, sw_param_array_bytes(p),
                                a->worker_nodes(a->nodes_user, r * t->update_group_size));
    }
}

int sw_table_allocate(struct sw_table *t, struct sw_err *err)
{
    size_t values, state;

    sw_table_bytes(t, &values, &state);

    int rc = sw_device_alloc(t->args.device, values, "parameters", &t->values, err);
    if (rc != SW_OK)
        return rc;

    t->value_bytes = values;
    rc = sw_device_alloc(t->args.device, state, "gradients and updater state", &t->state, err);
    if (rc != SW_OK)
        return rc;

    t->state_bytes = state;
    point_into(t);
    place(t);

    return sw_table_make_row_lists(t, err);
}

void sw_table_pin(struct sw_table *t, struct sw_device *dev, bool pinned)
{
    if (pinned) {
        sw_device_pin(dev, t->values, t->value_bytes);
        sw_device_pin(dev, t->state, t->state_bytes);
    } else {
        sw_device_unpin(dev, t->values, t->value_bytes);
        sw_device_unpin(dev, t->state, t->state_bytes);
    }
}
