/* The planner's model of a training net: a layer for each row of the plan, with the sums over its
 * time steps. */
#include "base/os.h"
#include "exchange/table/table.h"
#include "net/layer_choices.h"
#include "run/job_private.h"
#include "run/memory.h"
#include "run/planning_private.h"
#include "worker/worker.h"

/* ---- Bytes of a pass ---- */

static double bytes_of(const struct sw_desc *d)
{
    return d->ndim > 0 ? (double)sw_desc_bytes(d) : 0;
}

/* Does backward of layer i write the gradient of source k? */
static bool writes_gradient(const struct sw_net *net, int i, int k)
{
    return !(sw_net_layer(net, i)->type->targets & 1u << k) &&
           sw_net_has_backward(net, sw_net_source(net, i, k));
}

/* Parameters that the pass reads, and in backward the gradients that it writes. */
static double param_bytes(const struct sw_net *net, int i, bool backward)
{
    int first, count = sw_net_layer_params(net, i, &first);
    double bytes = 0;

    for (int p = 0; p < count; p++) {
        const double each = bytes_of(&sw_net_layer(net, i)->param[p].layout);
        bytes += backward && !sw_net_param(net, first + p)->frozen ? 2 * each : each;
    }

    return bytes;
}

/* Memory that a pass of layer i reads and writes, each array once. */
static double pass_bytes(const struct sw_net *net, int i, bool backward)
{
    const struct sw_layer *l = sw_net_layer(net, i);
    const struct sw_net_info info = sw_net_info(net, i);
    double bytes = param_bytes(net, i, backward) + (double)l->saved_bytes;

    if (l->type->role == SW_ROLE_INPUT || (info.in_place && l->view) || (info.fused && !backward))
        return 0;

    bytes += bytes_of(&l->dst.desc) * (backward ? 1 + l->backward_reads_dst : 1);

    for (int k = 0; k < l->src_count; k++) {
        const bool reads = !backward || l->backward_reads_src & 1u << k;
        const int arrays = reads + (backward && writes_gradient(net, i, k));
        bytes += arrays * bytes_of(&l->src[k]->desc);
    }

    return bytes;
}

/* ---- Layers ---- */

/* Elements of the parameters that are trained, or of those that are not. */
static int64_t count_params(const struct sw_net *net, int i, bool frozen)
{
    int first, count = sw_net_layer_params(net, i, &first);
    int64_t params = 0;

    for (int p = 0; p < count; p++)
        if (sw_net_param(net, first + p)->frozen == frozen &&
            sw_net_param(net, first + p)->root < 0)
            params += sw_desc_count(&sw_net_layer(net, i)->param[p].layout);

    return params;
}

/* Arrays of these. */
static int trained_arrays(const struct sw_net *net, int i)
{
    int first, count = sw_net_layer_params(net, i, &first), arrays = 0;

    for (int p = 0; p < count; p++)
        arrays += !sw_net_param(net, first + p)->frozen && sw_net_param(net, first + p)->root < 0;
    return arrays;
}

static double columns_of(const struct sw_layer *l)
{
    const struct sw_desc *d = &l->dst.desc;
    return d->ndim > 0 && d->dim[0] > 0 ? (double)sw_desc_count(d) / (double)d->dim[0] : 0;
}

/* What a row of the plan says of all steps and microbatches. */
static void fill_from_row(struct sw_layer_model *m, const struct sw_job_layer *row)
{
    m->name = row->name;
    m->type = row->type;
    m->forward_flops = row->flops_forward;
    m->backward_flops = row->flops_backward;
    m->output_bytes = (int64_t)row->feature_bytes;
    m->gradient_bytes = (int64_t)row->gradient_bytes;
    m->saved_bytes = (int64_t)row->saved_bytes;
    m->scratch_bytes = (int64_t)row->scratch_bytes;

    for (int k = 0; k < row->read_count; k++)
        m->source[m->source_count++] = row->reads[k];
}

static int check_sources(const struct sw_job_plan *plan, int count, struct sw_err *err)
{
    for (int r = 0; r < count; r++)
        if (plan->layers[r].read_count > SW_PLANNER_SOURCES)
            return sw_err_set(err, SW_ERR_UNSUPPORTED,
                              "layer %s reads %d layers: the planner knows nets whose layers read "
                              "at most %d",
                              plan->layers[r].name, plan->layers[r].read_count, SW_PLANNER_SOURCES);
    return SW_OK;
}

/* Adds a layer of the net, perhaps one of several steps of the row. scale: rows of the batch for
 * each row of this net. */
static void add_node(struct sw_planning_net *p, int i, int row, double scale)
{
    struct sw_layer_model *m = &p->layer[row];
    const struct sw_layer *l = sw_net_layer(p->net, i);
    const bool backward = sw_net_has_backward(p->net, i);

    m->columns += columns_of(l);
    m->params += count_params(p->net, i, false);
    m->frozen += count_params(p->net, i, true);
    m->arrays += trained_arrays(p->net, i);
    m->has_backward = m->has_backward || backward;
    m->forward_bytes += scale * pass_bytes(p->net, i, false);
    m->backward_bytes += backward ? scale * pass_bytes(p->net, i, true) : 0;
}

/* Fills what only the first step tells. */
static void fill_first(struct sw_planning_net *p, int i, int row)
{
    struct sw_layer_model *m = &p->layer[row];
    const struct sw_layer *l = sw_net_layer(p->net, i);
    struct sw_layer_factors f;

    p->own[row].node = i;
    p->own[row].home = l->home;
    p->own[row].is_unrolled = sw_net_is_unrolled(p->net, i);

    m->is_input = l->type->role == SW_ROLE_INPUT;
    m->reads_columns = sw_net_reads_columns(p->net, i);
    m->joins = sw_net_joins_columns(p->net, i);
    m->units = (double)sw_net_columns(p->net, i);
    m->in_place = sw_net_info(p->net, i).in_place;
    m->may_recompute = sw_net_restorable(p->net, i).by_recomputing;
    m->may_offload = sw_net_restorable(p->net, i).by_offloading;
    if (p->job->conf->repeat_exact || sw_net_refuses_factors(p->net, i, &f))
        return;

    m->steps = (double)f.rows / (double)sw_net_rows(p->net);
    m->inputs = (double)f.inputs;
    m->outputs = (double)f.outputs;
}

static void fill_layers(struct sw_planning_net *p)
{
    const struct sw_job_plan *plan = &p->job->plan;
    const double scale = (double)p->model.batch / (double)sw_net_rows(p->net);

    for (int r = 0; r < p->model.count; r++) {
        fill_from_row(&p->layer[r], &plan->layers[r]);
        p->own[r].node = -1;
    }

    for (int i = 0; i < sw_net_layer_count(p->net); i++) {
        const int r = p->job->report.rows[i];
        if (p->own[r].node < 0)
            fill_first(p, i, r);
        add_node(p, i, r, scale);
    }
}

/* Of what all layers have, the part that is needed at once. */
static double memory_share(const struct sw_planning_net *p)
{
    double all = 0;

    for (int i = 0; i < p->model.count; i++) {
        const struct sw_layer_model *l = &p->layer[i];
        all += (double)(l->output_bytes + l->gradient_bytes + l->saved_bytes + l->scratch_bytes);
    }

    const double arena = (double)p->job->workers[0].arena.bytes;
    return arena > 0 && arena < all ? arena / all : 1;
}

/* ---- Partitions ---- */

/* Why all layers of the job are split by rows, or NULL. */
static const char *rows_alone(const struct sw_job *job)
{
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;

    return job->conf->repeat_exact ? "with repeat_exact all layers are split by rows"
           : c->rebalance          ? "with rebalance all layers are split by rows"
                                   : NULL;
}

/* All time steps of a layer are where its section says. */
static bool has_location(const struct sw_planning_net *p, int layer)
{
    const struct sw_section *s = sw_net_section(p->net, p->own[layer].node);
    return s && sw_section_is_set(s, "location");
}

static const char *refuses(const struct sw_net_model *m, int layer, enum sw_partition p,
                           int workers)
{
    const struct sw_planning_net *own = m->user;

    if (p == SW_PARTITION_ROWS)
        return NULL;
    if (own->own[layer].is_unrolled)
        return p == SW_PARTITION_NONE && has_location(own, layer)
                   ? NULL
                   : "time steps of a layer are split by rows, unless they have a location";

    const char *reason = rows_alone(own->job);
    return reason ? reason : sw_net_refuses_partition(own->net, own->own[layer].node, p, workers);
}

/* ---- The whole ---- */

static int count_rows(const struct sw_job_plan *plan)
{
    int count = 0;
    while (count < plan->layer_count && plan->layers[count].train)
        count++;
    return count;
}

/* Bytes of a worker that no partition changes. */
static int64_t fixed_bytes(const struct sw_job *job)
{
    const struct sw_worker *w = job->workers;

    return w->device->host_memory ? (int64_t)job->plan.bytes.batches
                                  : (int64_t)(sw_worker_fixed_bytes(w) - sw_worker_param_bytes(w));
}

int sw_planning_net(const struct sw_job *job, struct sw_net_model **out, struct sw_err *err)
{
    const int count = count_rows(&job->plan);
    const struct sw_cluster_conf *cluster = sw_recipe_find(job->recipe, "cluster", NULL)->common;

    if (job->topology->workers != 1)
        return sw_err_set(err, SW_ERR_INVALID, "a model is made of a job with one worker, not %d",
                          job->topology->workers);

    int rc = check_sources(&job->plan, count, err);
    if (rc != SW_OK)
        return rc;

    struct sw_planning_net *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "the model of a net", sizeof *p);

    p->layer = sw_calloc((size_t)count + 1, sizeof *p->layer);
    p->own = sw_calloc((size_t)count + 1, sizeof *p->own);
    if (!p->layer || !p->own) {
        sw_planning_net_free(&p->model);
        return sw_err_nomem(err, "the model of a net", (size_t)count * sizeof *p->layer);
    }

    p->job = job;
    p->net = job->workers[0].train;
    p->model = (struct sw_net_model){
        .layer = p->layer,
        .count = count,
        .batch = job->conf->batch,
        .updater_slots = sw_table_slots(job->params.table),
        .sync_period = cluster->sync_period,
        .warmup_steps = cluster->warmup_steps,
        .fixed_bytes = fixed_bytes(job),
        .controls_updates = job->exchange.args.controls_updates,
        .copy = sw_copy_terms_of(job->recipe, job->conf, cluster, &job->place.devices),
        .refuses = refuses,
        .user = p};
    fill_layers(p);
    p->model.memory_share = memory_share(p);

    *out = &p->model;
    return SW_OK;
}

void sw_planning_net_free(struct sw_net_model *m)
{
    if (!m)
        return;

    struct sw_planning_net *p = sw_planning_of(m);
    for (int i = 0; p->own && i < m->count; i++)
        sw_free(p->own[i].samples);
    sw_free(p->own);
    sw_free(p->rest);
    sw_free(p->layer);
    sw_free(p);
}

/* ---- Keys of the recipe ---- */

int sw_planning_keys(const struct sw_net_model *m, struct sw_planning_keys *out, struct sw_err *err)
{
    const struct sw_planning_net *p = m->user;
    int **const list[] = {&out->partition, &out->location, &out->comm};

    *out = (struct sw_planning_keys){0};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        *list[k] = sw_calloc((size_t)m->count + 1, sizeof **list[k]);
        if (!*list[k]) {
            sw_planning_keys_fini(out);
            return sw_err_nomem(err, "the keys of layers", (size_t)m->count * sizeof(int));
        }
    }

    for (int i = 0; i < m->count; i++) {
        const struct sw_section *s = sw_net_section(p->net, p->own[i].node);
        const struct sw_layer_conf *c = s->common;

        out->partition[i] = out->location[i] = out->comm[i] = -1;
        if (p->own[i].is_unrolled && !has_location(p, i))
            continue; /* by rows, whatever the keys say */

        out->partition[i] = sw_section_is_set(s, "partition")  ? c->partition
                            : sw_section_is_set(s, "location") ? SW_PARTITION_NONE
                                                               : -1;
        out->location[i] = sw_section_is_set(s, "location") ? (int)c->location : -1;
        out->comm[i] = sw_section_is_set(s, "comm") ? c->comm : -1;
    }

    return SW_OK;
}

void sw_planning_keys_fini(struct sw_planning_keys *k)
{
    sw_free(k->partition);
    sw_free(k->location);
    sw_free(k->comm);
    *k = (struct sw_planning_keys){0};
}
