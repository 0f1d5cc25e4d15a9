/* Exchange modes of fully-connected layers: checks the setting of [cluster], resolves `auto`, and
 * allocates the exchange of factors.
 *
 * Between devices of one machine `auto` is the default. Defaults are a function of the job alone,
 * so the default measures nothing: it assumes the throughput of usual devices, and links as fast
 * as the device request or cluster.bandwidth says.
 *
 * In shared memory sfb and adam are the same: workers write the factors of their rows into arrays
 * of their update group, and servers compute the gradients of their slices from these. Between
 * devices adam copies factors to every server that needs them; with sfb the devices exchange all
 * factors (exchange/reduce/factors.h), under SSP also with those of other groups, and each computes
 * gradients and updates of its replica, as with `copy = none`. */
#include "base/os.h"
#include "base/str.h"
#include "device/driver.h"
#include "exchange/reduce/factors.h"
#include "plan/choices.h"
#include "plan/job_exchange.h"
#include "plan/saved_choices.h"
#include "plan/usual_rates.h"
#include "thread/fault.h"
#include <math.h>
#include <string.h>

/* No network is slower or faster, and no hosts have less or more memory for their processors. */
static const struct sw_host_rates extremes[] = {
    {1e3, 1e10, 1e12, ""}, {1e3, 1e14, 1e10, ""}, {1e12, 1e10, 1e12, ""}, {1e12, 1e14, 1e10, ""}};
enum { EXTREMES = sizeof extremes / sizeof *extremes };

/* Number of workers whose rows make one update. */
static int update_group_size(const struct sw_exchange_plan *p)
{
    return p->args.topology->update_group_size * p->args.topology->update_hosts;
}

/* Update groups that exchange with each other: factors of devices go to all groups, or to servers
 * that all of them share. */
static int connected_groups(const struct sw_exchange_plan *p)
{
    const struct sw_topology *t = p->args.topology;

    return t->is_async && t->devices > 0 ? t->update_groups : 1;
}

/* Number of workers that exchange the gradients of a layer. */
static int connected_workers(const struct sw_exchange_plan *p)
{
    return update_group_size(p) * connected_groups(p);
}

const char *sw_factors_why_not_async(const struct sw_topology *t)
{
    if (t->consistency == SW_CONSISTENCY_HOGWILD)
        return "hogwild updates values on the host, so devices cannot keep private copies (adam "
               "sends factors to the host)";
    if (t->staleness < 0)
        return "without a staleness bound a device would have to store any number of factors of "
               "the others (staleness = 2, for example, sets one; adam sends factors to the host)";
    if (t->hosts > 1)
        return "groups of several hosts exchange through the servers of one host (adam sends "
               "factors to servers)";
    if (t->server_groups > 1)
        return "server groups merge values on the host, so devices cannot keep private copies "
               "(adam sends factors to the host)";
    if (t->warmup_steps > 0)
        return "during warmup_steps one group trains alone, and devices of the others would have "
               "to store all its factors (adam sends factors to the host)";

    return NULL;
}

/* Why no layer can use the mode; NULL: layers with factors can. */
static const char *why_not(const struct sw_exchange_plan *p, enum sw_exchange_mode mode)
{
    const struct sw_topology *t = p->args.topology;

    if (mode == SW_EXCHANGE_PS)
        return NULL;
    if (t->update_hosts > 1 && t->devices > 0)
        return "between hosts only factors in host memory are exchanged";
    if (p->args.conf->repeat_exact)
        return "repeat_exact reduces over microbatches for any number of workers, and products "
               "over all rows round differently";
    if (p->args.request->mixed)
        return "where devices and CPUs train together, gradients are summed on the host";
    if (mode == SW_EXCHANGE_ADAM)
        return sw_reduces(p) ? "with allreduce and copy = none the servers do nothing (sfb needs "
                               "no server, and copy = async uses them)"
                             : NULL;

    const char *reason = t->devices > 0 && t->is_async ? sw_factors_why_not_async(t) : NULL;
    if (reason)
        return reason;
    if (t->devices > 0 && p->args.controls_updates)
        return "grad_clip = norm, on_nan, loss_scale, norms in stop_at and lars need all gradients "
               "before any update (adam computes them on the host)";

    return NULL;
}

/* Does the recipe set `auto` anywhere? Then it asks for measurements. */
static bool says_auto(const struct sw_exchange_plan *p)
{
    bool any = !p->comm.by_default && p->comm.requested == SW_EXCHANGE_AUTO;

    for (const struct sw_section *s = sw_recipe_first(p->args.recipe, "layer"); s && !any;
         s = sw_section_next(s))
        any = ((const struct sw_layer_conf *)s->common)->comm == SW_EXCHANGE_AUTO;

    return any;
}

/* `auto` between the devices of one machine, where it has a choice; else `ps`. */
static enum sw_exchange_mode default_mode(const struct sw_exchange_plan *p)
{
    const struct sw_topology *t = p->args.topology;
    bool chooses = t->devices > 0 && t->hosts < 2 && connected_workers(p) > 1 &&
                   (!why_not(p, SW_EXCHANGE_SFB) || !why_not(p, SW_EXCHANGE_ADAM));

    return chooses ? SW_EXCHANGE_AUTO : SW_EXCHANGE_PS;
}

static void set_mode(struct sw_exchange_plan *p)
{
    const struct sw_section *cluster = sw_recipe_find(p->args.recipe, "cluster", NULL);
    const struct sw_device_request *devices = p->args.request;
    struct sw_exchange_modes *m = &p->comm;

    m->by_default = !cluster || !sw_section_is_set(cluster, "comm");
    m->requested = m->by_default ? default_mode(p) : (enum sw_exchange_mode)p->cluster->comm;
    m->assumes = p->args.topology->devices > 0 && !says_auto(p);

    m->assumed = sw_usual_throughputs(&devices->driver->caps, 1, (double)devices->link_bytes_per_s);
}

int sw_exchange_modes_prepare(struct sw_exchange_plan *p, const char *path, struct sw_err *err)
{
    set_mode(p);

    const enum sw_exchange_mode mode = p->comm.requested;
    const char *refused = mode == SW_EXCHANGE_AUTO ? NULL : why_not(p, mode);

    if (refused && connected_workers(p) > 1)
        sw_recipe_error(p->args.recipe, sw_recipe_find(p->args.recipe, "cluster", NULL), "comm",
                        "%s is not possible: %s; use ps, or remove the key",
                        sw_exchange_mode_names[mode], refused);

    int rc = sw_recipe_status(p->args.recipe, err);
    return rc == SW_OK ? sw_saved_choices_read(path, &p->comm.kept, err) : rc;
}

/* ---- Resolving `auto` ---- */

static const struct sw_exchange_choice *find_choice(const struct sw_exchange_modes *p,
                                                    const char *layer)
{
    for (int i = 0; i < p->count; i++)
        if (sw_str_eq(p->choices[i].layer.name, layer))
            return &p->choices[i];
    return NULL;
}

static bool is_limited(const struct sw_exchange_plan *p, double link_bytes_per_s)
{
    return p->cluster->bandwidth > 0 && (double)p->cluster->bandwidth < link_bytes_per_s;
}

/* Of a link that could carry more, cluster.bandwidth. */
static double limited(const struct sw_exchange_plan *p, double link_bytes_per_s)
{
    return is_limited(p, link_bytes_per_s) ? (double)p->cluster->bandwidth : link_bytes_per_s;
}

/* A host is one worker, with the rows that each would have if all had the same number: nothing of
 * this may differ between hosts. */
static void set_host(const struct sw_exchange_plan *p, const struct sw_net_exchange_layer *l,
                     double flops, struct sw_exchange_cost_args *t)
{
    const struct sw_host_rates *r = &p->comm.rates;
    const double rows = (double)p->args.conf->batch / t->hosts;

    t->workers = t->hosts;
    t->servers = 1;
    t->flops_per_s = t->server_flops_per_s = r->flops_per_s;
    t->memory_bytes_per_s = r->memory_bytes_per_s;
    t->link_bytes_per_s = limited(p, r->link_bytes_per_s);
    t->hidden_s = flops * rows / (double)l->rows / r->flops_per_s;
}

static const struct sw_throughputs *rates_of_devices(const struct sw_exchange_plan *p)
{
    return p->comm.assumes ? &p->comm.assumed : p->args.throughputs(p->args.user);
}

static void predict(const struct sw_exchange_plan *p, const struct sw_net_exchange_layer *l,
                    const struct sw_exchange_link *link, struct sw_exchange_price *out)
{
    const struct sw_exchange_plan_args *a = &p->args;
    const struct sw_throughputs *throughputs = rates_of_devices(p);

    /* Backward and the next forward of the layers below overlap with the exchange. */
    double flops = l->forward_flops_below;

    if (p->overlap == SW_OVERLAP_YES)
        flops += l->backward_flops_below;

    struct sw_exchange_cost_args t = {
        .workers = connected_workers(p),
        .hosts = a->topology->update_hosts,
        .servers = a->topology->servers_per_group,
        .rows = (double)(a->conf->batch * connected_groups(p) * l->steps),
        .inputs = (double)l->inputs,
        .outputs = (double)l->outputs,
        .devices = a->topology->devices > 0,
        .reduces = sw_reduces(p),
        .peers = a->request->peers,
        .flops_per_s = throughputs->worker_flops_per_s,
        .server_flops_per_s = throughputs->server_flops_per_s,
        .memory_bytes_per_s = throughputs->memory_bytes_per_s,
        .link_bytes_per_s = limited(p, throughputs->link_bytes_per_s),
        .hidden_s = p->copy == SW_COPY_SYNC ? 0 : flops / throughputs->worker_flops_per_s,
        .link = *link,
        .others = l->whole_below > link->whole ? l->whole_below - link->whole : 0};

    if (t.hosts > 1)
        set_host(p, l, flops, &t);

    sw_exchange_cost(&t, out);
}

/* Use of the link by all choices so far, predicted or from a checkpoint. */
static struct sw_exchange_link link_with_choices(const struct sw_exchange_plan *p)
{
    struct sw_exchange_link link = {.busy_s = 0};
    struct sw_exchange_price price;

    for (int i = 0; i < p->comm.count; i++) {
        predict(p, &p->comm.choices[i].layer, &link, &price);
        link = price.link[p->comm.choices[i].mode];
    }

    return link;
}

static struct sw_factors_args factors_args(const struct sw_exchange_plan *p,
                                           const struct sw_factors_layer *layers, int count)
{
    const struct sw_topology *t = p->args.topology;

    return (struct sw_factors_args){.devices = p->devices,
                                    .ranks = t->workers,
                                    .groups = t->update_groups,
                                    .staleness = t->staleness,
                                    .batch_rows = p->args.conf->batch,
                                    .layers = layers,
                                    .count = count};
}

bool sw_factors_take_too_much(const struct sw_factors_args *a)
{
    enum { MOST_WEIGHTS = 4 };

    const struct sw_factors_layer *l = a->layers;

    return a->groups > 1 &&
           sw_factors_bytes(a) > MOST_WEIGHTS * sizeof(float) * (size_t)(l->inputs * l->outputs);
}

static bool takes_too_much(const struct sw_exchange_plan *p, const struct sw_net_exchange_layer *l)
{
    const struct sw_factors_layer layer = {l->steps, l->inputs, l->outputs};
    const struct sw_factors_args a = factors_args(p, &layer, 1);

    return connected_groups(p) > 1 && sw_factors_take_too_much(&a);
}

/* Chooses the possible mode with the least predicted time. */
static void choose_least(const struct sw_exchange_plan *p, struct sw_exchange_choice *c)
{
    const struct sw_exchange_link link = link_with_choices(p);
    struct sw_exchange_price price;

    predict(p, &c->layer, &link, &price);

    c->mode = SW_EXCHANGE_PS;
    for (enum sw_exchange_mode mode = SW_EXCHANGE_PS; mode < SW_EXCHANGE_AUTO; mode++) {
        if (why_not(p, mode) || (mode == SW_EXCHANGE_SFB && takes_too_much(p, &c->layer)))
            continue;

        c->ms[mode] = price.ms[mode];
        if (c->ms[mode] < c->ms[c->mode])
            c->mode = mode;
    }
}

/* ---- Rates between hosts ---- */

static enum sw_exchange_mode mode_at(struct sw_exchange_plan *p, const struct sw_exchange_choice *c,
                                     const struct sw_host_rates *rates)
{
    struct sw_exchange_choice at = *c;

    p->comm.rates = *rates;
    choose_least(p, &at);
    p->comm.rates = sw_usual_host_rates;
    return at.mode;
}

/* Does the choice depend on rates? All hosts ask this with the same numbers. */
static bool needs_rates(struct sw_exchange_plan *p, const struct sw_exchange_choice *c)
{
    bool differs = false;

    if (p->args.topology->update_hosts < 2 || !p->args.host_rates || p->comm.has_rates)
        return false;

    const enum sw_exchange_mode first = mode_at(p, c, &extremes[0]);
    for (int i = 1; i < EXTREMES; i++)
        differs = differs || mode_at(p, c, &extremes[i]) != first;
    return differs;
}

/* Lower layers keep their modes, which no rate would change; their times become known. */
static int take_rates(struct sw_exchange_plan *p, struct sw_err *err)
{
    struct sw_exchange_modes *m = &p->comm;
    const int count = m->count;

    m->has_rates = true;
    int rc = p->args.host_rates(p->args.user, &m->rates, err);

    for (m->count = 0; rc == SW_OK && m->count < count; m->count++) {
        struct sw_exchange_choice *c = &m->choices[m->count];
        const enum sw_exchange_mode mode = c->mode;

        if (!c->taken_up)
            choose_least(p, c);
        c->mode = mode;
    }

    m->count = count;
    return rc;
}

/* The mode in the checkpoint, or AUTO. Several workers that saved none for a layer exchanged whole
 * gradients by default, as all did before `auto` was the default anywhere: they still do. */
static enum sw_exchange_mode kept_mode(const struct sw_exchange_modes *p, const char *layer)
{
    enum sw_exchange_mode mode = sw_saved_choices_exchange_mode(p->kept, layer);
    uint64_t workers = 0;

    if (mode == SW_EXCHANGE_AUTO && p->by_default && p->kept &&
        sw_json_as_size(sw_json_get(p->kept, "workers"), &workers) && workers > 1)
        mode = SW_EXCHANGE_PS;

    return mode;
}

/* Callback of the nets: the first call for a layer decides, later nets get the same mode. */
static enum sw_exchange_mode choose(void *user, const struct sw_net_exchange_layer *l)
{
    struct sw_exchange_plan *plan = user;
    struct sw_exchange_modes *p = &plan->comm;
    const struct sw_exchange_choice *known = find_choice(p, l->name);
    if (known)
        return known->mode;

    /* After an error the default for all workers; sw_exchange_modes_check reports it. */
    if (p->why.code != SW_OK)
        return SW_EXCHANGE_PS;

    struct sw_exchange_choice *more =
        sw_realloc_array(p->choices, (size_t)p->count + 1, sizeof *more);
    if (!more) {
        (void)sw_err_nomem(&p->why, "the exchange modes", sizeof *more * ((size_t)p->count + 1));
        return SW_EXCHANGE_PS;
    }

    p->choices = more;

    const enum sw_exchange_mode kept = kept_mode(p, l->name);
    struct sw_exchange_choice c = {.layer = *l,
                                   .mode = kept,
                                   .taken_up = kept != SW_EXCHANGE_AUTO && !why_not(plan, kept),
                                   .ms = {(double)NAN, (double)NAN, (double)NAN}};
    if (!c.taken_up && needs_rates(plan, &c) && take_rates(plan, &p->why) != SW_OK)
        return SW_EXCHANGE_PS;
    if (!c.taken_up)
        choose_least(plan, &c);

    p->choices[p->count++] = c;

    return c.mode;
}

int sw_exchange_modes_check(const struct sw_exchange_modes *p, struct sw_err *err)
{
    return p->why.code == SW_OK ? SW_OK : sw_err_set(err, p->why.code, "%s", p->why.text);
}

void sw_exchange_modes_args(struct sw_exchange_plan *p, struct sw_net_exchange *out)
{
    if (!p->comm.has_rates)
        p->comm.rates = sw_usual_host_rates;

    *out = (struct sw_net_exchange){
        .mode = p->comm.requested, .workers = connected_workers(p), .choose = choose, .user = p};
    for (enum sw_exchange_mode mode = SW_EXCHANGE_PS; mode < SW_EXCHANGE_AUTO && out->workers > 1;
         mode++)
        out->refuses[mode] = why_not(p, mode);
}

void sw_exchange_modes_write(const struct sw_exchange_plan *p, const struct sw_net *net,
                             struct sw_json_writer *w)
{
    sw_json_open_array(w, "exchange");

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const char *layer = sw_net_layer(net, i)->name;
        enum sw_exchange_mode mode = sw_net_exchange_mode(net, i);
        if (mode == SW_EXCHANGE_PS && !find_choice(&p->comm, layer))
            continue;

        sw_json_open_object(w, NULL);
        sw_json_string(w, "layer", layer);
        sw_json_string(w, "mode", sw_exchange_mode_names[mode]);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

/* ---- Reporting ---- */

bool sw_exchange_modes_are_requested(const struct sw_exchange_plan *p)
{
    bool requested = !p->comm.by_default && p->comm.requested != SW_EXCHANGE_PS;

    for (const struct sw_section *s = sw_recipe_first(p->args.recipe, "layer"); s && !requested;
         s = sw_section_next(s))
        requested = sw_section_is_set(s, "comm");

    return requested;
}

/* "60.0 MB/s (cluster.bandwidth) of 118.0 MB/s", "118.0 MB/s". */
static void describe_link(const struct sw_exchange_plan *p, double link_bytes_per_s, char out[96])
{
    char rate[32], limit[32];

    sw_human_bytes(rate, link_bytes_per_s);
    sw_human_bytes(limit, (double)p->cluster->bandwidth);
    if (is_limited(p, link_bytes_per_s))
        snprintf(out, 96, "%s/s (cluster.bandwidth) of %s/s", limit, rate);
    else
        snprintf(out, 96, "%s/s", rate);
}

static void describe_host_rates(const struct sw_exchange_plan *p, char out[512])
{
    const struct sw_host_rates *r = &p->comm.rates;
    char link[96];

    describe_link(p, r->link_bytes_per_s, link);
    snprintf(out, 512, "chosen for %s between hosts and %.3g GFLOP/s on each (%s)", link,
             r->flops_per_s * 1e-9,
             p->args.host_rates && !p->comm.has_rates ? "assumed: no rate changes a choice"
                                                      : r->source);
}

static void describe_device_rates(const struct sw_exchange_plan *p, char out[512])
{
    const struct sw_throughputs *t = rates_of_devices(p);
    const char *source = !p->comm.assumes ? "measured"
                         : p->args.request->link_bytes_per_s > 0
                             ? "a given and an assumed rate; comm = auto measures"
                             : "assumed rates; comm = auto measures";
    char link[96];

    describe_link(p, t->link_bytes_per_s, link);
    snprintf(out, 512, "chosen for links of %s and devices of %.3g GFLOP/s (%s)", link,
             t->worker_flops_per_s * 1e-9, source);
}

const char *sw_exchange_modes_rates(const struct sw_exchange_plan *p, char out[512])
{
    bool chosen = false;

    for (int i = 0; i < p->comm.count; i++)
        chosen = chosen || !p->comm.choices[i].taken_up;

    out[0] = '\0';
    if (chosen && p->args.topology->update_hosts > 1)
        describe_host_rates(p, out);
    else if (chosen && p->args.topology->devices > 0)
        describe_device_rates(p, out);

    return out;
}

/* Stored elements of a layer's trained parameters, and of its weight. If devices reduce, each
 * parameter is aligned to a line. */
static int64_t values_of(const struct sw_exchange_plan *p, const struct sw_net *net, int i,
                         int64_t *weight)
{
    enum { LINE = 16 };

    int first, count = sw_net_layer_params(net, i, &first);
    int64_t values = 0, line = sw_reduces(p) ? LINE : 1;

    *weight = 0;

    for (int q = first; q < first + count; q++) {
        const struct sw_net_param *np = sw_net_param(net, q);
        const struct sw_desc *layout = &sw_net_layer(net, i)->param[np->index].layout;

        if (np->frozen || np->root >= 0 || np->owner >= 0)
            continue;

        values += (sw_desc_storage(layout) + line - 1) / line * line;
        *weight = *weight ? *weight : sw_desc_count(layout);
    }

    return values;
}

/* Servers that own outputs of a layer. */
static int servers_of(const struct sw_table *t, const struct sw_table_factors *f)
{
    int servers = 0;

    for (int s = 0; s < sw_table_servers(t); s++) {
        int64_t first, outputs;
        sw_table_factor_range(t, f, s, &first, &outputs);
        servers += outputs > 0;
    }

    return servers;
}

void sw_exchange_modes_describe(const struct sw_exchange_plan *p, const struct sw_net *net,
                                const int *params, int i, struct sw_job_exchange *out)
{
    enum sw_exchange_mode mode = sw_net_exchange_mode(net, i);
    const struct sw_exchange_choice *c = find_choice(&p->comm, sw_net_layer(net, i)->name);
    int64_t weight, values = values_of(p, net, i, &weight);
    int first;

    *out = (struct sw_job_exchange){.mode = NULL};
    if (values == 0 || connected_workers(p) < 2)
        return;

    struct sw_exchange_cost_args t = {.workers = connected_workers(p),
                                      .inputs = (double)weight,
                                      .outputs = 1,
                                      .devices = p->args.topology->devices > 0,
                                      .reduces = sw_reduces(p)};

    if (mode != SW_EXCHANGE_PS) {
        sw_net_layer_params(net, i, &first);

        const struct sw_table_factors *f = sw_table_factors_of(p->table, params[first]);
        t.rows = (double)(f->rows * connected_groups(p));
        t.inputs = (double)f->inputs;
        t.outputs = (double)f->outputs;
        t.servers = servers_of(p->table, f);
    }

    /* Groups that are not connected make separate updates. */
    int groups =
        p->args.topology->is_async ? p->args.topology->update_groups / connected_groups(p) : 1;
    struct sw_exchange_count n = sw_exchange_count(mode, &t, values);

    out->mode = sw_exchange_mode_names[mode];
    out->requested = sw_exchange_mode_names[sw_net_requested_exchange_mode(net, i)];
    out->moved = groups * n.moved;
    out->counted = groups * n.counted;
    out->predicted = c && !c->taken_up;
    for (int k = 0; k < SW_EXCHANGE_MODES && c; k++)
        out->ms[k] = c->ms[k];
}

/* ---- Factors of layers ---- */

bool sw_exchange_modes_factors(const struct sw_exchange_plan *p, const struct sw_net *net, int i,
                               int64_t rows, struct sw_table_factors *out)
{
    const struct sw_layer_factors *l = &sw_net_layer(net, i)->factors;
    enum sw_exchange_mode mode = sw_net_exchange_mode(net, i);
    if (mode == SW_EXCHANGE_PS)
        return false;

    int64_t steps = l->rows / rows;
    *out = (struct sw_table_factors){.rows = p->args.conf->batch * steps,
                                     .steps = steps,
                                     .inputs = l->inputs,
                                     .outputs = l->outputs,
                                     .home = p->args.topology->devices == 0 ? SW_FACTORS_SHARED
                                             : mode == SW_EXCHANGE_ADAM     ? SW_FACTORS_BY_SERVER
                                                                            : SW_FACTORS_EXCHANGED};

    return true;
}

/* ---- Between devices ---- */

/* Lists the layers whose factors devices exchange, in the table's order; returns their number. */
static int list_layers(const struct sw_table *t, struct sw_factors_layer *out)
{
    int count = 0;

    for (int i = 0; i < sw_table_factor_count(t); i++) {
        const struct sw_table_factors *f = sw_table_factors_at(t, i);
        if (f->home == SW_FACTORS_EXCHANGED)
            out[count++] = (struct sw_factors_layer){f->steps, f->inputs, f->outputs};
    }

    return count;
}

size_t sw_exchange_modes_bytes(const struct sw_exchange_plan *p)
{
    size_t bytes = 0;

    for (int i = 0; i < sw_table_factor_count(p->table); i++) {
        const struct sw_table_factors *f = sw_table_factors_at(p->table, i);
        const struct sw_factors_layer l = {f->steps, f->inputs, f->outputs};
        const struct sw_factors_args a = factors_args(p, &l, 1);
        if (f->home == SW_FACTORS_EXCHANGED)
            bytes += sw_factors_bytes(&a);
    }

    return bytes;
}

void sw_exchange_modes_set_rows(struct sw_exchange_plan *p, const struct sw_row_split *rows)
{
    const struct sw_topology *t = p->args.topology;

    for (int i = 0; i < t->workers && p->comm.factors; i++)
        sw_factors_set_rows(p->comm.factors, i,
                            sw_row_split_first(rows, &t->rank[i], SW_SPLIT_TRAIN),
                            sw_row_split_count(rows, &t->rank[i], SW_SPLIT_TRAIN));
}

int sw_exchange_modes_make(struct sw_exchange_plan *p, const struct sw_row_split *rows,
                           struct sw_err *err)
{
    size_t most = (size_t)sw_table_factor_count(p->table) + 1;
    struct sw_factors_layer *layers = sw_calloc(most, sizeof *layers);
    if (!layers)
        return sw_err_nomem(err, "factors of gradients", most * sizeof *layers);

    const struct sw_factors_args args = factors_args(p, layers, list_layers(p->table, layers));
    int rc = args.count > 0 ? sw_factors_new(&args, &p->comm.factors, err) : SW_OK;
    sw_free(layers);
    if (rc != SW_OK || !p->comm.factors)
        return rc;

    sw_exchange_modes_set_rows(p, rows);
    return sw_fault_attach(p->args.fault, sw_factors_close_v, p->comm.factors, err);
}
