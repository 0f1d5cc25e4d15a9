/* How gradients of fully-connected layers come together: what [cluster] may ask for, what `auto`
 * takes, and where factors lie.
 *
 * In shared memory sfb and adam are one thing: workers write the factors of their rows into arrays
 * of their update group, and servers make gradients of their slices from there. Between devices
 * adam copies factors to every server that needs them; with sfb the devices exchange all factors
 * (exchange/reduce/factors.h), and each makes gradients and updates for itself, as with `copy =
 * none`. */
#include "train/comm.h"
#include "base/os.h"
#include "base/str.h"
#include "exchange/reduce/factors.h"
#include "train/choices.h"
#include "train/comm_cost.h"
#include "train/job_private.h"
#include "train/kept_choices.h"
#include "train/worker.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Those whose rows make one update. */
static int update_group_size(const struct sw_job *job)
{
    return job->topology->update_group_size;
}

static const char *why_not_factors(const struct sw_job *job)
{
    return job->conf->repeat_exact
               ? "with repeat_exact all sums are over the parts of a batch, whatever workers there "
                 "are, and products over all rows are others"
           : job->place.devices.mixed
               ? "where devices and CPUs train together, gradients are summed on the host"
               : NULL;
}

static const char *why_not_sfb(const struct sw_job *job)
{
    if (job->topology->devices == 0)
        return NULL;
    if (job->topology->is_async)
        return "groups that update on their own change values on the host, which no device can "
               "keep to itself (adam sends factors there)";
    if (sw_job_decides_about_all(job))
        return "grad_clip = norm, on_nan, loss_scale, norms in stop_at and lars look at all "
               "gradients before any update (adam makes them on the host)";
    return NULL;
}

static const char *why_not_adam(const struct sw_job *job)
{
    return sw_job_reduces(job) ? "with allreduce and copy = none no server has anything to do (sfb "
                                 "needs none, copy = async has them at work)"
                               : NULL;
}

static void find_refusals(const struct sw_job *job, const char *refuses[SW_COMM_WAYS])
{
    const char *all = why_not_factors(job);
    refuses[SW_COMM_PS] = NULL;
    refuses[SW_COMM_SFB] = all ? all : why_not_sfb(job);
    refuses[SW_COMM_ADAM] = all ? all : why_not_adam(job);
}

static const struct sw_cluster_conf *cluster_of(const struct sw_job *job)
{
    return sw_recipe_find(job->recipe, "cluster", NULL)->common;
}

int sw_comm_prepare(struct sw_job *job, struct sw_err *err)
{
    const char *refuses[SW_COMM_WAYS];
    int way = cluster_of(job)->comm;
    find_refusals(job, refuses);
    if (way != SW_COMM_AUTO && refuses[way] && update_group_size(job) > 1)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "cluster", NULL), "comm",
                        "%s cannot be: %s; say ps, or leave it out", sw_comm_way_names[way],
                        refuses[way]);
    int rc = sw_recipe_verdict(job->recipe, err);
    return rc == SW_OK ? sw_kept_read(job->options.resume_checkpoint, &job->exchange.comm.kept, err)
                       : rc;
}

/* ---- What `auto` takes ---- */

static const struct sw_comm_choice *find_choice(const struct sw_comm_plan *p, const char *layer)
{
    for (int i = 0; i < p->count; i++)
        if (sw_str_eq(p->choices[i].layer, layer))
            return &p->choices[i];
    return NULL;
}

static enum sw_comm_way least(const struct sw_comm_choice *c)
{
    enum sw_comm_way best = SW_COMM_PS;
    for (int way = 0; way < SW_COMM_WAYS; way++)
        if (c->ms[way] < c->ms[best])
            best = (enum sw_comm_way)way;
    return best;
}

/* All nets ask, and get the answer of the first. */
static enum sw_comm_way choose(void *user, const struct sw_net_comm_layer *l)
{
    struct sw_job *job = user;
    struct sw_comm_plan *p = &job->exchange.comm;
    const struct sw_comm_choice *known = find_choice(p, l->name);
    const char *refuses[SW_COMM_WAYS];
    if (known)
        return known->way;
    struct sw_comm_choice *more =
        p->failed ? NULL : sw_realloc_array(p->choices, (size_t)p->count + 1, sizeof *more);
    p->failed = !more;
    if (!more)
        return SW_COMM_PS; /* what needs no choice, for all workers; sw_comm_verdict says why */
    p->choices = more;
    struct sw_comm_choice *c = &more[p->count++];
    *c = (struct sw_comm_choice){.layer = l->name, .way = sw_kept_comm(p->kept, l->name)};
    find_refusals(job, refuses);
    c->taken_up = c->way != SW_COMM_AUTO && !refuses[c->way];
    for (int way = 0; way < SW_COMM_WAYS; way++)
        c->ms[way] = (double)NAN;
    if (c->taken_up)
        return c->way;
    struct sw_comm_price price;
    sw_comm_predict(job, l, &price);
    for (int way = 0; way < SW_COMM_WAYS; way++)
        if (!refuses[way])
            c->ms[way] = price.ms[way];
    c->way = least(c);
    p->link = price.link[c->way];
    return c->way;
}

int sw_comm_verdict(const struct sw_comm_plan *p, struct sw_err *err)
{
    size_t bytes = sizeof *p->choices * ((size_t)p->count + 1);
    return p->failed ? sw_err_nomem(err, "how gradients come together", bytes) : SW_OK;
}

void sw_comm_args(struct sw_job *job, struct sw_net_comm *out)
{
    *out = (struct sw_net_comm){.way = (enum sw_comm_way)cluster_of(job)->comm,
                                .workers = update_group_size(job),
                                .choose = choose,
                                .user = job};
    if (out->workers > 1)
        find_refusals(job, out->refuses);
}

void sw_comm_write(const struct sw_job *job, struct sw_json_writer *w)
{
    const struct sw_net *net = job->workers[0].train;
    sw_json_open_array(w, "exchange");
    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const char *layer = sw_net_layer(net, i)->name;
        enum sw_comm_way way = sw_net_comm_way(net, i);
        if (way == SW_COMM_PS && !find_choice(&job->exchange.comm, layer))
            continue;
        sw_json_open_object(w, NULL);
        sw_json_string(w, "layer", layer);
        sw_json_string(w, "mode", sw_comm_way_names[way]);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);
}

/* ---- For people ---- */

bool sw_comm_is_asked(const struct sw_job *job)
{
    bool asked = cluster_of(job)->comm != SW_COMM_PS;
    for (const struct sw_section *s = sw_recipe_first(job->recipe, "layer"); s && !asked;
         s = sw_section_next(s))
        asked = sw_section_is_set(s, "comm");
    return asked;
}

/* Values of what is trained of a layer, as they are stored, and of its weight alone. Where devices
 * add up by themselves each parameter begins a line. */
static int64_t values_of(const struct sw_job *job, int i, int64_t *weight)
{
    enum { LINE = 16 };
    const struct sw_net *net = job->workers[0].train;
    int first, count = sw_net_layer_params(net, i, &first);
    int64_t values = 0, line = sw_job_reduces(job) ? LINE : 1;
    *weight = 0;
    for (int p = first; p < first + count; p++) {
        const struct sw_net_param *np = sw_net_param(net, p);
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

void sw_comm_describe(const struct sw_job *job, int i, struct sw_job_comm *out)
{
    const struct sw_net *net = job->workers[0].train;
    enum sw_comm_way way = sw_net_comm_way(net, i);
    const struct sw_comm_choice *c = find_choice(&job->exchange.comm, sw_net_layer(net, i)->name);
    int64_t weight, values = values_of(job, i, &weight);
    int first;
    *out = (struct sw_job_comm){.way = NULL};
    if (values == 0 || update_group_size(job) < 2)
        return;
    struct sw_comm_terms t = {.workers = update_group_size(job),
                              .inputs = (double)weight,
                              .outputs = 1,
                              .devices = job->topology->devices > 0,
                              .reduces = sw_job_reduces(job)};
    if (way != SW_COMM_PS) {
        sw_net_layer_params(net, i, &first);
        const struct sw_table_factors *f =
            sw_table_factors_of(job->params.table, job->workers[0].param_of[SW_SPLIT_TRAIN][first]);
        t.rows = (double)f->rows;
        t.inputs = (double)f->inputs;
        t.outputs = (double)f->outputs;
        t.servers = servers_of(job->params.table, f);
    }
    /* Groups that are apart make updates of their own. */
    int groups = job->topology->update_groups;
    struct sw_comm_count n = sw_comm_count(way, &t, values);
    out->way = sw_comm_way_names[way];
    out->asked = sw_comm_way_names[sw_net_comm_asked(net, i)];
    out->moved = groups * n.moved;
    out->counted = groups * n.counted;
    out->predicted = c && !c->taken_up;
    for (int k = 0; k < SW_COMM_WAYS && c; k++)
        out->ms[k] = c->ms[k];
}

/* ---- Where factors are ---- */

int sw_comm_add(const struct sw_worker *w, int i, int *number, struct sw_err *err)
{
    const struct sw_job *job = w->job;
    const struct sw_layer_factors *l = &sw_net_layer(w->train, i)->factors;
    enum sw_comm_way way = sw_net_comm_way(w->train, i);
    *number = 0;
    if (way == SW_COMM_PS)
        return SW_OK;
    int64_t steps = l->rows / sw_worker_rows(w, SW_SPLIT_TRAIN);
    const struct sw_table_factors f = {.rows = job->conf->batch * steps,
                                       .steps = steps,
                                       .inputs = l->inputs,
                                       .outputs = l->outputs,
                                       .home = job->topology->devices == 0 ? SW_FACTORS_SHARED
                                               : way == SW_COMM_ADAM       ? SW_FACTORS_BY_SERVER
                                                                           : SW_FACTORS_EXCHANGED};
    return sw_table_add_factors(w->table, &f, number, err);
}

int64_t sw_comm_most_rows(const struct sw_worker *w)
{
    return w->job->speed.rebalances ? w->job->conf->batch : sw_worker_rows(w, SW_SPLIT_TRAIN);
}

/* ---- Between devices ---- */

/* Those that devices exchange, in the table's order; returns how many. */
static int list_layers(const struct sw_job *job, struct sw_factors_layer *out)
{
    int count = 0;
    for (int i = 0; i < sw_table_factor_count(job->params.table); i++) {
        const struct sw_table_factors *f = sw_table_factors_at(job->params.table, i);
        if (f->home == SW_FACTORS_EXCHANGED)
            out[count++] = (struct sw_factors_layer){f->steps, f->inputs, f->outputs};
    }
    return count;
}

size_t sw_comm_bytes(const struct sw_job *job)
{
    int64_t rows = job->conf->batch;
    size_t bytes = 0;
    for (int i = 0; i < sw_table_factor_count(job->params.table); i++) {
        const struct sw_table_factors *f = sw_table_factors_at(job->params.table, i);
        const struct sw_factors_layer l = {f->steps, f->inputs, f->outputs};
        if (f->home == SW_FACTORS_EXCHANGED)
            bytes += sw_factors_bytes(&l, 1, rows);
    }
    return bytes;
}

/* Which rows of a batch are whose. */
void sw_comm_set_rows(struct sw_job *job)
{
    for (int i = 0; i < job->topology->workers && job->exchange.comm.factors; i++)
        sw_factors_set_rows(job->exchange.comm.factors, i,
                            sw_worker_first_row(&job->workers[i], SW_SPLIT_TRAIN),
                            sw_worker_rows(&job->workers[i], SW_SPLIT_TRAIN));
}

int sw_comm_make(struct sw_job *job, struct sw_err *err)
{
    int workers = job->topology->workers;
    size_t most = (size_t)sw_table_factor_count(job->params.table) + 1;
    struct sw_factors_layer *layers = sw_calloc(most, sizeof *layers);
    struct sw_device **devices = sw_calloc((size_t)workers, sizeof(void *));
    int rc = layers && devices ? SW_OK
                               : sw_err_nomem(err, "factors of gradients", most * sizeof *layers);
    for (int i = 0; i < workers && rc == SW_OK; i++)
        devices[i] = job->workers[i].device;
    struct sw_factors_args args = {
        .devices = devices, .ranks = workers, .batch_rows = job->conf->batch, .layers = layers};
    if (rc == SW_OK)
        args.count = list_layers(job, layers);
    if (rc == SW_OK && args.count > 0)
        rc = sw_factors_new(&args, &job->exchange.comm.factors, err);
    if (rc == SW_OK && job->exchange.comm.factors)
        rc = sw_fault_attach(&job->fault, sw_factors_close_v, job->exchange.comm.factors, err);
    sw_comm_set_rows(job);
    sw_free(layers);
    sw_free(devices);
    return rc;
}

void sw_comm_fini(struct sw_job *job)
{
    struct sw_comm_plan *p = &job->exchange.comm;
    struct sw_err ignored; /* a stream that has failed has let go of memory all the same */
    for (int i = 0; p->factors && i < job->topology->workers; i++) {
        int rc = sw_stream_wait(job->workers[i].stream, &ignored);
        (void)rc;
    }
    if (p->factors)
        sw_fault_detach(&job->fault, p->factors);
    sw_factors_free(p->factors);
    sw_free(p->choices);
    sw_json_free(p->kept);
}
