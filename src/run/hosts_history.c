/* Connects the history and the snapshot of a job with those of the other hosts, and disconnects
 * them. hosts_send.c has what goes to host 0, hosts_receive.c what arrives. */
#include "base/os.h"
#include "exchange/hosts/router.h"
#include "machine/io.h"
#include "run/host_rates.h"
#include "run/hosts_history_private.h"
#include "worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

static bool is_plain(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && name[strspn(name, plain)] == '\0';
}

/* Names such as "host1" are for the host with that number. */
static bool is_number_of_another(const char *name, int host)
{
    char end;
    int number;

    return sscanf(name, "host%d%c", &number, &end) == 1 && number != host;
}

/* The name that roles of a host begin with: its own, without the domain if it is long, or its
 * number. */
static void name_host(struct sw_hosts_history *h, int host)
{
    char *name = h->peer[host].name;
    const char *full = h->hosts->host[host].name;
    size_t n = strlen(full);

    if (n >= SW_HISTORY_HOST_NAME)
        n = strcspn(full, ".");
    if (n >= SW_HISTORY_HOST_NAME)
        n = 0;
    snprintf(name, SW_HISTORY_HOST_NAME, "%.*s", (int)n, full);

    bool taken = !is_plain(name) || is_number_of_another(name, host);
    for (int i = 0; i < host; i++)
        taken = taken || strcmp(name, h->peer[i].name) == 0;
    if (taken)
        snprintf(name, SW_HISTORY_HOST_NAME, "host%d", host);
}

/* ---- Setup ---- */

bool sw_hosts_history_is_part(const struct sw_job *job)
{
    return job->hosts.history && job->hosts.history->hosts->own != 0;
}

int sw_hosts_history_workers(const struct sw_job *job)
{
    return job->hosts.history ? job->hosts.history->total_workers : job->topology->workers;
}

int sw_hosts_history_slots(const struct sw_job *job)
{
    return job->hosts.history && job->hosts.history->hosts->own == 0 ? job->hosts.history->shown
                                                                     : 0;
}

static int make(const struct sw_hosts *hosts, struct sw_hosts_history **out, struct sw_err *err)
{
    struct sw_hosts_history *h = *out = sw_calloc(1, sizeof *h);
    if (!h)
        return sw_err_nomem(err, "history of hosts", sizeof *h);

    h->hosts = hosts;
    sw_mutex_init(&h->fabric_lock);
    sw_mutex_init(&h->lock);
    sw_cond_init(&h->changed);

    for (int i = 0; i < hosts->count; i++) {
        name_host(h, i);
        if (hosts->own != 0 || i == 0)
            continue;

        h->peer[i].lines = sw_calloc(1, SW_HISTORY_CHUNK);
        h->peer[i].states = sw_calloc(SW_HOSTS_MOST_SHOWN, SW_SLOT_RECORD);
        if (!h->peer[i].lines || !h->peer[i].states)
            return sw_err_nomem(err, "history of hosts", SW_HISTORY_CHUNK);
    }

    h->own_states = sw_calloc(SW_HOSTS_MOST_SHOWN, SW_SLOT_RECORD);
    return h->own_states ? SW_OK : sw_err_nomem(err, "states of threads", SW_HISTORY_CHUNK);
}

int sw_hosts_history_init(struct sw_job *job, struct sw_fabric_router *router, struct sw_err *err)
{
    int rc = SW_OK;

    if (!job->hosts.history)
        rc = make(job->options.hosts->list, &job->hosts.history, err);

    if (rc != SW_OK)
        return rc;

    /* Those of the previous stage are gone. */
    job->hosts.history->finished = 0;
    sw_hosts_set_pointer(&job->hosts.history->snapshot, NULL);
    sw_hosts_set_pointer(&job->hosts.history->events, NULL);

    sw_fabric_router_add(router, SW_HOSTS_LINES, SW_HOSTS_STATES - SW_HOSTS_LINES + 1,
                         sw_hosts_receive_sink(job->hosts.history));
    return SW_OK;
}

/* Numbers workers and shown slots over all hosts. */
static void number_all(struct sw_hosts_history *h, const double *workers, const double *slots)
{
    int left = SW_SNAPSHOT_MAX_SLOTS - (int)slots[0];

    h->total_workers = h->shown = 0;

    for (int i = 0; i < h->hosts->count; i++) {
        struct sw_hosts_peer *p = &h->peer[i];

        p->workers = (int)workers[i];
        p->first_worker = h->total_workers;
        h->total_workers += p->workers;
        if (i == 0)
            continue;

        p->slots = (int)fmin(fmin(slots[i], SW_HOSTS_MOST_SHOWN), left > 0 ? left : 0);
        p->first_slot = h->shown; /* after host 0's own ones: sw_hosts_history_show */
        h->shown += p->slots;
        left -= p->slots;
    }
}

/* The loss of a host closes the sums, and is the error. */
static int sum_over_hosts(struct sw_job *job, double *values, int count, struct sw_err *err)
{
    int rc = sw_job_hosts_sum(job, values, count, err);

    return rc == SW_ERR_CANCELLED && sw_fault_is_set(&job->fault) ? sw_fault_get(&job->fault, err)
                                                                  : rc;
}

int sw_hosts_history_agree(struct sw_job *job, int slots, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts.history;
    double numbers[2 * SW_MOST_HOSTS] = {0};

    if (!h)
        return SW_OK;

    const int count = h->hosts->count, own = h->hosts->own;
    numbers[own] = job->topology->workers;
    numbers[count + own] = slots;

    int rc = sum_over_hosts(job, numbers, 2 * count, err);
    if (rc != SW_OK)
        return rc;

    number_all(h, numbers, numbers + count);
    h->last_step = job->span.run_steps;

    /* Nobody sends before host 0 has the numbers, too. */
    rc = sum_over_hosts(job, numbers, 0, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&h->fabric_lock);
    sw_hosts_set_pointer(&h->fabric, job->hosts.fabric);
    sw_mutex_unlock(&h->fabric_lock);
    return SW_OK;
}

/* ---- Beginning ---- */

/* The 64 bits of the run's uid as two numbers that doubles hold exactly. */
static int tell_uid(struct sw_job *job, char uid[17], struct sw_err *err)
{
    double half[2] = {0};
    unsigned long long bits = 0;

    if (job->hosts.history->hosts->own == 0 && sscanf(uid, "%16llx", &bits) == 1) {
        half[0] = (double)(bits >> 32);
        half[1] = (double)(bits & UINT32_MAX);
    }

    int rc = sum_over_hosts(job, half, 2, err);
    if (rc == SW_OK)
        snprintf(uid, 17, "%08lx%08lx", (unsigned long)half[0], (unsigned long)half[1]);
    return rc;
}

/* Models of the GPUs that the machine has. */
static void list_gpus(const struct sw_machine *m, char *out, size_t bytes)
{
    size_t n = 0;

    out[0] = '\0';
    for (int i = 0; i < m->gpu_count && n < bytes; i++)
        n +=
            (size_t)snprintf(out + n, bytes - n, "%s%s", i ? ", " : "", sw_machine_gpu(m, i)->name);
}

static void record_machine(const struct sw_job *job)
{
    const struct sw_machine *m = job->place.machine;
    char gpus[1024];

    list_gpus(m, gpus, sizeof gpus);
    sw_history_host(job->events.history,
                    &(struct sw_history_host){.number = job->hosts.history->hosts->own,
                                              .cpu = *m->cpu_model ? m->cpu_model : NULL,
                                              .gpus = *gpus ? gpus : NULL,
                                              .clock_offset_ms = NAN,
                                              .clock_error_ms = NAN,
                                              .joined_at = NAN,
                                              .left_at = NAN});
}

static void record_hosts(const struct sw_job *job)
{
    const struct sw_hosts_history *h = job->hosts.history;
    char fabric[128];

    job->options.hosts->engine->name(fabric, sizeof fabric);
    for (int i = 0; i < h->hosts->count; i++)
        sw_history_host(job->events.history,
                        &(struct sw_history_host){.number = i,
                                                  .name = h->peer[i].name,
                                                  .address = h->hosts->host[i].address,
                                                  .fabric = fabric,
                                                  .clock_offset_ms = i == 0 ? 0 : (double)NAN,
                                                  .clock_error_ms = i == 0 ? 0 : (double)NAN,
                                                  .joined_at = sw_os()->unix_time(),
                                                  .left_at = NAN});
}

static void record_rates(const struct sw_job *job)
{
    const struct sw_hosts_history *h = job->hosts.history;

    for (int i = 0; i < h->hosts->count; i++)
        for (int k = 0; k < h->hosts->count; k++) {
            const double rate = sw_host_rates_of(job, i, k);

            if (rate > 0)
                sw_history_net_rate(job->events.history, h->peer[i].name, h->peer[k].name,
                                    job->span.first_step, rate);
        }
}

static int begin_part(struct sw_job *job, const struct sw_run_info *info, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts.history;
    const struct sw_hosts_peer *own = &h->peer[h->hosts->own];
    char uid[17] = "";

    int rc = tell_uid(job, uid, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_history_part part = {.uid = uid,
                                         .host = own->name,
                                         .number = h->hosts->own,
                                         .first_worker = own->first_worker,
                                         .send = sw_hosts_send_lines,
                                         .clock_offset = sw_hosts_clock_offset,
                                         .user = h};
    sw_hosts_set_pointer(&h->history, job->events.history); /* its writer sends at once */
    return sw_history_begin_part(job->events.history, info, &part, err);
}

int sw_hosts_history_begin(struct sw_job *job, const struct sw_run_info *info, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts.history;
    char uid[17];
    int rc;

    if (!h)
        return SW_OK;

    if (h->hosts->own == 0) {
        snprintf(uid, sizeof uid, "%s", sw_history_run_uid(job->events.history));
        record_hosts(job); /* before any other host can send a row */
        record_rates(job);
        sw_hosts_set_pointer(&h->history, job->events.history);
        rc = tell_uid(job, uid, err);
    } else {
        rc = begin_part(job, info, err);
    }

    if (rc != SW_OK)
        return rc;

    __atomic_store_n(&h->begun, true, __ATOMIC_RELEASE);
    record_machine(job);
    return SW_OK;
}

void sw_hosts_history_show(struct sw_job *job, int first_slot)
{
    struct sw_hosts_history *h = job->hosts.history;

    if (!h)
        return;

    for (int i = 1; i < h->hosts->count && h->hosts->own == 0; i++) {
        struct sw_hosts_peer *p = &h->peer[i];

        p->first_slot += first_slot;
        for (int k = 0; k < p->slots; k++)
            sw_hosts_name_slot(sw_snapshot_slot(job->events.snapshot, p->first_slot + k), p, "?");
    }

    sw_hosts_set_pointer(&h->snapshot, job->events.snapshot);
}

int sw_hosts_history_start(struct sw_job *job, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts.history;

    if (!h)
        return SW_OK;

    sw_hosts_set_pointer(&h->events, &job->events);
    return sw_hosts_start_thread(h, err);
}

/* ---- The end ---- */

/* Host 0 confirms what comes until the others have finished. */
static void await_others(struct sw_hosts_history *h)
{
    const uint64_t all = UINT64_MAX >> (64 - h->hosts->count) & ~(uint64_t)1;
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)SW_HOSTS_FLUSH_MS * 1000000;

    sw_mutex_lock(&h->lock);
    while ((all & ~h->finished) && sw_os()->monotonic_ns() < until_ns)
        sw_cond_wait_until(&h->changed, &h->lock, until_ns);
    sw_mutex_unlock(&h->lock);
}

void sw_hosts_history_stop(struct sw_job *job, bool in_order)
{
    struct sw_hosts_history *h = job->hosts.history;

    if (!h || !h->fabric)
        return;

    sw_hosts_end_thread(h);
    if (h->hosts->own != 0 && h->begun)
        sw_hosts_finish_lines(h, job->events.history);
    else if (h->begun && in_order)
        await_others(h);

    sw_mutex_lock(&h->fabric_lock);
    sw_hosts_set_pointer(&h->fabric, NULL);
    sw_mutex_unlock(&h->fabric_lock);
}

bool sw_hosts_history_end(struct sw_job *job)
{
    struct sw_hosts_history *h = job->hosts.history;

    if (!h)
        return true;

    /* Without host 0 each of the others tells its spool. */
    const uint64_t gone = __atomic_load_n(&h->lost, __ATOMIC_RELAXED);
    const bool is_witness = h->hosts->own == 0 || (gone & 1);
    for (int i = 0; i < h->hosts->count && h->begun && is_witness; i++)
        if (!(gone >> i & 1) && (h->hosts->own == 0 || sw_hosts_is_own(h, i)))
            sw_history_host(job->events.history,
                            &(struct sw_history_host){.number = i,
                                                      .clock_offset_ms = NAN,
                                                      .clock_error_ms = NAN,
                                                      .joined_at = NAN,
                                                      .left_at = sw_os()->unix_time()});

    sw_mutex_lock(&h->fabric_lock);
    h->over = true;
    sw_mutex_unlock(&h->fabric_lock);
    return is_witness;
}

void sw_hosts_history_free(struct sw_job *job)
{
    struct sw_hosts_history *h = job->hosts.history;

    if (!h)
        return;

    for (int i = 0; i < SW_MOST_HOSTS; i++) {
        sw_free(h->peer[i].lines);
        sw_free(h->peer[i].states);
    }

    sw_free(h->own_states);
    sw_cond_fini(&h->changed);
    sw_mutex_fini(&h->lock);
    sw_mutex_fini(&h->fabric_lock);
    sw_free(h);
    job->hosts.history = NULL;
}
