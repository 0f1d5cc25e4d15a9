/* Sends rows and states to host 0, and receives them there. The struct lives as long as the history
 * of the run; the fabric and the snapshot are those of a stage. Reading order: send_lines (called
 * by the history's writer), main_loop (states and traffic), place and arrived (host 0). */
#include "run/hosts_history.h"

#include "base/os.h"
#include "exchange/hosts/router.h"
#include "history/part.h"
#include "history/slot_record.h"
#include "machine/io.h"
#include "run/job_private.h"
#include "worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LINES = 20, /* kinds of messages */
    STATES = 21,
    URGENCY = UINT16_MAX, /* after all sums */
    TICK_MS = 200,
    RECORD_TICKS = 10, /* of traffic and clocks */
    FLUSH_MS = 5000,
    MOST_SHOWN = SW_HISTORY_CHUNK / SW_SLOT_RECORD, /* slots of a host */
};

struct peer {
    char name[SW_HISTORY_HOST_NAME];
    int workers, first_worker;
    int slots, first_slot;   /* shown in host 0's snapshot */
    uint64_t recorded_bytes; /* of what was sent to it */
    unsigned char *lines;    /* owned [SW_HISTORY_CHUNK], on host 0: what arrives */
    unsigned char *states;   /* owned [MOST_SHOWN][SW_SLOT_RECORD], likewise */
};

struct sw_hosts_history {
    const struct sw_hosts *hosts; /* borrowed */
    struct peer peer[SW_MOST_HOSTS];
    int64_t last_step;        /* of the run */
    int total_workers, shown; /* of all hosts; slots of others */

    struct sw_history *history;   /* borrowed; atomic; NULL: the run has not begun */
    bool begun;                   /* atomic: the history takes rows */
    struct sw_snapshot *snapshot; /* borrowed; atomic; NULL: none yet */
    struct sw_events *events;     /* borrowed; atomic; NULL: the queue does not exist */
    uint64_t lost;                /* atomic: bits of hosts */

    struct sw_mutex lock; /* guards the fields up to the next blank line */
    struct sw_cond changed;
    struct sw_fabric *fabric; /* borrowed; NULL: not connected */
    bool over;                /* nothing is sent any more */
    bool stop;                /* the thread is to end */

    struct sw_thread thread;   /* owns what follows, while it runs */
    unsigned char *own_states; /* owned [MOST_SHOWN][SW_SLOT_RECORD] */
    bool sending;              /* atomic: the states are on the way */
    int64_t recorded_ns;
};

static void set_pointer(void *pointer, void *value)
{
    __atomic_store_n((void **)pointer, value, __ATOMIC_RELEASE);
}

#define GET(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

static bool is_own(const struct sw_hosts_history *h, int host)
{
    return host == h->hosts->own;
}

/* ---- Names ---- */

static bool is_plain(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && name[strspn(name, plain)] == '\0';
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

    bool taken = !is_plain(name);
    for (int i = 0; i < host; i++)
        taken = taken || strcmp(name, h->peer[i].name) == 0;
    if (taken)
        snprintf(name, SW_HISTORY_HOST_NAME, "host%d", host);
}

/* ---- Receiving, on host 0 ---- */

static int refuse(const struct sw_fabric_tag *tag, size_t bytes, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID, "it sent %zu bytes of %s, which nobody waits for", bytes,
                      tag->kind == LINES ? "history" : "states of threads");
}

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_hosts_history *h = user;
    struct peer *p = &h->peer[from];

    if (h->hosts->own != 0 || tag->urgency != URGENCY || !GET(h->history))
        return refuse(tag, bytes, err);

    if (tag->kind == LINES && bytes > 0 && bytes <= SW_HISTORY_CHUNK) {
        *to = p->lines;
        return SW_OK;
    }

    if (tag->kind == STATES && bytes == (size_t)p->slots * SW_SLOT_RECORD) {
        *to = p->states;
        return SW_OK;
    }

    return refuse(tag, bytes, err);
}

static void forward_event(void *user, enum sw_log_level level, const char *source, const char *text)
{
    struct sw_hosts_history *h = user;
    struct sw_events *e = GET(h->events);

    if (e)
        sw_events_forward(e, level, source, text);
}

static int take_lines(struct sw_hosts_history *h, int from, const char *lines, size_t bytes,
                      struct sw_err *err)
{
    const struct peer *p = &h->peer[from];
    const struct sw_history_source source = {.host = p->name,
                                             .number = from,
                                             .first_worker = p->first_worker,
                                             .workers = p->workers,
                                             .last_step = h->last_step,
                                             .event = forward_event,
                                             .user = h};

    return sw_history_take(GET(h->history), &source, lines, bytes, err);
}

/* "b/worker0.1" */
static void name_slot(struct sw_slot *slot, const struct peer *p, const char *thread)
{
    char name[SW_SNAPSHOT_NAME + SW_HISTORY_HOST_NAME];

    snprintf(name, sizeof name, "%s/%s", p->name, thread);
    sw_slot_set_name(slot, name);
}

static void show_states(struct sw_hosts_history *h, int from)
{
    struct sw_snapshot *s = GET(h->snapshot);
    const struct peer *p = &h->peer[from];
    const int64_t now_ns = sw_os()->monotonic_ns();

    for (int i = 0; s && i < p->slots; i++) {
        struct sw_slot *slot = sw_snapshot_slot(s, p->first_slot + i);
        struct sw_slot_state state;

        sw_slot_read(p->states + (size_t)i * SW_SLOT_RECORD, now_ns, &state);
        name_slot(slot, p, state.name);
        sw_slot_mirror(slot, &state);
    }
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_hosts_history *h = user;

    if (tag->kind == LINES)
        return take_lines(h, from, data, bytes, err);

    show_states(h, from);
    return SW_OK;
}

/* Of a loss host 0 tells the history; of that of host 0 all others tell their spools. */
static void lost(void *user, int host, const struct sw_err *why)
{
    struct sw_hosts_history *h = user;
    struct sw_history *history = GET(h->history);

    __atomic_fetch_or(&h->lost, (uint64_t)1 << host, __ATOMIC_RELAXED);
    if (!GET(h->begun) || (h->hosts->own != 0 && host != 0))
        return;

    if (h->hosts->own != 0)
        sw_history_part_gone(history);
    sw_history_host(history, &(struct sw_history_host){.number = host,
                                                       .name = h->peer[host].name,
                                                       .clock_offset_ms = NAN,
                                                       .clock_error_ms = NAN,
                                                       .joined_at = NAN,
                                                       .left_at = sw_os()->unix_time(),
                                                       .why = why->text});
}

/* ---- Sending ---- */

static void lines_sent(void *user, int rc)
{
    struct sw_hosts_history *h = user;
    sw_history_part_sent(GET(h->history), rc);
}

static int send_lines(void *user, const char *lines, size_t bytes, struct sw_err *err)
{
    static const struct sw_fabric_tag tag = {.kind = LINES, .urgency = URGENCY};
    struct sw_hosts_history *h = user;
    int rc;

    sw_mutex_lock(&h->lock);

    if (h->fabric)
        rc = sw_fabric_send(h->fabric, 0, &tag, lines, bytes, lines_sent, h, err);
    else if (h->over)
        rc = sw_err_set(err, SW_ERR_LOST, "the job has ended");
    else
        rc = sw_err_set(err, SW_ERR_BUSY, "between two stages");

    sw_mutex_unlock(&h->lock);
    return rc == SW_ERR_CANCELLED ? SW_ERR_BUSY : rc; /* this host leaves, perhaps for a stage */
}

static int64_t clock_offset_ns(void *user)
{
    struct sw_hosts_history *h = user;
    int64_t offset_ns = 0, error_ns;

    sw_mutex_lock(&h->lock);
    if (h->fabric)
        sw_fabric_clock(h->fabric, h->hosts->own, &offset_ns, &error_ns);
    sw_mutex_unlock(&h->lock);
    return offset_ns;
}

static void states_sent(void *user, int rc)
{
    struct sw_hosts_history *h = user;

    (void)rc; /* the next states follow soon */
    __atomic_store_n(&h->sending, false, __ATOMIC_RELEASE);
}

static void send_states(struct sw_hosts_history *h)
{
    static const struct sw_fabric_tag tag = {.kind = STATES, .urgency = URGENCY};
    const struct peer *own = &h->peer[h->hosts->own];
    const int64_t now_ns = sw_os()->monotonic_ns();
    struct sw_err ignored; /* the loss of host 0 ends the job */

    if (GET(h->sending) || own->slots == 0)
        return;

    for (int i = 0; i < own->slots; i++) {
        struct sw_slot_state s;

        if (sw_snapshot_read_slot(h->snapshot, i, &s))
            sw_slot_write(&s, now_ns, h->own_states + (size_t)i * SW_SLOT_RECORD);
    }

    __atomic_store_n(&h->sending, true, __ATOMIC_RELAXED);
    if (sw_fabric_send(h->fabric, 0, &tag, h->own_states, (size_t)own->slots * SW_SLOT_RECORD,
                       states_sent, h, &ignored) != SW_OK)
        __atomic_store_n(&h->sending, false, __ATOMIC_RELAXED);
}

/* What went to other hosts since the last call. */
static void record_traffic(struct sw_hosts_history *h)
{
    const int64_t now_ns = sw_os()->monotonic_ns();
    const double ms = (double)(now_ns - h->recorded_ns) * 1e-6;
    struct sw_slot_state leader;

    if (!sw_snapshot_read_slot(h->snapshot, 0, &leader))
        return;

    for (int i = 0; i < h->hosts->count; i++) {
        struct peer *p = &h->peer[i];
        if (is_own(h, i))
            continue;

        uint64_t bytes = sw_fabric_traffic(h->fabric, i, -1).sent_bytes;
        if (bytes > p->recorded_bytes)
            sw_history_net(h->history, h->peer[h->hosts->own].name, p->name,
                           leader.done_step < 0 ? 0 : leader.done_step,
                           (int64_t)(bytes - p->recorded_bytes), ms);
        p->recorded_bytes = bytes;
    }

    h->recorded_ns = now_ns;
}

static void record_clocks(struct sw_hosts_history *h)
{
    for (int i = 1; i < h->hosts->count && h->hosts->own == 0; i++) {
        int64_t offset_ns, error_ns;

        sw_fabric_clock(h->fabric, i, &offset_ns, &error_ns);
        if (error_ns >= 0)
            sw_history_host(h->history,
                            &(struct sw_history_host){.number = i,
                                                      .clock_offset_ms = (double)offset_ns * 1e-6,
                                                      .clock_error_ms = (double)error_ns * 1e-6,
                                                      .joined_at = NAN,
                                                      .left_at = NAN});
    }
}

static bool rest(struct sw_hosts_history *h)
{
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)TICK_MS * 1000000;

    sw_mutex_lock(&h->lock);
    while (!h->stop && sw_cond_wait_until(&h->changed, &h->lock, until_ns))
        ;

    bool stop = h->stop;
    sw_mutex_unlock(&h->lock);
    return !stop;
}

static void main_loop(void *user)
{
    struct sw_hosts_history *h = user;

    for (int tick = 1; rest(h); tick++) {
        if (h->hosts->own != 0)
            send_states(h);
        if (tick % RECORD_TICKS == 0) {
            record_traffic(h);
            record_clocks(h);
        }
    }
}

/* ---- Setup ---- */

bool sw_hosts_history_is_part(const struct sw_job *job)
{
    return job->hosts_history && job->hosts_history->hosts->own != 0;
}

int sw_hosts_history_workers(const struct sw_job *job)
{
    return job->hosts_history ? job->hosts_history->total_workers : job->topology->workers;
}

int sw_hosts_history_slots(const struct sw_job *job)
{
    return job->hosts_history && job->hosts_history->hosts->own == 0 ? job->hosts_history->shown
                                                                     : 0;
}

static int make(const struct sw_hosts *hosts, struct sw_hosts_history **out, struct sw_err *err)
{
    struct sw_hosts_history *h = *out = sw_calloc(1, sizeof *h);
    if (!h)
        return sw_err_nomem(err, "history of hosts", sizeof *h);

    h->hosts = hosts;
    sw_mutex_init(&h->lock);
    sw_cond_init(&h->changed);

    for (int i = 0; i < hosts->count; i++) {
        name_host(h, i);
        if (hosts->own != 0 || i == 0)
            continue;

        h->peer[i].lines = sw_calloc(1, SW_HISTORY_CHUNK);
        h->peer[i].states = sw_calloc(MOST_SHOWN, SW_SLOT_RECORD);
        if (!h->peer[i].lines || !h->peer[i].states)
            return sw_err_nomem(err, "history of hosts", SW_HISTORY_CHUNK);
    }

    h->own_states = sw_calloc(MOST_SHOWN, SW_SLOT_RECORD);
    return h->own_states ? SW_OK : sw_err_nomem(err, "states of threads", SW_HISTORY_CHUNK);
}

int sw_hosts_history_init(struct sw_job *job, struct sw_fabric_router *router, struct sw_err *err)
{
    int rc = SW_OK;

    if (!job->hosts_history)
        rc = make(job->options.hosts->list, &job->hosts_history, err);

    if (rc != SW_OK)
        return rc;

    /* Those of the previous stage are gone. */
    set_pointer(&job->hosts_history->snapshot, NULL);
    set_pointer(&job->hosts_history->events, NULL);

    const struct sw_fabric_sink sink = {
        .place = place, .arrived = arrived, .lost = lost, .user = job->hosts_history};
    sw_fabric_router_add(router, LINES, STATES - LINES + 1, sink);
    return SW_OK;
}

/* Numbers workers and shown slots over all hosts. */
static void number_all(struct sw_hosts_history *h, const double *workers, const double *slots)
{
    int left = SW_SNAPSHOT_MAX_SLOTS - (int)slots[0];

    h->total_workers = h->shown = 0;

    for (int i = 0; i < h->hosts->count; i++) {
        struct peer *p = &h->peer[i];

        p->workers = (int)workers[i];
        p->first_worker = h->total_workers;
        h->total_workers += p->workers;
        if (i == 0)
            continue;

        p->slots = (int)fmin(fmin(slots[i], MOST_SHOWN), left > 0 ? left : 0);
        p->first_slot = h->shown; /* after host 0's own ones: sw_hosts_history_show */
        h->shown += p->slots;
        left -= p->slots;
    }
}

int sw_hosts_history_agree(struct sw_job *job, int slots, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts_history;
    double numbers[2 * SW_MOST_HOSTS] = {0};

    if (!h)
        return SW_OK;

    const int count = h->hosts->count, own = h->hosts->own;
    numbers[own] = job->topology->workers;
    numbers[count + own] = slots;

    int rc = sw_hosts_sum_small(job->hosts.sums.sum, SW_HOSTS_RESULTS, numbers, 2 * count, err);
    if (rc != SW_OK)
        return rc;

    number_all(h, numbers, numbers + count);
    h->last_step = job->span.run_steps;

    /* Nobody sends before host 0 has the numbers, too. */
    rc = sw_hosts_sum_small(job->hosts.sums.sum, SW_HOSTS_RESULTS, numbers, 0, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&h->lock);
    h->fabric = job->hosts.fabric;
    sw_mutex_unlock(&h->lock);
    return SW_OK;
}

/* ---- Beginning ---- */

/* The 64 bits of the run's uid as two numbers that doubles hold exactly. */
static int tell_uid(struct sw_job *job, char uid[17], struct sw_err *err)
{
    double half[2] = {0};
    unsigned long long bits = 0;

    if (job->hosts_history->hosts->own == 0 && sscanf(uid, "%16llx", &bits) == 1) {
        half[0] = (double)(bits >> 32);
        half[1] = (double)(bits & UINT32_MAX);
    }

    int rc = sw_hosts_sum_small(job->hosts.sums.sum, SW_HOSTS_RESULTS, half, 2, err);
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
                    &(struct sw_history_host){.number = job->hosts_history->hosts->own,
                                              .cpu = *m->cpu_model ? m->cpu_model : NULL,
                                              .gpus = *gpus ? gpus : NULL,
                                              .clock_offset_ms = NAN,
                                              .clock_error_ms = NAN,
                                              .joined_at = NAN,
                                              .left_at = NAN});
}

static void record_hosts(const struct sw_job *job)
{
    const struct sw_hosts_history *h = job->hosts_history;
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

static int begin_part(struct sw_job *job, const struct sw_run_info *info, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts_history;
    const struct peer *own = &h->peer[h->hosts->own];
    char uid[17] = "";

    int rc = tell_uid(job, uid, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_history_part part = {.uid = uid,
                                         .host = own->name,
                                         .number = h->hosts->own,
                                         .first_worker = own->first_worker,
                                         .send = send_lines,
                                         .clock_offset_ns = clock_offset_ns,
                                         .user = h};
    set_pointer(&h->history, job->events.history); /* its writer sends at once */
    return sw_history_begin_part(job->events.history, info, &part, err);
}

int sw_hosts_history_begin(struct sw_job *job, const struct sw_run_info *info, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts_history;
    char uid[17];
    int rc;

    if (!h)
        return SW_OK;

    if (h->hosts->own == 0) {
        snprintf(uid, sizeof uid, "%s", sw_history_run_uid(job->events.history));
        record_hosts(job); /* before any other host can send a row */
        set_pointer(&h->history, job->events.history);
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
    struct sw_hosts_history *h = job->hosts_history;

    if (!h)
        return;

    for (int i = 1; i < h->hosts->count && h->hosts->own == 0; i++) {
        struct peer *p = &h->peer[i];

        p->first_slot += first_slot;
        for (int k = 0; k < p->slots; k++)
            name_slot(sw_snapshot_slot(job->events.snapshot, p->first_slot + k), p, "?");
    }

    set_pointer(&h->snapshot, job->events.snapshot);
}

int sw_hosts_history_start(struct sw_job *job, struct sw_err *err)
{
    struct sw_hosts_history *h = job->hosts_history;

    if (!h)
        return SW_OK;

    set_pointer(&h->events, &job->events);
    h->stop = false;
    h->recorded_ns = sw_os()->monotonic_ns();
    for (int i = 0; i < h->hosts->count; i++)
        h->peer[i].recorded_bytes = 0;

    return sw_thread_start(&h->thread, "hosts", main_loop, h, err);
}

/* ---- The end ---- */

static void end_thread(struct sw_hosts_history *h)
{
    if (!h->thread.running)
        return;

    sw_mutex_lock(&h->lock);
    h->stop = true;
    sw_cond_broadcast(&h->changed);
    sw_mutex_unlock(&h->lock);
    sw_thread_join(&h->thread);

    record_traffic(h);
    record_clocks(h);
}

void sw_hosts_history_stop(struct sw_job *job)
{
    struct sw_hosts_history *h = job->hosts_history;

    if (!h || !h->fabric)
        return;

    end_thread(h);
    if (h->hosts->own != 0 && h->begun) {
        bool sent = sw_history_flush(job->events.history, FLUSH_MS);
        (void)sent; /* the rest goes to the spool */
    }

    sw_mutex_lock(&h->lock);
    h->fabric = NULL;
    sw_mutex_unlock(&h->lock);
}

bool sw_hosts_history_end(struct sw_job *job)
{
    struct sw_hosts_history *h = job->hosts_history;

    if (!h)
        return true;

    /* Without host 0 each of the others tells its spool. */
    const uint64_t gone = __atomic_load_n(&h->lost, __ATOMIC_RELAXED);
    const bool is_witness = h->hosts->own == 0 || (gone & 1);
    for (int i = 0; i < h->hosts->count && h->begun && is_witness; i++)
        if (!(gone >> i & 1) && (h->hosts->own == 0 || is_own(h, i)))
            sw_history_host(job->events.history,
                            &(struct sw_history_host){.number = i,
                                                      .clock_offset_ms = NAN,
                                                      .clock_error_ms = NAN,
                                                      .joined_at = NAN,
                                                      .left_at = sw_os()->unix_time()});

    sw_mutex_lock(&h->lock);
    h->over = true;
    sw_mutex_unlock(&h->lock);
    return is_witness;
}

void sw_hosts_history_free(struct sw_job *job)
{
    struct sw_hosts_history *h = job->hosts_history;

    if (!h)
        return;

    for (int i = 0; i < SW_MOST_HOSTS; i++) {
        sw_free(h->peer[i].lines);
        sw_free(h->peer[i].states);
    }

    sw_free(h->own_states);
    sw_cond_fini(&h->changed);
    sw_mutex_fini(&h->lock);
    sw_free(h);
    job->hosts_history = NULL;
}
