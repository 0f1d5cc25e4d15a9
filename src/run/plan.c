/* Describing a job before it runs: rows for `check`, bytes by use, the chosen algorithms. */
#include "run/plan.h"
#include "base/os.h"
#include "base/str.h"
#include "device/tune.h"
#include "net/transfer.h"
#include "plan/choices.h"
#include "plan/saved_choices.h"
#include "run/job_private.h"
#include "run/low_rate.h"
#include "run/memory.h"
#include "worker/worker.h"
#include <stdio.h>
#include <string.h>

static void fill_row(const struct sw_net *net, int i, struct sw_job_layer *row)
{
    const struct sw_layer *l = sw_net_layer(net, i);
    const char *src = sw_section_text(sw_net_section(net, i), "src");
    const struct sw_net_info info = sw_net_info(net, i);
    size_t bytes = info.holds ? sw_desc_bytes(&l->dst.desc) : 0;
    bool input = l->type->role == SW_ROLE_INPUT;

    row->name = l->name;
    row->type = l->type->base.name;
    snprintf(row->choice, sizeof row->choice, "%s", l->algorithm ? l->algorithm : "");
    row->algorithm = l->algorithm ? row->choice : NULL;
    row->src = src ? src : "";
    row->in_place = info.in_place;
    row->handed = info.handed;
    row->fused = info.fused;
    row->spread = info.distribution;
    row->memory = info.residency;
    row->feature_bytes = input || row->in_place || row->handed ? 0 : bytes;
    row->gradient_bytes =
        sw_net_has_backward(net, i) && l->type->role == SW_ROLE_NEURON && !row->in_place ? bytes
                                                                                         : 0;
    row->saved_bytes = l->saved_bytes;
    row->scratch_bytes = l->scratch_bytes;
    row->flops_forward = l->flops_forward;
    row->flops_backward = sw_net_has_backward(net, i) ? l->flops_backward : 0;

    int first, count = sw_net_layer_params(net, i, &first);
    for (int p = 0; p < count; p++) {
        if (sw_net_param(net, first + p)->root >= 0)
            continue; /* counted in the layer that owns it */
        row->params += sw_desc_count(&l->param[p].layout);
        row->param_bytes += sw_desc_bytes(&l->param[p].layout);
    }

    sw_shape_text(l->dst.desc.ndim, l->dst.desc.dim, row->shape, sizeof row->shape);
    sw_desc_text(&l->dst.desc, row->layout);
}

/* Adds the other microbatches of the first worker to the row. */
static void add_microbatches(const struct sw_worker *w, int split, int i, struct sw_job_layer *row)
{
    const struct sw_microbatches *microbatches = w->microbatches[split];
    const struct sw_desc *d = &sw_net_layer(sw_microbatches_net(microbatches, 0), i)->dst.desc;
    int64_t dim[SW_MAX_DIMS];

    memcpy(dim, d->dim, sizeof dim);

    for (int k = 1; k < sw_microbatches_count(microbatches); k++) {
        struct sw_job_layer other = {0};
        const struct sw_net *net = sw_microbatches_net(microbatches, k);

        fill_row(net, i, &other);
        dim[0] += sw_net_layer(net, i)->dst.desc.dim[0];
        row->feature_bytes += other.feature_bytes;
        row->gradient_bytes += other.gradient_bytes;
        row->saved_bytes += other.saved_bytes;
        row->flops_forward += other.flops_forward;
        row->flops_backward += other.flops_backward;
        if (other.scratch_bytes > row->scratch_bytes) /* the microbatches of a thread share it */
            row->scratch_bytes = other.scratch_bytes;
    }

    sw_shape_text(d->ndim, dim, row->shape, sizeof row->shape);
}

static void fill_movement(const struct sw_net *net, int i, struct sw_job_layer *row)
{
    struct sw_net_movement m;

    row->moves = sw_net_movement(net, i, &m);
    for (int back = 0; back < 2 && row->moves; back++) {
        row->movement.operation[back] = m.operation[back];
        row->movement.moved[back] = m.moved[back];
        row->movement.counted[back] = m.counted[back];
    }
}

/* Adds what every worker of the first group has of layer i; layers have the same index in all nets.
 */
static void add_shards(struct sw_job *job, int split, int i, int n)
{
    if (!job->report.shards)
        return;

    struct sw_job_shard *shards = &job->report.shards[n * job->topology->group_size];
    for (int w = 0; w < job->topology->group_size; w++) {
        const struct sw_net *net = sw_microbatches_net(job->workers[w].microbatches[split], 0);
        struct sw_job_layer own = {0};

        fill_row(net, i, &own);
        shards[w].params += own.params;
        shards[w].bytes +=
            own.param_bytes + own.feature_bytes + own.gradient_bytes + own.saved_bytes;
        shards[w].flops += own.flops_forward + own.flops_backward;
        shards[w].sent_bytes += sw_net_sent_bytes(net, i, w);
        if (sw_net_info(net, i).holds)
            memcpy(shards[w].shape, own.shape, sizeof own.shape);
    }

    job->report.layers[n].shards = shards;
}

/* The list of rows while it is made. */
struct listing {
    struct sw_job *job;
    int split, count;
    int *row_of; /* [layers of the net] */
};

/* Fills the earlier rows that row n reads. */
static void fill_reads(const struct listing *s, const struct sw_net *net, int i, int n)
{
    struct sw_job_layer *row = &s->job->report.layers[n];

    enum { MOST = sizeof row->reads / sizeof *row->reads };

    for (int k = 0, from; (from = sw_net_source(net, i, k)) >= 0; k++) {
        int r = s->row_of[from], known = 0;
        while (known < row->read_count && row->reads[known] != r)
            known++;
        if (r < n && known == row->read_count && known < MOST)
            row->reads[row->read_count++] = r;
    }

    /* A connection has the recipe section of the layer whose outputs it moves, but other inputs. */
    if (sw_str_starts(row->type, "bridge_"))
        row->src = row->read_count > 0 ? s->job->report.layers[row->reads[0]].name : "";
}

/* The suffix after the step number in a layer's name: "gru@0:one1". */
static const char *suffix_of(const struct sw_layer *l)
{
    const char *at = strrchr(l->name, '@');
    return at ? at + 1 + strspn(at + 1, "0123456789") : "";
}

/* The row of the first step if layer i is a later step of an unrolled layer; -1 otherwise. */
static int row_of_first(const struct listing *s, const struct sw_net *net, int i)
{
    const struct sw_layer *l = sw_net_layer(net, i);
    int steps;
    if (sw_net_step_at(net, i, &steps) <= 0)
        return -1;

    for (int j = 0; j < i; j++) {
        const struct sw_layer *other = sw_net_layer(net, j);
        if (other->home == l->home && other->type == l->type &&
            sw_net_step_at(net, j, &steps) == 0 && sw_str_eq(suffix_of(other), suffix_of(l)))
            return s->row_of[j];
    }

    return -1;
}

static void add_step(struct sw_job_layer *to, const struct sw_job_layer *step)
{
    to->feature_bytes += step->feature_bytes;
    to->gradient_bytes += step->gradient_bytes;
    to->saved_bytes += step->saved_bytes;
    to->flops_forward += step->flops_forward;

    to->flops_backward += step->flops_backward;
    for (int back = 0; back < 2; back++) {
        to->movement.moved[back] += step->movement.moved[back];
        to->movement.counted[back] += step->movement.counted[back];
    }

    if (step->scratch_bytes > to->scratch_bytes) /* the steps share it */
        to->scratch_bytes = step->scratch_bytes;
}

/* Adds a layer to the list; all steps of an unrolled layer are one row. */
static void list_layer(struct listing *s, const struct sw_net *net, int i)
{
    struct sw_job *job = s->job;
    int first = row_of_first(s, net, i), n = first >= 0 ? first : s->count++, steps;
    struct sw_job_layer layer = {0}, *row = &job->report.layers[n];

    fill_row(net, i, &layer);
    add_microbatches(&job->workers[0], s->split, i, &layer);
    fill_movement(sw_microbatches_net(job->workers[0].microbatches[s->split], 0), i, &layer);

    if (s->split == SW_SPLIT_TRAIN)
        sw_exchange_modes_describe(&job->exchange, job->workers[0].train,
                                   job->workers[0].param_of[SW_SPLIT_TRAIN], i, &layer.comm);

    s->row_of[i] = n;

    if (first >= 0) {
        add_step(row, &layer);
    } else {
        *row = layer;
        row->algorithm = layer.algorithm ? row->choice : NULL;
    }

    if (first < 0 && sw_net_step_at(net, i, &steps) >= 0) {
        const struct sw_layer *l = sw_net_layer(net, i);
        row->steps = steps;
        snprintf(row->range, sizeof row->range, "%.48s@0..%d%.16s", l->home, steps - 1,
                 suffix_of(l));
        row->name = row->range;
    }

    add_shards(job, s->split, i, n);
    fill_reads(s, net, i, n);
}

static void list_comm_notes(struct sw_job *job, const struct sw_net *net)
{
    struct sw_bytes *notes = &job->report.comm_notes;
    char rates[512];

    sw_bytes_clear(notes);
    if (*sw_exchange_modes_rates(&job->exchange, rates))
        sw_bytes_printf(notes, "%s\n", rates);
    if (!job->exchange.comm.by_default)
        sw_bytes_add(notes, sw_net_exchange_notes(net));
    job->plan.comm_notes = sw_bytes_text(notes);
}

/* Lists the layers of the training net, then those of the evaluation net alone. */
static int fill_rows(struct sw_job *job, struct sw_err *err)
{
    const struct sw_net *train = job->workers[0].train, *eval = job->workers[0].eval;
    int train_count = sw_net_layer_count(train), eval_count = eval ? sw_net_layer_count(eval) : 0;
    size_t most = (size_t)(train_count + eval_count);

    /* With several microbatches per worker layers are split by rows only, so shards are not listed.
     */
    const bool shards = job->topology->group_size > 1 && job->workers[0].rank->microbatches == 1;
    struct listing s = {.job = job, .split = SW_SPLIT_TRAIN};

    job->report.layers = sw_calloc(most, sizeof *job->report.layers);

    if (shards)
        job->report.shards =
            sw_calloc(most * (size_t)job->topology->group_size, sizeof *job->report.shards);

    int *rows = job->report.rows = sw_calloc(most + 1, sizeof *rows);
    if (!job->report.layers || (shards && !job->report.shards) || !rows)
        return sw_err_nomem(err, "the list of layers", 0);

    s.row_of = rows;
    for (int i = 0; i < train_count; i++) {
        list_layer(&s, train, i);
        job->report.layers[s.row_of[i]].train = true;
    }

    s.split = SW_SPLIT_EVAL;

    s.row_of = rows + train_count;
    for (int i = 0; i < eval_count; i++) {
        int same = sw_net_find(train, sw_net_layer(eval, i)->name);

        if (same >= 0)
            s.row_of[i] = rows[same];
        else
            list_layer(&s, eval, i);

        job->report.layers[s.row_of[i]].eval = true;
    }

    job->plan.comm_requested = sw_exchange_modes_are_requested(&job->exchange);
    list_comm_notes(job, train);
    job->plan.group_size = job->topology->group_size;
    job->plan.layer_count = s.count;
    job->plan.layers = job->report.layers;

    return SW_OK;
}

static double flops_of(const struct sw_net *net)
{
    double flops = 0;

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const struct sw_layer *l = sw_net_layer(net, i);
        flops += l->flops_forward + (sw_net_has_backward(net, i) ? l->flops_backward : 0);
    }

    return flops;
}

/* Operations of one step by all workers; they do not depend on how layers are split. */
static double flops_of_step(const struct sw_job *job)
{
    double flops = 0;

    for (int w = 0; w < job->topology->workers; w++)
        for (int i = 0; i < job->workers[w].rank->microbatches; i++)
            flops += flops_of(sw_microbatches_net(job->workers[w].microbatches[SW_SPLIT_TRAIN], i));

    return flops;
}

static void write_rows(const struct sw_job *job, struct sw_json_writer *w)
{
    sw_json_open_array(w, "rows");
    for (int i = 0; i < job->topology->microbatches; i++)
        sw_json_int(w, NULL, job->rows.rows[SW_SPLIT_TRAIN][i]);
    sw_json_close_array(w);
}

static void write_algorithms(const struct sw_net *net, struct sw_json_writer *w)
{
    sw_json_open_array(w, "algorithms");

    for (int i = 0, steps; i < sw_net_layer_count(net); i++) {
        const struct sw_layer *l = sw_net_layer(net, i);
        if (!l->algorithm || sw_net_step_at(net, i, &steps) > 0)
            continue;

        sw_json_open_object(w, NULL);
        sw_json_string(w, "layer", l->name);
        sw_json_string(w, "algorithm", l->algorithm);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

/* Writes the format that saved_choices.h describes. */
int sw_job_write_choices(struct sw_job *job, struct sw_err *err)
{
    struct sw_bytes b = {0};
    struct sw_json_writer w;
    const struct sw_placement_row *row = sw_placement_worker(job->place.placement, 0);

    sw_json_begin(&w, &b);
    sw_json_open_object(&w, NULL);
    sw_json_int(&w, "version", SW_SAVED_CHOICES_VERSION);

    if (job->conf->repeat_exact) {
        sw_json_int(&w, "microbatches", job->topology->microbatches);
    } else {
        sw_json_int(&w, "workers", job->topology->workers);
        sw_json_int(&w, "threads", row->threads);
    }

    if (job->topology->worker_groups > 1)
        sw_json_int(&w, "worker_groups", job->topology->worker_groups);
    if (job->speed.rebalances)
        write_rows(job, &w);
    sw_exchange_modes_write(&job->exchange, job->workers[0].train, &w);
    sw_json_open_array(&w, "tune");
    if (job->speed.tune)
        sw_tune_write(job->speed.tune, true, &w);
    sw_json_close_array(&w);
    write_algorithms(job->workers[0].train, &w);
    sw_json_close_object(&w);
    sw_free(job->report.choices);
    job->report.choices = sw_bytes_take(&b);

    return job->report.choices ? SW_OK : sw_err_nomem(err, "the list of choices", 0);
}

static void describe_data(const struct sw_job *job, int split, char *out, size_t bytes)
{
    struct sw_bytes b = {0};

    out[0] = '\0';
    if (!job->data.source[split])
        return;

    sw_data_describe(job->data.source[split], &b);
    if (split == SW_SPLIT_TRAIN && sw_worker_reads_pixels(&job->workers[0]))
        sw_bytes_add(&b, ", uploaded as bytes");
    snprintf(out, bytes, "%s: %s", job->data.section[split]->name, sw_bytes_text(&b));
    sw_bytes_fini(&b);
}

void sw_job_describe_roles(struct sw_job *job)
{
    struct sw_job_plan *p = &job->plan;

    p->name = job->options.name;
    p->recipe = sw_recipe_path(job->recipe);
    p->device = job->place.devices.text;
    p->device_why = job->place.device_why;
    p->limits = sw_bytes_text(&job->report.limits);
    p->framework = job->report.framework.name;
    p->framework_reason = job->report.framework.reason;
    p->precision = sw_precision_name((enum sw_precision)job->conf->precision);
    p->loss_scale = job->conf->loss_scale;
    p->loss_scale_every = job->conf->loss_scale_every;
    p->copy = job->topology->devices > 0 ? sw_copy_mode_name(job->exchange.copy) : "";
    p->copy_why = job->exchange.copy_why;
    p->sums = job->exchange.sums.why;
    p->batch = job->conf->batch;
    p->eval_batch = job->conf->eval_batch;
    p->placement = job->place.placement;
    p->machine = job->place.machine;
    p->fallback = sw_bytes_text(&job->report.fallback);

    sw_bytes_clear(&job->report.warnings);
    if (*job->report.framework.warning)
        sw_bytes_printf(&job->report.warnings, "%s\n", job->report.framework.warning);
    p->warnings = sw_bytes_text(&job->report.warnings);
}

int sw_job_describe(struct sw_job *job, struct sw_err *err)
{
    struct sw_job_plan *p = &job->plan;

    int rc = fill_rows(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_write_choices(job, err);
    if (rc != SW_OK)
        return rc;

    sw_job_describe_roles(job);
    sw_low_rate_describe(job);
    sw_job_sum_memory(job);
    p->params = sw_table_elements(job->params.table);
    p->steps = job->span.run_steps;
    p->stage = job->stage.name;
    p->stage_index = job->stage.index;
    p->stage_count = job->stage.count;
    p->stage_from = job->span.stage_from;
    p->stage_steps = job->span.horizon;
    p->stages = sw_bytes_text(&job->stage.text);
    p->streams = sw_net_stream_count(job->workers[0].train);
    p->flops_per_sample = flops_of_step(job) / (double)sw_topology_samples(job->topology, 1);
    sw_free(job->report.partition_notes);

    p->notes = job->report.partition_notes = sw_strdup(sw_net_notes(job->workers[0].train));
    if (!p->notes)
        return sw_err_nomem(err, "the partitioner's notes", 0);

    for (int s = 0; s < SW_SPLITS; s++) {
        const struct sw_section *section = job->data.section[s];

        describe_data(job, s, p->data[s], sizeof p->data[s]);
        p->synthetic[s] = section && sw_section_fell_from(section) &&
                          sw_str_eq(section->type[0]->name, "synthetic");
    }
    return SW_OK;
}
