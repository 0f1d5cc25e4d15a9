#include "param/table_private.h"

#include "base/os.h"
#include "base/str.h"
#include "param/schedule.h"
#include <string.h>

enum { ALIGN = 64, EARLY_PER_PARAM = 4 };

void sw_table_leaves(const struct sw_table *t, int worker, int *first, int *count)
{
    int64_t from, leaves;
    sw_part(t->leaves, t->party_workers, worker % t->party_workers, &from, &leaves);
    *first = (int)from;
    *count = (int)leaves;
}

/* Every worker's leaves in nodes, as large as can be. */
static int make_terms(struct sw_table *t, struct sw_err *err)
{
    int workers = t->args.workers, terms = 0;
    t->first_term = sw_calloc((size_t)workers + 1, sizeof *t->first_term);
    t->term_end = sw_calloc((size_t)t->leaves, sizeof *t->term_end);
    if (!t->first_term || !t->term_end)
        return sw_err_nomem(err, "the parameter table", (size_t)workers * sizeof *t->first_term);
    for (int w = 0; w < workers; w++) {
        int at, count;
        sw_table_leaves(t, w, &at, &count);
        t->first_term[w] = terms;
        for (int end = at + count; at < end; terms++) {
            at = sw_tree_node_end(t->leaves, at, end);
            if (w < t->party_workers)
                t->term_end[terms] = at;
        }
    }
    t->first_term[workers] = terms;
    return SW_OK;
}

int sw_table_new(const struct sw_table_args *args, struct sw_table **out, struct sw_err *err)
{
    struct sw_table *t = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, "the parameter table", sizeof *t);
    t->args = *args;
    if (!t->args.rule)
        t->args.rule = &sw_table_bsp;
    if (t->args.groups < 1)
        t->args.groups = 1;
    t->parties = t->args.rule->apart ? t->args.groups : 1;
    t->party_workers = t->args.workers / t->parties;
    t->group_workers = t->args.workers / t->args.groups;
    t->two_phases = args->two_phases || args->loss_scale > 0 || args->clip_norm > 0 ||
                    args->bad != SW_BAD_STOPS || args->updater->needs_norms;
    t->leaves = args->leaves > 0 ? args->leaves : t->party_workers;
    sw_mutex_init(&t->lock);
    sw_cond_init(&t->changed);
    t->slots = sw_updater_slots(args->updater, args->updater_conf);
    t->servers = sw_calloc((size_t)args->servers, sizeof *t->servers);
    int rc = t->servers ? SW_OK
                        : sw_err_nomem(err, "the parameter table",
                                       (size_t)args->servers * sizeof *t->servers);
    if (rc == SW_OK)
        rc = make_terms(t, err);
    if (rc != SW_OK) {
        sw_table_free(t);
        return rc;
    }
    *out = t;
    return SW_OK;
}

static void fini_server(struct sw_server_state *s)
{
    if (s->inbox_open)
        sw_channel_fini(&s->inbox);
    sw_free(s->slices);
    sw_free(s->first);
    sw_free(s->heard);
    sw_free(s->turns);
    sw_free(s->early);
}

void sw_table_free(struct sw_table *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->param_count; i++) {
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
    sw_free(t->first_term);
    sw_free(t->term_end);
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
        return sw_err_set(err, SW_ERR_INVALID, "parameter %s is there already", spec->name);
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
                           .lr_mult = (float)spec->lr_mult,
                           .decay_mult = (float)spec->decay_mult};
    p->name = sw_strdup(spec->name);
    p->gradient = sw_calloc((size_t)t->first_term[t->args.workers], sizeof *p->gradient);
    p->view = sw_calloc((size_t)t->parties, sizeof *p->view);
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

static int count_slices(const struct sw_table *t, const struct sw_param *p)
{
    int64_t n = p->frozen ? 0 : sw_desc_storage(&p->layout);
    if (p->factors >= 0)
        return sw_factor_slices(t, p);
    return (int)((n + t->args.slice_elements - 1) / t->args.slice_elements);
}

/* Cuts a parameter into slices of nearly equal size, each but the last a multiple of 64 bytes, or
 * of the blocks of a norm. */
static void cut(struct sw_table *t, int index)
{
    struct sw_param *p = &t->params[index];
    int64_t n = sw_desc_storage(&p->layout), pieces = count_slices(t, p);
    if (p->factors >= 0) {
        sw_factor_cut(t, index);
        return;
    }
    p->first_slice = t->slice_count;
    if (p->frozen)
        return;
    int64_t grain = t->two_phases ? SW_GATHER_BLOCK : ALIGN / (int64_t)sizeof(float);
    int64_t size = ((n + pieces - 1) / pieces + grain - 1) / grain * grain;
    for (int64_t from = 0; from < n; from += size) {
        int64_t count = n - from < size ? n - from : size;
        t->slices[t->slice_count++] =
            (struct sw_slice){.param = index, .from = from, .count = count};
    }
    p->slice_count = t->slice_count - p->first_slice;
}

static int least_loaded(const int64_t *load, int servers)
{
    int least = 0;
    for (int s = 1; s < servers; s++)
        least = load[s] < load[least] ? s : least;
    return least;
}

/* Deals the slices out in order, each to the server with the fewest elements so far. */
static void deal(struct sw_table *t, int64_t *load)
{
    for (int i = 0; i < t->slice_count; i++) {
        int least = sw_factor_server(t, &t->slices[i]);
        least = least < 0 ? least_loaded(load, t->args.servers) : least;
        t->slices[i].server = least;
        load[least] += t->slices[i].count;
        t->servers[least].slice_count++;
    }
}

static int freeze_server(struct sw_table *t, int index, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[index];
    size_t params = (size_t)t->param_count;
    s->early_capacity = EARLY_PER_PARAM * t->param_count * t->args.workers + 1;
    s->slices = sw_calloc((size_t)s->slice_count + 1, sizeof *s->slices);
    s->first = sw_calloc(params + 1, sizeof *s->first);
    s->heard = sw_calloc(params * (size_t)t->args.workers + 1, sizeof *s->heard);
    s->turns = sw_calloc(params * (size_t)t->parties + 1, sizeof *s->turns);
    s->early = sw_calloc((size_t)s->early_capacity, sizeof *s->early);
    if (!s->slices || !s->first || !s->heard || !s->turns || !s->early)
        return sw_err_nomem(err, "a server's slices", params * sizeof *s->first);
    int n = 0;
    for (int p = 0; p < t->param_count; p++) {
        const struct sw_param *param = &t->params[p];
        s->first[p] = n;
        for (int i = param->first_slice; i < param->first_slice + param->slice_count; i++)
            if (t->slices[i].server == index)
                s->slices[n++] = i;
    }
    s->first[params] = n;
    /* A worker has at most one update per parameter outstanding, and may be a step ahead; a
     * decision is sent by nobody in particular. */
    size_t senders = (size_t)(t->args.workers + t->args.others);
    size_t capacity = 3 * (params + 1) * senders + 2;
    int rc = sw_channel_init(&s->inbox, t->args.workers + 1 + t->args.others, capacity, err);
    s->inbox_open = rc == SW_OK;
    return rc;
}

int sw_table_freeze(struct sw_table *t, struct sw_err *err)
{
    int total = 0;
    for (int i = 0; i < t->param_count; i++)
        total += count_slices(t, &t->params[i]);
    t->slices = sw_calloc((size_t)total + 1, sizeof *t->slices);
    int64_t *load = sw_calloc((size_t)t->args.servers, sizeof *load);
    if (!t->slices || !load) {
        sw_free(load);
        return sw_err_nomem(err, "the parameter table", (size_t)total * sizeof *t->slices);
    }
    for (int i = 0; i < t->param_count; i++)
        cut(t, i);
    deal(t, load);
    sw_free(load);
    int rc = sw_table_make_phases(t, err);
    for (int i = 0; i < t->args.servers && rc == SW_OK; i++)
        rc = freeze_server(t, i, err);
    return rc;
}

static size_t array_bytes(const struct sw_param *p)
{
    return (sw_desc_bytes(&p->layout) + ALIGN - 1) / ALIGN * ALIGN;
}

int sw_table_parties(const struct sw_table *t)
{
    return t->parties;
}

int sw_table_party(const struct sw_table *t, int worker)
{
    return worker / t->party_workers;
}

const float *sw_table_value(const struct sw_table *t, int worker, int param)
{
    return t->params[param].view[sw_table_party(t, worker)].value;
}

int sw_table_threshold(const struct sw_table *t, int param)
{
    const struct sw_param *p = &t->params[param];
    return p->frozen ? 0 : p->owner < 0 ? t->party_workers : t->party_workers / t->group_workers;
}

int sw_table_givers(const struct sw_table *t, int param)
{
    return sw_table_threshold(t, param) * t->parties;
}

bool sw_table_is_served(const struct sw_table *t, int param)
{
    int givers = sw_table_givers(t, param);
    return givers > (t->args.updates_elsewhere ? 1 : 0) && !t->args.sums_elsewhere &&
           !sw_table_is_elsewhere(t, param);
}

bool sw_table_is_reduced(const struct sw_table *t, int param)
{
    return t->args.sums_elsewhere && sw_table_givers(t, param) > 1 &&
           !sw_table_is_elsewhere(t, param);
}

/* Is there an array for the sum of its gradients? */
static bool has_sum(const struct sw_table *t, int param)
{
    return t->args.updates_elsewhere && sw_table_is_served(t, param);
}

bool sw_table_gives(const struct sw_table *t, int param, int worker)
{
    const struct sw_param *p = &t->params[param];
    return !p->frozen && (p->owner < 0 || p->owner == worker % t->group_workers);
}

int sw_table_terms(const struct sw_table *t, int worker)
{
    return t->first_term[worker + 1] - t->first_term[worker];
}

struct sw_table_term sw_table_term(const struct sw_table *t, int worker, int param, int term)
{
    int n = t->first_term[worker] + term;
    int in_party = n % t->first_term[t->party_workers], first, count;
    sw_table_leaves(t, worker, &first, &count);
    return (struct sw_table_term){
        .from = term == 0 ? first : t->term_end[in_party - 1],
        .to = t->term_end[in_party],
        .gradient = t->params[param].factors < 0 ? t->params[param].gradient[n] : NULL};
}

/* Gradient arrays of a parameter. */
static int gradients_of(const struct sw_table *t, int param)
{
    const struct sw_param *p = &t->params[param];
    return p->frozen         ? 0
           : p->factors >= 0 ? t->parties
           : p->owner < 0    ? t->first_term[t->args.workers]
                             : t->args.groups * sw_table_terms(t, p->owner);
}

/* Do parties read copies of their own? What is frozen has no servers to copy it, and no need. */
static bool has_buffers(const struct sw_table *t, const struct sw_param *p)
{
    return !t->args.rule->in_place && !p->frozen;
}

void sw_table_bytes(const struct sw_table *t, size_t *value_bytes, size_t *state_bytes)
{
    *value_bytes = *state_bytes = 0;
    for (int i = 0; i < t->param_count; i++) {
        size_t bytes = array_bytes(&t->params[i]);
        *value_bytes += bytes;
        *state_bytes += bytes * (size_t)(gradients_of(t, i) + sw_table_param_slots(t, i));
        *state_bytes += has_buffers(t, &t->params[i]) ? bytes * (size_t)t->parties : 0;
        *state_bytes += has_sum(t, i) ? bytes : 0;
    }
    *state_bytes += sw_factor_bytes(t);
}

/* Is there an array for term g of a worker that gives? */
static bool has_term(const struct sw_table *t, int param, int g)
{
    bool first = g % t->first_term[t->party_workers] == 0;
    return t->params[param].factors < 0 || first;
}

static void point_into(struct sw_table *t)
{
    char *value = t->values, *other = t->state;
    for (int i = 0; i < t->param_count; i++) {
        struct sw_param *p = &t->params[i];
        size_t bytes = array_bytes(p);
        p->value = (float *)(void *)value;
        value += bytes;
        for (int w = 0; w < t->args.workers; w++)
            for (int g = t->first_term[w]; g < t->first_term[w + 1] && sw_table_gives(t, i, w); g++)
                if (has_term(t, i, g)) {
                    p->gradient[g] = (float *)(void *)other;
                    other += bytes;
                }
        for (int s = 0; s < sw_table_param_slots(t, i); s++, other += bytes)
            p->slot[s] = (float *)(void *)other;
        p->sum = has_sum(t, i) ? (float *)(void *)other : NULL;
        other += has_sum(t, i) ? bytes : 0;
        for (int r = 0; r < t->parties; r++) {
            p->view[r].value = has_buffers(t, p) ? (float *)(void *)other : p->value;
            other += has_buffers(t, p) ? bytes : 0;
        }
    }
    sw_factor_point(t, other);
}

/* Values and updater state of a slice lie with the server that updates it, gradients with the
 * worker that writes them: there they are written and read again, elsewhere only read, once. */
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
            for (int g = t->first_term[w]; g < t->first_term[w + 1] && p->gradient[g]; g++)
                sw_device_place(a->device, p->gradient[g], array_bytes(p),
                                a->worker_nodes(a->nodes_user, w));
        for (int r = 0; r < t->parties && t->state_bytes >= SW_DEVICE_PAGES_BYTES; r++)
            if (has_buffers(t, p))
                sw_device_place(a->device, p->view[r].value, array_bytes(p),
                                a->worker_nodes(a->nodes_user, r * t->party_workers));
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
    return SW_OK;
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

int sw_param_whole(const struct sw_param *p, int64_t dim[SW_MAX_DIMS])
{
    memcpy(dim, p->layout.dim, sizeof p->layout.dim);
    if (p->part_whole)
        dim[p->part_dim] = p->part_whole;
    return p->layout.ndim;
}

struct sw_param_runs sw_param_runs(const struct sw_param *p)
{
    int64_t inner = 1, outer = 1;
    if (!p->part_whole)
        return (struct sw_param_runs){.count = 1, .length = sw_desc_count(&p->layout)};
    for (int i = 0; i < p->layout.ndim; i++) {
        outer *= i < p->part_dim ? p->layout.dim[i] : 1;
        inner *= i > p->part_dim ? p->layout.dim[i] : 1;
    }
    return (struct sw_param_runs){.count = outer,
                                  .length = p->layout.dim[p->part_dim] * inner,
                                  .first = p->part_first * inner,
                                  .step = p->part_whole * inner};
}

static struct sw_init_shape init_shape(const struct sw_param *p)
{
    int64_t dim[SW_MAX_DIMS], columns = 1;
    int ndim = sw_param_whole(p, dim);
    for (int i = 1; i < ndim; i++)
        columns *= dim[i];
    return (struct sw_init_shape){
        .fan_in = p->fan_in, .fan_out = p->fan_out, .rows = dim[0], .columns = columns};
}

/* A gradient serves as room for the plain order; what is frozen has none. */
static int init_alone(struct sw_table *t, struct sw_param *p, struct sw_err *err)
{
    struct sw_init_shape shape = init_shape(p);
    struct sw_param_runs runs = sw_param_runs(p);
    int64_t n = sw_desc_count(&p->layout);
    float *room = p->frozen ? sw_calloc((size_t)n + 1, sizeof *room) : NULL;
    float *plain = p->frozen ? room : p->gradient[p->owner < 0 ? 0 : t->first_term[p->owner]];
    if (!plain)
        return sw_err_nomem(err, "initial values", (size_t)n * sizeof *plain);
    int rc = SW_OK;
    for (int64_t r = 0; r < runs.count && rc == SW_OK; r++) {
        int64_t first = runs.first + r * runs.step;
        rc = sw_init_fill(&p->init, t->args.seed, p->name, &shape, first, first + runs.length,
                          plain + r * runs.length, err);
    }
    if (rc == SW_OK)
        sw_desc_from_plain(&p->layout, plain, p->value);
    if (!p->frozen)
        memset(plain, 0, array_bytes(p));
    sw_free(room);
    return rc;
}

/* A part of `whole`, through room for it in plain order. */
static void take_part(struct sw_param *part, const float *whole, float *room)
{
    struct sw_param_runs runs = sw_param_runs(part);
    for (int64_t r = 0; r < runs.count; r++)
        memcpy(room + r * runs.length, whole + runs.first + r * runs.step,
               (size_t)runs.length * sizeof *room);
    sw_desc_from_plain(&part->layout, room, part->value);
}

/* Values that depend on one another: computed once, for all parts. */
static int init_whole(struct sw_table *t, const struct sw_param *p, struct sw_err *err)
{
    struct sw_init_shape shape = init_shape(p);
    int64_t n = shape.rows * shape.columns;
    if (p->part_first > 0)
        return SW_OK;
    float *plain = sw_calloc(2 * (size_t)n + 1, sizeof *plain);
    if (!plain)
        return sw_err_nomem(err, "initial values", 2 * (size_t)n * sizeof *plain);
    int rc = sw_init_fill(&p->init, t->args.seed, p->name, &shape, 0, n, plain, err);
    for (int i = 0; i < t->param_count && rc == SW_OK; i++) {
        struct sw_param *part = &t->params[i];
        if (sw_str_eq(part->name, p->name))
            take_part(part, plain, plain + n);
    }
    sw_free(plain);
    return rc;
}

static int init_value(struct sw_table *t, struct sw_param *p, struct sw_err *err)
{
    int rc = sw_init_is_whole(&p->init) ? init_whole(t, p, err) : init_alone(t, p, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "parameter %s", p->name);
}

int sw_table_init_values(struct sw_table *t, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < t->param_count && rc == SW_OK; i++)
        rc = init_value(t, &t->params[i], err);
    return rc;
}

void sw_table_set_watch(struct sw_table *t, sw_table_watch *watch, void *user)
{
    t->watch = watch;
    t->watch_user = user;
}

int sw_table_count(const struct sw_table *t)
{
    return t->param_count;
}

int64_t sw_table_elements(const struct sw_table *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->param_count; i++)
        n += sw_desc_count(&t->params[i].layout);
    return n;
}

const struct sw_param *sw_table_param(const struct sw_table *t, int index)
{
    return &t->params[index];
}

int sw_table_find(const struct sw_table *t, const char *name, int64_t part_first)
{
    for (int i = 0; i < t->param_count; i++)
        if (t->params[i].part_first == part_first && sw_str_eq(t->params[i].name, name))
            return i;
    return -1;
}

int sw_table_servers(const struct sw_table *t)
{
    return t->args.servers;
}

const struct sw_updater *sw_table_updater(const struct sw_table *t)
{
    return t->args.updater;
}

int sw_table_slots(const struct sw_table *t)
{
    return t->slots;
}

int sw_table_param_slots(const struct sw_table *t, int param)
{
    return t->params[param].frozen ? 0 : t->slots;
}

double sw_table_rate(const struct sw_table *t, uint64_t step)
{
    const struct sw_updater_conf *c = t->args.common;
    struct sw_rate r = {.policy = t->args.schedule,
                        .conf = t->args.schedule_conf,
                        .lr = c->lr,
                        .warmup = (uint64_t)c->warmup,
                        .warmup_start = c->warmup_start,
                        .horizon_steps = t->args.horizon_steps};
    return sw_schedule_rate(&r, step - t->args.schedule_from);
}

struct sw_tensor sw_table_tensor(struct sw_table *t, int param, int slot)
{
    struct sw_param *p = &t->params[param];
    return sw_tensor_view(t->args.device, &p->layout, slot < 0 ? p->value : p->slot[slot]);
}

void sw_table_put_party(struct sw_table *t, int party, uint64_t version)
{
    for (int i = 0; i < t->args.servers; i++)
        for (int p = 0; p < t->param_count; p++)
            t->servers[i].turns[p * t->parties + party] =
                (struct sw_turn){.done = version, .answered = version};
    for (int p = 0; p < t->param_count; p++)
        t->params[p].view[party].ready = version * (uint64_t)t->params[p].slice_count;
    if (t->phases)
        t->phases[party].version = version + 1;
}

void sw_table_put_version(struct sw_table *t, uint64_t version, uint64_t updates, uint64_t dropped)
{
    for (int i = 0; i < t->slice_count; i++) {
        t->slices[i].version = updates;
        t->slices[i].dropped = dropped;
    }
    for (int r = 0; r < t->parties; r++)
        sw_table_put_party(t, r, version);
    t->dropped = dropped;
    t->torn = -1;
}

void sw_table_put_param(struct sw_table *t, int param, uint64_t version)
{
    struct sw_param *p = &t->params[param];
    for (int r = 0; r < t->parties; r++)
        /* What it wrote into the table is seen by whoever waits for the version. */
        __atomic_store_n(&p->view[r].ready, version * (uint64_t)p->slice_count, __ATOMIC_SEQ_CST);
    sw_table_wake(t);
}

void sw_table_refresh(struct sw_table *t, int party)
{
    for (int i = 0; i < t->param_count; i++) {
        struct sw_param *p = &t->params[i];
        if (p->view[party].value != p->value)
            memcpy(p->view[party].value, p->value, array_bytes(p));
        for (int s = 0; s < t->args.servers; s++)
            t->servers[s].turns[i * t->parties + party].staleness = 0;
    }
}

uint64_t sw_table_updates(const struct sw_table *t)
{
    return t->slice_count > 0 ? t->slices[0].version : 0;
}

uint64_t sw_table_dropped(const struct sw_table *t)
{
    return __atomic_load_n(&t->dropped, __ATOMIC_RELAXED);
}
