/* A worker's end of the exchange: its arguments, and the callbacks that the worker provides
 * (exchange.h). */
#include "worker/worker_exchange.h"

#include "worker/sums.h"
#include "worker/worker.h"
#include <math.h>

/* ---- Callbacks ---- */

static int serve(void *worker, struct sw_err *err)
{
    return sw_server_poll(worker, err);
}

static void charge(void *worker, enum sw_exchange_time part)
{
    struct sw_worker *w = worker;
    float *const parts[] = {[SW_EXCHANGE_IDLE] = &w->timer.ledger.idle_ms,
                            [SW_EXCHANGE_UPDATE] = &w->timer.ledger.update_ms,
                            [SW_EXCHANGE_EXPOSED] = &w->timer.ledger.comm_exposed_ms};

    sw_step_timer_charge(w, parts[part], NULL);
}

/* Shows in the live snapshot what the worker waits for. */
static void waiting(void *worker, int param, uint64_t version, const char *text)
{
    struct sw_worker *w = worker;
    struct sw_wait wait = {.kind = SW_WAIT_GROUP};

    if (param >= 0)
        wait = (struct sw_wait){SW_WAIT_VERSION, param, (int64_t)version};

    if (text)
        sw_slot_wait_on(w->slot, wait, text, w->timer.charged_ns);
    else
        sw_slot_wait(w->slot, NULL, w->timer.charged_ns);
}

static int finish(void *worker, bool loss, struct sw_err *err)
{
    struct sw_worker *w = worker;

    int rc = loss ? sw_microbatches_fetch(w->microbatches[SW_SPLIT_TRAIN], err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = sw_exchange_mark(w->exchange, SW_MARK_BACKWARD, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_exchange_queue_report(w->exchange, err);
    if (rc != SW_OK)
        return rc;

    return sw_ledger_wait(w, 0, err);
}

/* Running statistics are checked, too: a value may overflow only there, because dividing by
 * infinity gives a finite result. */
static int is_finite(void *worker, bool *finite, struct sw_err *err)
{
    struct sw_worker *w = worker;
    struct sw_series *series = &w->record.series[SW_SPLIT_TRAIN];

    *finite = true;
    if (w->shared.conf->on_nan == SW_ON_NAN_STOP)
        return SW_OK; /* a non-finite loss ends the run */

    int rc = sw_buffers_finite(w, finite, err);
    *finite = *finite && isfinite(sw_results_step_loss(w->microbatches[SW_SPLIT_TRAIN], 0, series));
    return rc;
}

static int sum(void *worker, double *values, int count, struct sw_err *err)
{
    struct sw_worker *w = worker;

    return w->topology->workers > 1 ? sw_worker_sum(w, values, count, true, err) : SW_OK;
}

/* ---- Creating it ---- */

/* Does update control need data of other workers? */
static bool needs_votes(const struct sw_worker *w)
{
    if (w->shared.conf->on_nan != SW_ON_NAN_STOP)
        return true;

    for (int p = 0; p < sw_table_count(w->table) && w->topology->workers > 1; p++)
        if (sw_table_param(w->table, p)->owner >= 0)
            return true;

    return false;
}

/* The most rows of a batch that the worker can get. */
static int64_t max_rows(const struct sw_worker *w)
{
    return w->shared.rebalances ? w->shared.conf->batch : sw_worker_rows(w, SW_SPLIT_TRAIN);
}

static struct sw_exchange_args args_of(struct sw_worker *w)
{
    return (struct sw_exchange_args){.table = w->table,
                                     .device = w->device,
                                     .stream = w->stream,
                                     .fault = w->shared.fault,
                                     .copy = w->shared.exchange_plan->copy,
                                     .own_memory = !w->device->host_memory,
                                     .overlap = w->shared.exchange_plan->overlap == SW_OVERLAP_YES,
                                     .worker = w->rank->table_rank,
                                     .role = w->role,
                                     .params = w->param_of[SW_SPLIT_TRAIN],
                                     .count = sw_net_param_count(w->train),
                                     .sums = &w->shared.exchange_plan->sums,
                                     .rank = w->rank->global_rank,
                                     .factors = w->shared.exchange_plan->comm.factors,
                                     .max_rows = max_rows(w),
                                     .votes = needs_votes(w),
                                     .whole_steps =
                                         w->shared.returns && sw_reduces(w->shared.exchange_plan),
                                     .hooks = {.user = w,
                                               .serve = serve,
                                               .charge = charge,
                                               .waiting = waiting,
                                               .finish = finish,
                                               .finite = is_finite,
                                               .sum = sum,
                                               .served = w->served.ranks,
                                               .served_count = w->served.count}};
}

int sw_worker_make_exchange(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_exchange_args args = args_of(w);

    return sw_exchange_new(&args, &w->exchange, err);
}

struct sw_exchange_bytes sw_worker_exchange_bytes(const struct sw_worker *w)
{
    const struct sw_exchange_args args = args_of((struct sw_worker *)(uintptr_t)w);

    return sw_exchange_bytes(&args);
}

struct sw_param_list sw_worker_params(const struct sw_worker *w, int split)
{
    const struct sw_net *net = split == SW_SPLIT_TRAIN ? w->train : w->eval;

    return (struct sw_param_list){w->param_of[split], sw_net_param_count(net)};
}

/* ---- Binding ---- */

static void bind_params(struct sw_worker *w, int split)
{
    const struct sw_param_list list = sw_worker_params(w, split);

    for (int p = 0; p < list.count; p++) {
        struct sw_exchange_binding b;
        sw_exchange_bind(w->exchange, list.param[p], &b);
        bool contributes = split == SW_SPLIT_TRAIN && b.partial[0];
        sw_microbatches_bind_param(w->microbatches[split], p, b.value,
                                   contributes ? b.partial : NULL);
        if (contributes)
            sw_microbatches_bind_row_list(w->microbatches[split], p, b.listed);
    }
}

static void bind_factors(struct sw_worker *w)
{
    for (int i = 0; i < sw_net_layer_count(w->train); i++) {
        int first;
        if (sw_net_exchange_mode(w->train, i) == SW_EXCHANGE_PS ||
            sw_net_layer_params(w->train, i, &first) == 0)
            continue;

        struct sw_exchange_binding b;
        sw_exchange_bind(w->exchange, w->param_of[SW_SPLIT_TRAIN][first], &b);
        sw_net_bind_factors(sw_microbatches_net(w->microbatches[SW_SPLIT_TRAIN], 0), i, b.x, b.dy);
    }
}

void sw_worker_bind_params(struct sw_worker *w)
{
    bool trains = !w->shared.one_worker;

    sw_exchange_set_rows(w->exchange, sw_worker_first_row(w, SW_SPLIT_TRAIN),
                         sw_worker_rows(w, SW_SPLIT_TRAIN));

    for (int split = 0; split < SW_SPLITS; split++)
        if (w->microbatches[split] && (trains || split != SW_SPLIT_TRAIN))
            bind_params(w, split);

    if (trains)
        bind_factors(w);
}
