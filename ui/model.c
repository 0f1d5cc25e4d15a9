/* The dashboard's data: curves, the ring of events, and values that are derived from them, such as
 * status, step, ETA and bottleneck. The model does no I/O; feed.c and feed_rows.c fill it. The
 * contract is in ui/model.h. */
#include "ui/model.h"

#include "base/os.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Curves -----------------------------------------------------------------------------------
 */

struct sw_ui_series *sw_ui_series_add(struct sw_ui_series *list, int *count, int most, int64_t id,
                                      const char *split, const char *name)
{
    struct sw_err ignored;
    struct sw_ui_series *s = &list[*count];

    if (*count >= most)
        return NULL;

    *s = (struct sw_ui_series){.id = id, .last_step = -1, .best = NAN, .best_step = -1};
    if (sw_trail_init(&s->trail, SW_UI_POINTS, &ignored) != SW_OK)
        return NULL;

    sw_utf8_copy(s->split, sizeof s->split, split);
    sw_utf8_copy(s->name, sizeof s->name, name);
    ++*count;

    return s;
}

/* Whether the value is an improvement: lower for losses and errors, else higher. */
static bool is_better(const struct sw_ui_series *s, double value)
{
    return isnan(s->best) || (sw_metric_falls(s->name) ? value < s->best : value > s->best);
}

void sw_ui_series_point(struct sw_ui_series *s, int64_t step, double value)
{
    sw_trail_add(&s->trail, (double)step, value);
    s->first = s->count == 0 ? value : s->first;
    s->changes |= value != s->first;
    s->recent[s->count++ % SW_UI_RECENT] = value;
    s->last_step = step;

    s->not_finite += !isfinite(value);
    if (isfinite(value) && is_better(s, value)) {
        s->best = value;
        s->best_step = step;
    }
}

void sw_ui_series_fini(struct sw_ui_series *list, int *count)
{
    for (int i = 0; i < *count; i++)
        sw_trail_fini(&list[i].trail);
    *count = 0;
}

const struct sw_ui_series *sw_ui_series_find(const struct sw_ui_model *m, const char *split,
                                             const char *name)
{
    for (int i = 0; i < m->series_count; i++) {
        const struct sw_ui_series *s = &m->series[i];
        bool train = sw_str_eq(s->split, "train");
        if ((split ? sw_str_eq(s->split, split) : !train) && sw_str_eq(s->name, name))
            return s;
    }

    return NULL;
}

bool sw_ui_is_constant(const struct sw_ui_series *s)
{
    return s->count > 1 && !s->changes;
}

double sw_ui_newest(const struct sw_ui_series *s)
{
    return s && s->count > 0 ? s->recent[(s->count - 1) % SW_UI_RECENT] : (double)NAN;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sw_ui_median(const struct sw_ui_series *s)
{
    double sorted[SW_UI_RECENT];
    int n = s ? (int)(s->count < SW_UI_RECENT ? s->count : SW_UI_RECENT) : 0;
    if (n == 0)
        return NAN;

    memcpy(sorted, s->recent, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

/* ---- Events -----------------------------------------------------------------------------------
 */

static struct sw_ui_event *event_at(struct sw_ui_model *m, int64_t number)
{
    return &m->events[number % SW_UI_EVENTS];
}

/* Inserts an event by time: different tables deliver events slightly out of order. */
static struct sw_ui_event *insert(struct sw_ui_model *m, const struct sw_ui_event *e)
{
    int64_t at = m->event_total++;
    int64_t first = m->event_total - sw_ui_event_count(m);

    for (; at > first && event_at(m, at - 1)->time > e->time; at--)
        *event_at(m, at) = *event_at(m, at - 1);
    *event_at(m, at) = *e;

    return event_at(m, at);
}

void sw_ui_event_add(struct sw_ui_model *m, double time, enum sw_log_level level,
                     const char *source, const char *text)
{
    struct sw_ui_event e = {.time = time, .step = -1, .level = level};
    sw_utf8_copy(e.source, sizeof e.source, source);
    sw_utf8_copy(e.text, sizeof e.text, text);
    insert(m, &e);
}

void sw_ui_event_eval(struct sw_ui_model *m, double time, const char *split, int64_t step,
                      const char *name, double value)
{
    char number[16], value_text[96];
    struct sw_ui_event *e = NULL;
    int64_t last = m->event_total - 1, first = m->event_total - sw_ui_event_count(m);

    for (int64_t i = last; i >= first && !e; i--)
        if (event_at(m, i)->step == step && sw_str_eq(event_at(m, i)->source, split))
            e = event_at(m, i);

    if (!e) {
        struct sw_ui_event one = {.time = time, .step = step, .level = SW_LOG_INFO};
        sw_utf8_copy(one.source, sizeof one.source, split);
        snprintf(one.text, sizeof one.text, "step %lld:", (long long)step);
        e = insert(m, &one);
    }

    size_t n = strlen(e->text);
    snprintf(value_text, sizeof value_text, "  %s %s", name, sw_chart_number(number, value));
    if (!strstr(e->text, value_text)) /* curves are read again after a resume */
        snprintf(e->text + n, sizeof e->text - n, "%s", value_text);
}

void sw_ui_event_checkpoint(struct sw_ui_model *m, double time, int64_t step, const char *path,
                            double bytes)
{
    char size[32];
    struct sw_ui_event e = {.time = time, .step = step, .level = SW_LOG_INFO};
    const char *name = strrchr(path, '/');

    snprintf(e.source, sizeof e.source, "checkpoint");
    snprintf(e.text, sizeof e.text, "step %lld: %.150s, %s", (long long)step,
             name ? name + 1 : path, sw_human_bytes(size, bytes));
    insert(m, &e);
}

int sw_ui_event_count(const struct sw_ui_model *m)
{
    return (int)(m->event_total < SW_UI_EVENTS ? m->event_total : SW_UI_EVENTS);
}

const struct sw_ui_event *sw_ui_event_at(const struct sw_ui_model *m, int i)
{
    int64_t first = m->event_total - sw_ui_event_count(m);
    return &m->events[(first + i) % SW_UI_EVENTS];
}

/* ---- The run ----------------------------------------------------------------------------------
 */

void sw_ui_model_clear(struct sw_ui_model *m)
{
    sw_ui_series_fini(m->series, &m->series_count);
    sw_ui_series_fini(m->overlay, &m->overlay_count);
    sw_ui_plan_fini(&m->plan);
    sw_free(m->threads);
    sw_free(m->placements);
    m->threads = NULL;
    m->placements = NULL;
    m->thread_count = m->placement_count = m->resume_count = m->layer_count = m->link_count = 0;
    m->device_count = m->host_count = 0;
    m->overlay_run = 0;
    m->event_total = 0;
    m->checkpoint_step = -1;
    m->checkpoint_time = NAN;
    m->rows_age = m->segment_start = NAN;
    m->ended_s = 0;
    m->found = m->live = false;
    m->problem[0] = 0;
    m->run = (struct sw_ui_run){0};
    m->ledger = (struct sw_ledger){.step_ms = NAN, .p50_ms = NAN, .p99_ms = NAN};
    m->machine = (struct sw_ui_machine){0};
}

void sw_ui_model_fini(struct sw_ui_model *m)
{
    sw_ui_model_clear(m);
    sw_free(m->rows);
    m->rows = NULL;
    m->row_count = 0;
}

/* ---- Hosts ---- */

const char *sw_ui_role(const char *unit)
{
    size_t n = strcspn(unit, "/ "); /* a name of a host has no blanks */
    return unit[n] == '/' ? unit + n + 1 : unit;
}

int sw_ui_host_of(const struct sw_ui_model *m, const char *unit)
{
    size_t n = (size_t)(sw_ui_role(unit) - unit);

    for (int i = 1; i < m->host_count && n > 1; i++)
        if (strlen(m->hosts[i].name) == n - 1 && strncmp(m->hosts[i].name, unit, n - 1) == 0)
            return i;

    return 0;
}

static bool is_remote(const char *unit)
{
    return sw_ui_role(unit) != unit;
}

static int64_t step_of_host(const struct sw_ui_model *m, int host)
{
    int64_t step = -1;

    for (int i = 0; m->live && i < m->thread_count; i++) {
        const struct sw_slot_state *s = &m->threads[i].slot;

        if (sw_ui_thread_kind_of(s->name) == SW_UI_WORKER && sw_ui_host_of(m, s->name) == host)
            step = step < 0 || s->done_step < step ? s->done_step : step;
    }

    return step;
}

static double rate_of_host(const struct sw_ui_model *m, const struct sw_ui_host *h)
{
    double rate = NAN;

    for (int i = 0; i < m->link_count; i++) {
        const struct sw_run_traffic *l = &m->links[i];

        if (sw_str_eq(l->kind, "net") && sw_str_eq(l->from, h->name) && l->ms_per_step > 0)
            rate = (isnan(rate) ? 0 : rate) + l->bytes_per_step * 1e3 / l->ms_per_step;
    }

    return rate;
}

void sw_ui_update_hosts(struct sw_ui_model *m)
{
    for (int i = 0; i < m->host_count; i++) {
        m->hosts[i].left |= m->run.status != SW_RUN_RUNNING;
        m->hosts[i].step = step_of_host(m, i);
        m->hosts[i].bytes_per_s = m->hosts[i].left ? (double)NAN : rate_of_host(m, &m->hosts[i]);
    }
}

const char *sw_ui_host_state(const struct sw_ui_host *h)
{
    return *h->why ? "lost" : h->left ? "left" : "running";
}

enum sw_ui_thread_kind sw_ui_thread_kind_of(const char *unit)
{
    const char *role = sw_ui_role(unit);

    return sw_str_starts(role, "worker")   ? SW_UI_WORKER
           : sw_str_starts(role, "server") ? SW_UI_SERVER
                                           : SW_UI_READER;
}

/* Other hosts are at the same step, but what is known of them is older. */
int64_t sw_ui_step(const struct sw_ui_model *m)
{
    int64_t step = step_of_host(m, 0);

    for (int i = 0; step < 0 && i < m->series_count; i++)
        if (sw_str_eq(m->series[i].split, "train"))
            step = m->series[i].last_step;

    return step;
}

double sw_ui_elapsed(const struct sw_ui_model *m)
{
    bool running = m->run.status == SW_RUN_RUNNING;
    if (running && !isnan(m->segment_start))
        return m->ended_s + m->now - m->segment_start;

    /* The segment of a crashed run has no end; the last record is its end. */
    double open_s = isnan(m->segment_start) ? 0 : fmax(0, m->run.ended_at - m->segment_start);
    return !running && m->ended_s + open_s > 0 ? m->ended_s + open_s : (double)NAN;
}

double sw_ui_eta(const struct sw_ui_model *m)
{
    double speed = sw_ui_median(sw_ui_series_find(m, "train", "samples_per_s"));
    int64_t left = m->run.steps - sw_ui_step(m);
    if (m->run.status != SW_RUN_RUNNING || !(speed > 0) || m->run.batch <= 0 || left < 0)
        return NAN;

    return (double)(left * m->run.batch) / speed;
}

/* The number of workers of the first host in a phase; *all gets the number of its workers. */
static int workers_in(const struct sw_ui_model *m, enum sw_phase phase, int *all)
{
    int count = 0;

    *all = 0;
    for (int i = 0; i < m->thread_count; i++)
        if (sw_ui_thread_kind_of(m->threads[i].slot.name) == SW_UI_WORKER &&
            !is_remote(m->threads[i].slot.name)) {
            ++*all;
            count += m->threads[i].slot.phase == phase;
        }

    return count;
}

bool sw_ui_paused(const struct sw_ui_model *m)
{
    int all, paused = workers_in(m, SW_PHASE_PAUSED, &all);
    return m->live && all > 0 && paused == all;
}

const char *sw_ui_status(const struct sw_ui_model *m)
{
    static const struct {
        enum sw_phase phase;
        const char *text;
    } special[] = {{SW_PHASE_START, "starting"},
                   {SW_PHASE_EVALUATE, "evaluating"},
                   {SW_PHASE_CHECKPOINT, "saving"}};

    int all;
    if (!m->live || m->run.status != SW_RUN_RUNNING)
        return sw_run_status_name(m->run.status);
    if (sw_ui_paused(m))
        return "paused";

    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (workers_in(m, special[i].phase, &all) > 0)
            return special[i].text;

    return "running";
}

/* ---- The bottleneck
 * ------------------------------------------------------------------------------
 */

enum { CORES = 1024 };

const char *sw_ui_next_range(const char *list, long *from, long *to)
{
    char *end;

    if (*list < '0' || *list > '9')
        return NULL;

    *from = *to = strtol(list, &end, 10);
    if (*end == '-')
        *to = strtol(end + 1, &end, 10);

    return *end == ',' ? end + 1 : end;
}

/* Goes through the cores in "0-3,8": returns how many have no mark, and marks them if `mark`. */
static int walk_cores(const char *cores, bool marks[CORES], bool mark)
{
    int count = 0;
    long from, to;

    while ((cores = sw_ui_next_range(cores, &from, &to)))
        for (long c = from; c <= to && c < CORES; c++) {
            count += !marks[c];
            marks[c] |= mark;
        }

    return count;
}

static double busy_of(const struct sw_ui_model *m, const char *unit)
{
    for (int i = 0; i < m->thread_count; i++)
        if (sw_str_eq(m->threads[i].slot.name, unit))
            return m->threads[i].busy;
    return NAN;
}

static void count_servers(const struct sw_ui_model *m, struct sw_bottleneck_input *in)
{
    bool of_workers[CORES] = {false};
    double busy = 0;

    for (int i = 0; i < m->placement_count; i++)
        if (sw_ui_thread_kind_of(m->placements[i].unit) == SW_UI_WORKER &&
            !is_remote(m->placements[i].unit))
            walk_cores(m->placements[i].cores, of_workers, true);

    for (int i = 0; i < m->placement_count; i++) {
        if (sw_ui_thread_kind_of(m->placements[i].unit) != SW_UI_SERVER ||
            is_remote(m->placements[i].unit))
            continue;

        int dedicated = walk_cores(m->placements[i].cores, of_workers, false);
        in->servers++;
        in->dedicated_servers += dedicated > 0;
        in->server_cores += dedicated;
        busy += dedicated > 0 ? busy_of(m, m->placements[i].unit) : 0;
    }

    in->servers_busy = in->dedicated_servers > 0 ? busy / in->dedicated_servers : (double)NAN;
}

/* The workers of the first group; 0 if the placement is not known. */
static int group_size(const struct sw_ui_model *m)
{
    int count = 0;

    for (int i = 0; i < m->placement_count; i++)
        count += sw_str_starts(m->placements[i].unit, "worker0.");

    return count;
}

/* The threads that read training data for the first worker; 0 if the run is not live. */
static int readers_of_a_worker(const struct sw_ui_model *m)
{
    int count = 0;

    for (int i = 0; i < m->thread_count; i++)
        count += sw_str_starts(m->threads[i].slot.name, "prefetch0.0 train ");

    return count;
}

/* The names of workers by number; workers of a host are numbered after those of the hosts before
 * it.
 */
static int name_workers(const struct sw_ui_model *m, const char *names[SW_LEDGER_WORKERS])
{
    int count = 0;

    for (int host = 0; host < m->host_count; host++)
        for (int i = 0; i < m->placement_count && count < SW_LEDGER_WORKERS; i++)
            if (sw_ui_thread_kind_of(m->placements[i].unit) == SW_UI_WORKER &&
                sw_ui_host_of(m, m->placements[i].unit) == host)
                names[count++] = m->placements[i].unit;

    return count;
}

struct sw_bottleneck sw_ui_bottleneck(const struct sw_ui_model *m)
{
    const char *names[SW_LEDGER_WORKERS];
    struct sw_bottleneck_input in = {.ledger = &m->ledger, .names = names};
    double all = 0;

    in.name_count = name_workers(m, names);

    count_servers(m, &in);
    in.group_size = group_size(m);
    in.readers = readers_of_a_worker(m);
    in.on_cpu = sw_str_starts(m->run.device, "cpu");

    for (int i = 0; i < m->link_count; i++)
        if (sw_str_eq(m->links[i].kind, "h2d") || sw_str_eq(m->links[i].kind, "d2h"))
            in.copy_ms += m->links[i].ms_per_step;

    if (m->ledger.worker_count > 0)
        in.copy_ms /= m->ledger.worker_count;
    for (int i = 0; i < m->layer_count; i++)
        all += m->layers[i].forward_ms + m->layers[i].backward_ms;

    if (m->layer_count > 0 && all > 0) {
        in.slowest_layer = m->layers[0].name;
        in.slowest_fraction = (m->layers[0].forward_ms + m->layers[0].backward_ms) / all;
    }

    return sw_bottleneck_find(&in);
}
