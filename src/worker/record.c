/* Records a step: rows for the history (curves, traffic of links, the time breakdown), the worker's
 * slot of the live snapshot, and a display event when it is due. Each worker records its own; the
 * last one of a step records what is summed over all, and the first worker of an update group the
 * norms, which are known some steps later. */
#include "worker/record.h"
#include "base/os.h"
#include "exchange/table/sync.h"
#include "net/transfer.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include <math.h>
#include <string.h>

/* Samples per second of all workers, which take about the same time for their steps. */
static double speed(const struct sw_worker *w)
{
    double seconds = (double)w->timer.trained_ns * 1e-9;
    int64_t samples = sw_topology_samples(w->topology, w->step) -
                      sw_topology_samples(w->topology, w->record.first_step);
    return seconds > 0 ? (double)samples / seconds : (double)NAN;
}

void sw_record_event(const struct sw_worker *w, int split, struct sw_job_event *e)
{
    const struct sw_job_span *span = w->shared.span;
    const struct sw_job_metrics *metrics = w->shared.metrics;
    const int64_t samples_left = sw_topology_samples(w->topology, span->run_steps) -
                                 sw_topology_samples(w->topology, w->step);

    e->step = w->step;
    e->steps = span->run_steps;
    e->elapsed_s = (double)(sw_os()->monotonic_ns() - span->run_began_ns) * 1e-9;
    e->split = split == SW_SPLIT_TRAIN ? "train" : w->shared.data->section[SW_SPLIT_EVAL]->name;
    e->metric_count = metrics->count[split];
    memcpy(e->metric, metrics->last[split], sizeof e->metric);

    e->lr = (double)NAN;
    if (w->step > 0)
        e->lr = sw_table_rate(w->shared.params->table, (uint64_t)w->step - 1);
    e->samples_per_s = speed(w);
    e->eta_s = e->samples_per_s > 0 ? (double)samples_left / e->samples_per_s : (double)NAN;
}

static bool display_due(const struct sw_worker *w)
{
    const struct sw_display_policy *d = w->shared.display;
    if (w->step - w->shared.span->first_step <= d->first_steps ||
        w->step >= w->shared.span->steps || (d->every_steps > 0 && w->step % d->every_steps == 0))
        return true;

    return __atomic_exchange_n(&w->shared.requests->display_requested, 0, __ATOMIC_RELAXED) != 0;
}

static void add_point(const struct sw_worker *w, int curve, double value)
{
    sw_history_point(w->record.curves.producer, curve, w->step, value);
}

static void add_traffic(const struct sw_worker *w, int link, int64_t bytes, double ms)
{
    sw_history_traffic(w->record.curves.producer, link, w->step, bytes, ms);
}

/* Gradients to the servers of the worker's table, and values from them. */
static void record_servers(struct sw_worker *w, const double copied_ms[2])
{
    const struct sw_worker_links *links = &w->record.links;
    const int servers = w->topology->servers_per_group, rank = w->rank->table_rank;
    int64_t all_bytes = 0;

    for (int s = 0; s < servers; s++)
        all_bytes += sw_table_link_bytes(w->table, rank, s);

    for (int s = 0; s < servers; s++) {
        int64_t bytes = sw_table_link_bytes(w->table, rank, s);
        if (bytes == 0)
            continue;

        double share = (double)bytes / (double)all_bytes;
        int64_t pushed =
            sw_table_pushed_bytes(w->table, rank, sw_worker_rows(w, SW_SPLIT_TRAIN), s);
        add_traffic(w, links->to_server[s], pushed, copied_ms[1] * share);
        if (!w->device->host_memory)
            add_traffic(w, links->from_server[s], bytes, copied_ms[0] * share);
    }
}

/* For the main thread, which does not wait for any of them, nor do workers wait for it. */
static void post_breakdown(struct sw_worker *w)
{
    const struct sw_step_breakdown b = {w->timer.ledger, w->timer.computed_ms, w->timer.resumes};

    w->timer.resumes = false;
    if (w->shared.breakdowns) {
        int rc = sw_queue_try_push(w->shared.breakdowns, &b);
        (void)rc;
    }
}

/* Records what concerns this worker alone. */
static void record_own(struct sw_worker *w)
{
    const struct sw_exchange_plan *e = w->shared.exchange_plan;
    const struct sw_worker_links *links = &w->record.links;
    const int own = w->rank->global_rank;
    double copied_ms[2];

    w->timer.ledger.step = w->step;
    w->timer.ledger.worker = own;
    sw_ledger_add_hidden(w, copied_ms);
    sw_history_step_time(w->record.curves.producer, &w->timer.ledger);
    post_breakdown(w);
    record_servers(w, copied_ms);

    for (int i = 0; i < w->topology->workers; i++) {
        if (i != own && links->sums)
            add_traffic(w, links->sums[i], sw_allreduce_round_bytes(e->sums.all_reduce, own, i), 0);
        if (i != own && links->factors)
            add_traffic(w, links->factors[i], sw_factors_round_bytes(e->comm.factors, own, i), 0);
    }
}

void sw_record_sync(struct sw_worker *w)
{
    int groups = w->topology->server_groups, per = w->topology->servers_per_group;
    int own = w->rank->server_group;

    if (!w->shared.params->sync || groups == 1 || w->rank->table_rank != 0)
        return;

    for (int i = 0; i < groups * per; i++) {
        int64_t sent = sw_sync_sent(w->shared.params->sync, own, i / per, i % per);
        int64_t recorded = w->record.links.sync_recorded_bytes[i];
        if (sent > recorded)
            add_traffic(w, w->record.links.sync[i], sent - recorded, 0);
        w->record.links.sync_recorded_bytes[i] = sent;
    }
}

/* Records the activations that moved to other workers: the bytes of the net's connections, and the
 * time of the copies that ended since (the last ones of a step may still be in flight). */
static void record_activations(struct sw_worker *w)
{
    const struct sw_transfer *e = w->shared.groups->transfers[SW_SPLIT_TRAIN][w->rank->group];
    struct sw_worker_links *links = &w->record.links;

    for (int i = 0; i < w->topology->group_size; i++) {
        if (links->activations[i] < 0)
            continue;

        int64_t ns = sw_transfer_ns(e, w->rank->rank, i);
        add_traffic(w, links->activations[i], sw_net_moved_bytes(w->train, w->rank->rank, i),
                    (double)(ns - links->activations_recorded_ns[i]) * 1e-6);
        links->activations_recorded_ns[i] = ns;
    }
}

/* Records what concerns all workers; by the last worker of the step. */
static int record_all(struct sw_worker *w, int64_t step_ns, struct sw_err *err)
{
    const struct sw_series *s = &w->record.series[SW_SPLIT_TRAIN];
    struct sw_job_metrics *metrics = w->shared.metrics;
    int64_t samples =
        sw_topology_samples(w->topology, w->step) - sw_topology_samples(w->topology, w->step - 1);

    int rc = sw_worker_total(w, w->step, s->totals, s->pairs, err);
    if (rc != SW_OK)
        return rc;

    sw_results_read(w->train, s, s->totals, metrics->last[SW_SPLIT_TRAIN],
                    &metrics->count[SW_SPLIT_TRAIN]);
    for (int i = 0; i < s->count; i++)
        add_point(w, s->handle[i], metrics->last[SW_SPLIT_TRAIN][i].value);
    add_point(w, w->record.curves.rate,
              sw_table_rate(w->shared.params->table, (uint64_t)w->step - 1));
    add_point(w, w->record.curves.speed,
              (double)samples * 1e9 / (double)(step_ns > 0 ? step_ns : 1));

    if (display_due(w)) {
        struct sw_job_event e = {.type = SW_JOB_DISPLAY};
        sw_record_event(w, SW_SPLIT_TRAIN, &e);
        sw_events_post(w->shared.events, &e, NULL);
    }

    return SW_OK;
}

static void report_overflow(struct sw_worker *w, int64_t t, const struct sw_table_control *d)
{
    sw_events_report_at(
        w->shared.events, t, SW_LOG_INFO, w->role,
        "update %lld is skipped (%llu so far): gradients overflow at loss scale %.0f, "
        "which becomes %.0f",
        (long long)t, (unsigned long long)d->dropped_so_far, d->loss_scale, d->loss_scale / 2);
}

/* Records the means over the update groups: of all, and of those whose updates were made. */
static void record_control(struct sw_worker *w, int64_t t, const struct sw_table_control *d)
{
    struct sw_result all[SW_DECISION_PAIRS] = {
        {d->grad_norm, 1}, {d->dropped ? 0 : d->grad_norm, !d->dropped}, {d->loss_scale, 1}};
    const struct sw_worker_curves *c = &w->record.curves;
    struct sw_group *leaders = &w->shared.groups->leaders;
    struct sw_norm *norm = &w->shared.metrics->norm;

    if (d->overflow)
        report_overflow(w, t, d);
    if (!sw_group_deposit(leaders, w->rank->update_group, t, all, SW_DECISION_PAIRS))
        return;

    struct sw_err none; /* only sums over hosts fail */
    int rc = sw_group_total(leaders, t, all, SW_DECISION_PAIRS, &none);
    if (rc != SW_OK)
        return;

    *norm =
        (struct sw_norm){.step = t,
                         .value = all[0].sum / all[0].weight,
                         .of_made = all[1].weight > 0 ? all[1].sum / all[1].weight : (double)NAN};
    sw_history_point(c->producer, c->norm, t, norm->value);
    if (c->scale >= 0)
        sw_history_point(c->producer, c->scale, t, all[2].sum / all[2].weight);
}

/* A norm is known after all servers have summed, so some time after its step. */
void sw_record_norms(struct sw_worker *w)
{
    struct sw_table_control d;
    int group = sw_table_update_group(w->table, w->rank->table_rank);

    if (w->record.curves.norm < 0 || !sw_worker_leads(w))
        return;

    for (; w->record.curves.norms_step < w->step; w->record.curves.norms_step++) {
        if (!sw_table_control(w->table, group, (uint64_t)w->record.curves.norms_step + 1, &d))
            return;
        record_control(w, w->record.curves.norms_step + 1, &d);
    }
}

int sw_record_step(struct sw_worker *w, int64_t began_ns, struct sw_err *err)
{
    struct sw_series *s = &w->record.series[SW_SPLIT_TRAIN];
    int64_t step_ns = w->timer.charged_ns - began_ns;
    int rc = SW_OK;

    if (w->timer.trained_ns == 0)
        w->timer.first_ns = step_ns;
    w->timer.trained_ns += step_ns;
    w->pace.ms[w->pace.steps++ % SW_PACE_STEPS] =
        (float)((double)w->timer.ledger.forward_ms + (double)w->timer.ledger.backward_ms);

    record_own(w);
    record_activations(w);
    sw_record_sync(w);

    sw_results_sum_own(s);

    double loss = sw_results_loss(w->train, s->totals);
    int64_t own_steps = sw_topology_group_steps(w->topology, w->rank->group, w->step);
    sw_slot_result(w->slot, w->step, loss, own_steps * sw_worker_rows(w, SW_SPLIT_TRAIN),
                   w->timer.charged_ns);
    if (sw_group_deposit(&w->shared.groups->all, w->rank->global_rank, w->step, s->sums, s->pairs))
        rc = record_all(w, step_ns, err);
    sw_record_norms(w);

    return rc;
}

void sw_record_layers(struct sw_worker *w)
{
    if (w->timer.steps == 0)
        return;

    for (int i = 0; i < sw_net_layer_count(w->train); i++) {
        sw_history_layer_time(w->shared.events->history, sw_net_layer(w->train, i)->name,
                              w->rank->global_rank, w->timer.forward_ms[i] / (double)w->timer.steps,
                              w->timer.backward_ms[i] / (double)w->timer.steps, w->timer.steps);
        w->timer.forward_ms[i] = w->timer.backward_ms[i] = 0;
    }

    w->timer.steps = 0;
}

/* The newest evaluation, by the leader. */
void sw_record_evaluation(struct sw_worker *w)
{
    const struct sw_series *s = &w->record.series[SW_SPLIT_EVAL];

    for (int i = 0; i < s->count; i++)
        add_point(w, s->handle[i], w->shared.metrics->last[SW_SPLIT_EVAL][i].value);

    struct sw_job_event e = {.type = SW_JOB_EVAL};
    sw_record_event(w, SW_SPLIT_EVAL, &e);
    sw_events_post(w->shared.events, &e, NULL);
}
