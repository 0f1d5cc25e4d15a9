/* Summarizes the time breakdown of the newest steps and names the bottleneck in one line.
 * sw_bottleneck_find tries the rules in order; thresholds are constants at the top. Pure functions;
 * the contract is in ui/verdict.h. */
#include "ui/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thresholds: the fraction of a step that is worth a change, the factor from which a worker counts
 * as slow, and the busy fraction below which servers count as idle. */
static const double significant = 0.2, slow_factor = 1.25, idle_servers = 0.15;

/* ---- Phases of a step
 * ------------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    enum sw_role role;
    char letter;
} phases[SW_STEP_PHASES] = {
    {"read", SW_ROLE_DATA, 'r'},        {"decode", SW_ROLE_DATA, 'd'},
    {"copy", SW_ROLE_COPY, 'c'},        {"forward", SW_ROLE_COMPUTE, 'f'},
    {"backward", SW_ROLE_COMPUTE, 'b'}, {"update", SW_ROLE_COMM, 'u'},
    {"comm", SW_ROLE_COMM, '#'},        {"wait", SW_ROLE_WAIT, '.'},
    {"rest", SW_ROLE_DIM, '~'},
};

const char *sw_step_phase_name(enum sw_step_phase p)
{
    return phases[p].name;
}

enum sw_role sw_step_phase_role(enum sw_step_phase p)
{
    return phases[p].role;
}

char sw_step_phase_letter(enum sw_step_phase p)
{
    return phases[p].letter;
}

/* ---- The ledger -------------------------------------------------------------------------------
 */

static void phases_of(const struct sw_step_time *row, double ms[SW_STEP_PHASES])
{
    const double all[SW_STEP_PHASES] = {row->read_ms,         row->decode_ms,   row->h2d_ms,
                                        row->forward_ms,      row->backward_ms, row->update_ms,
                                        row->comm_exposed_ms, row->wait_ms,     row->idle_ms};
    memcpy(ms, all, sizeof all);
}

static double sum(const double ms[SW_STEP_PHASES])
{
    double all = 0;
    for (int p = 0; p < SW_STEP_PHASES; p++)
        all += ms[p];
    return all;
}

double sw_ledger_step_ms(const struct sw_ledger_worker *w)
{
    return sum(w->ms);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Adds a row to the sums of its worker; returns the total time, or 0 if there are too many
 * workers. */
static double add_row(struct sw_ledger *l, const struct sw_step_time *row)
{
    double ms[SW_STEP_PHASES];
    int i = 0;

    while (i < l->worker_count && l->worker[i].worker != row->worker)
        i++;
    if (i == SW_LEDGER_WORKERS)
        return 0;

    struct sw_ledger_worker *w = &l->worker[i];
    if (i == l->worker_count) {
        *w = (struct sw_ledger_worker){.worker = row->worker};
        l->worker_count++;
    }

    phases_of(row, ms);
    for (int p = 0; p < SW_STEP_PHASES; p++)
        w->ms[p] += ms[p];
    w->hidden_ms += row->comm_hidden_ms;
    w->staleness = row->staleness > w->staleness ? row->staleness : w->staleness;
    w->steps++;

    return sum(ms);
}

/* Sets the medians of a worker from its rows, at most SW_LEDGER_STEPS of them. */
static void find_medians(struct sw_ledger_worker *w, const struct sw_step_time *rows, int count)
{
    double values[SW_STEP_PHASES][SW_LEDGER_STEPS], ms[SW_STEP_PHASES];
    int steps = 0;

    for (int i = 0; i < count && steps < SW_LEDGER_STEPS; i++) {
        if (rows[i].worker != w->worker)
            continue;

        phases_of(&rows[i], ms);
        for (int p = 0; p < SW_STEP_PHASES; p++)
            values[p][steps] = ms[p];
        steps++;
    }

    for (int p = 0; p < SW_STEP_PHASES && steps > 0; p++) {
        qsort(values[p], (size_t)steps, sizeof *values[p], by_size);
        w->median_ms[p] = values[p][steps / 2];
    }
}

void sw_ledger_make(struct sw_ledger *l, const struct sw_step_time *rows, int count)
{
    double longest[SW_LEDGER_STEPS], all = 0;
    int steps = 0;

    *l = (struct sw_ledger){.p50_ms = NAN, .p99_ms = NAN, .step_ms = NAN};
    for (int i = 0; i < count; i++) {
        double ms = add_row(l, &rows[i]);

        if (i == 0 || rows[i].step != rows[i - 1].step) {
            if (steps == SW_LEDGER_STEPS)
                break;
            longest[steps++] = 0;
        }

        longest[steps - 1] = fmax(longest[steps - 1], ms);
    }

    for (int w = 0; w < l->worker_count; w++) {
        for (int p = 0; p < SW_STEP_PHASES; p++)
            l->worker[w].ms[p] /= (double)l->worker[w].steps;
        l->worker[w].hidden_ms /= (double)l->worker[w].steps;
        find_medians(&l->worker[w], rows, count);
    }

    if (steps == 0)
        return;

    for (int i = 0; i < steps; i++)
        all += longest[i];
    qsort(longest, (size_t)steps, sizeof *longest, by_size);
    l->step_ms = all / steps;
    l->p50_ms = longest[steps / 2];
    l->p99_ms = longest[(steps * 99) / 100];
    l->from_step = rows[0].step;
    l->to_step = rows[count - 1].step;
}

double sw_ledger_fraction(const struct sw_ledger *l, enum sw_step_phase p)
{
    double part = 0, all = 0;

    for (int w = 0; w < l->worker_count; w++) {
        part += l->worker[w].ms[p];
        all += sum(l->worker[w].ms);
    }

    return all > 0 ? part / all : (double)NAN;
}

/* ---- The bottleneck
 * ------------------------------------------------------------------------------
 */

const char *sw_bound_name(enum sw_bound b)
{
    static const char *const names[] = {"unknown",       "compute", "disk",    "decode",
                                        "copy",          "worker",  "servers", "update",
                                        "communication", "groups",  "overhead"};
    return names[b];
}

/* Time that a worker spends on its own work: the step without waiting for others. */
static double own_ms(const struct sw_ledger_worker *w)
{
    return sum(w->ms) - w->ms[SW_STEP_COMM] - w->ms[SW_STEP_WAIT];
}

static double waiting_fraction(const struct sw_ledger_worker *w)
{
    double all = sum(w->ms);
    return all > 0 ? (w->ms[SW_STEP_COMM] + w->ms[SW_STEP_WAIT]) / all : 0;
}

/* The phase in which worker `slow` exceeds the mean of the others by most. */
static enum sw_step_phase largest_excess(const struct sw_ledger *l, int slow)
{
    enum sw_step_phase worst = SW_STEP_FORWARD;
    double most = -1;

    for (int p = 0; p < SW_STEP_PHASES; p++) {
        double others = 0;

        if (p == SW_STEP_COMM || p == SW_STEP_WAIT)
            continue;

        for (int w = 0; w < l->worker_count; w++)
            others += w == slow ? 0 : l->worker[w].ms[p];

        double more = l->worker[slow].ms[p] - others / (l->worker_count - 1);
        if (more > most) {
            most = more;
            worst = (enum sw_step_phase)p;
        }
    }

    return worst;
}

static void diagnose(struct sw_bottleneck *v, enum sw_bound bound, const char *fmt, ...)
    SW_PRINTF(3, 4);
static void diagnose(struct sw_bottleneck *v, enum sw_bound bound, const char *fmt, ...)
{
    va_list ap;

    v->bound = bound;
    va_start(ap, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, ap);
    va_end(ap);
}

static void advise(struct sw_bottleneck *v, const char *fmt, ...) SW_PRINTF(2, 3);
static void advise(struct sw_bottleneck *v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(v->advice, sizeof v->advice, fmt, ap);
    va_end(ap);
}

/* " (now 2)": the number of prefetch threads of a worker, if it is known. */
static const char *readers_now(const struct sw_bottleneck_input *in, char out[24])
{
    *out = 0;
    if (in->readers > 0)
        snprintf(out, 24, " (now %d)", in->readers);
    return out;
}

/* "worker1.0", as the panels call it, or "worker 2" if the size of the groups is not known. */
static const char *worker_name(const struct sw_bottleneck_input *in, int worker, char out[32])
{
    if (worker < in->name_count)
        snprintf(out, 32, "%s", in->names[worker]);
    else if (in->group_size > 0)
        snprintf(out, 32, "worker%d.%d", worker / in->group_size, worker % in->group_size);
    else
        snprintf(out, 32, "worker %d", worker);
    return out;
}

static void advise_on_slow_worker(const struct sw_bottleneck_input *in, enum sw_step_phase excess,
                                  struct sw_bottleneck *v)
{
    char now[24];

    if (excess == SW_STEP_READ || excess == SW_STEP_DECODE)
        advise(v, "raise workers in [data train]%s; panel 4 shows its cores", readers_now(in, now));
    else if (excess == SW_STEP_H2D)
        advise(v, "check the link of its device: singa-ws doctor");
    else if (excess == SW_STEP_FORWARD || excess == SW_STEP_BACKWARD)
        advise(v, "set rebalance = yes in [cluster]; check its cores: singa-ws doctor");
    else
        advise(v, "end other programs on its cores (panel 4 shows them): singa-ws doctor");
}

static bool has_slow_worker(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    const struct sw_ledger *l = in->ledger;
    char name[32];
    int slow = 0;
    double others = 0, waiting = 0;

    if (l->worker_count < 2)
        return false;

    for (int w = 1; w < l->worker_count; w++)
        slow = own_ms(&l->worker[w]) > own_ms(&l->worker[slow]) ? w : slow;

    for (int w = 0; w < l->worker_count; w++)
        if (w != slow) {
            others = fmax(others, own_ms(&l->worker[w]));
            waiting += waiting_fraction(&l->worker[w]) / (l->worker_count - 1);
        }

    double factor = others > 0 ? own_ms(&l->worker[slow]) / others : 0;
    if (factor < slow_factor ||
        (waiting < significant && waiting_fraction(&l->worker[slow]) < 0.01))
        return false;

    enum sw_step_phase excess = largest_excess(l, slow);
    v->worker = l->worker[slow].worker;
    diagnose(v, SW_BOUND_WORKER, "%s is slow: %.1fx the others' work, mostly %s; they wait %.0f %%",
             worker_name(in, v->worker, name), factor, sw_step_phase_name(excess), 100 * waiting);
    advise_on_slow_worker(in, excess, v);

    return true;
}

static bool waits_for_data(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    double read = sw_ledger_fraction(in->ledger, SW_STEP_READ),
           decode = sw_ledger_fraction(in->ledger, SW_STEP_DECODE);
    char now[24];

    if (read + decode < significant)
        return false;

    readers_now(in, now);
    if (read >= decode) {
        diagnose(v, SW_BOUND_DISK, "input-bound: workers wait %.0f %% for reading",
                 100 * (read + decode));
        advise(v, "raise workers in [data train]%s, or use a shard: singa-ws data import", now);
    } else {
        diagnose(v, SW_BOUND_DECODE, "input-bound: workers wait %.0f %% for decoding",
                 100 * (read + decode));
        advise(v, "raise workers in [data train]%s, or data import --resize into a shard", now);
    }

    return true;
}

static bool waits_for_copies(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    double h2d = sw_ledger_fraction(in->ledger, SW_STEP_H2D);
    double comm = sw_ledger_fraction(in->ledger, SW_STEP_COMM);
    double step_ms = in->ledger->step_ms;

    if (h2d >= significant) {
        diagnose(v, SW_BOUND_COPY, "copy-bound: copying batches to the device takes %.0f %%",
                 100 * h2d);
        advise(v, "lower crop or resize in [data train]; check the link: singa-ws doctor");
    } else if (comm >= significant && in->copy_ms >= 0.5 * comm * step_ms) {
        diagnose(v, SW_BOUND_COPY, "copy-bound: copies of gradients and parameters take %.0f %%",
                 100 * comm);
        advise(v, "set copy = none in [cluster], or raise batch in [job]");
    } else {
        return false;
    }

    return true;
}

static bool too_many_servers(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    const struct sw_ledger *l = in->ledger;
    double exchange = sw_ledger_fraction(l, SW_STEP_COMM) + sw_ledger_fraction(l, SW_STEP_UPDATE);
    double compute =
        sw_ledger_fraction(l, SW_STEP_FORWARD) + sw_ledger_fraction(l, SW_STEP_BACKWARD);

    if (in->server_cores > 0 && in->servers_busy < idle_servers && compute >= 0.5) {
        diagnose(v, SW_BOUND_SERVERS, "too many servers: %d use %d core%s and are busy %.0f %%",
                 in->dedicated_servers, in->server_cores, in->server_cores == 1 ? "" : "s",
                 100 * in->servers_busy);
        advise(v, "lower servers_per_group in [cluster], or set bind_servers = yes there");
        return true;
    }

    if (in->servers > l->worker_count && exchange >= significant) {
        diagnose(v, SW_BOUND_SERVERS,
                 "too many servers: %d for %d worker%s; parameters take %.0f %% of a step",
                 in->servers, l->worker_count, l->worker_count == 1 ? "" : "s", 100 * exchange);
        advise(v, "lower servers_per_group in [cluster] to at most %d", l->worker_count);
        return true;
    }

    return false;
}

/* The worker that waits least is the one that the others wait for. */
static int least_waiting(const struct sw_ledger *l)
{
    int least = 0;

    for (int w = 1; w < l->worker_count; w++)
        if (waiting_fraction(&l->worker[w]) < waiting_fraction(&l->worker[least]))
            least = w;

    return l->worker[least].worker;
}

static void waits_for_workers(const struct sw_bottleneck_input *in, double wait,
                              struct sw_bottleneck *v)
{
    const int workers = in->ledger->worker_count;
    char name[32];

    if (workers > 1)
        diagnose(v, SW_BOUND_GROUPS, "workers wait %.0f %% for each other, %s least", 100 * wait,
                 worker_name(in, least_waiting(in->ledger), name));
    else
        diagnose(v, SW_BOUND_GROUPS, "the worker waits %.0f %% of a step for others", 100 * wait);

    if (in->group_size > 0 && workers > in->group_size)
        advise(v, "raise staleness in [cluster], or set consistency = async there");
    else
        advise(v, "set rebalance = yes in [cluster], or split fewer layers (partition = 0)");
}

static void computes(const struct sw_bottleneck_input *in, double fraction, struct sw_bottleneck *v)
{
    diagnose(v, SW_BOUND_COMPUTE, "compute-bound: %.0f %% forward and backward", 100 * fraction);

    if (in->slowest_layer) {
        size_t n = strlen(v->text);
        snprintf(v->text + n, sizeof v->text - n, "; slowest layer: %.40s (%.0f %%)",
                 in->slowest_layer, 100 * in->slowest_fraction);
    }

    if (in->on_cpu)
        advise(v, "nothing waits; faster: tune = yes in [job], more cores, or a GPU");
    else
        advise(v, "nothing waits; faster: precision = bf16 in [job], or more devices");
}

/* Names the largest phase, if no other rule applies. */
static void largest_phase(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    const struct sw_ledger *l = in->ledger;
    double update = sw_ledger_fraction(l, SW_STEP_UPDATE),
           comm = sw_ledger_fraction(l, SW_STEP_COMM);
    double wait = sw_ledger_fraction(l, SW_STEP_WAIT), rest = sw_ledger_fraction(l, SW_STEP_IDLE);
    double compute =
        sw_ledger_fraction(l, SW_STEP_FORWARD) + sw_ledger_fraction(l, SW_STEP_BACKWARD);

    if (comm >= significant && comm >= update && comm >= wait) {
        diagnose(v, SW_BOUND_COMM, "communication-bound: workers wait %.0f %% for parameters",
                 100 * comm);
        advise(v, "raise batch in [job], set comm = auto in [cluster], or use fewer workers");
    } else if (wait >= significant && wait >= update) {
        waits_for_workers(in, wait, v);
    } else if (update >= significant && update >= rest) {
        diagnose(v, SW_BOUND_UPDATE, "update-bound: updates take %.0f %% of a step", 100 * update);
        advise(v, "raise batch in [job], or set bind_servers = no in [cluster]");
    } else if (rest >= significant && rest > compute) {
        diagnose(v, SW_BOUND_OVERHEAD,
                 "overhead: %.0f %% of a step is neither computing nor waiting", 100 * rest);
        advise(v, "raise batch in [job], or end other programs (panel 4 shows the load)");
    } else {
        computes(in, compute, v);
    }
}

struct sw_bottleneck sw_bottleneck_find(const struct sw_bottleneck_input *in)
{
    struct sw_bottleneck v = {.bound = SW_BOUND_UNKNOWN, .worker = -1};

    if (in->ledger->worker_count == 0 || isnan(sw_ledger_fraction(in->ledger, SW_STEP_READ))) {
        snprintf(v.text, sizeof v.text, "no step has been measured yet");
        return v;
    }

    if (!has_slow_worker(in, &v) && !waits_for_data(in, &v) && !waits_for_copies(in, &v) &&
        !too_many_servers(in, &v))
        largest_phase(in, &v);

    return v;
}
