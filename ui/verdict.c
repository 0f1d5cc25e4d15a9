/* Summarizes the time breakdown of the newest steps and names the bottleneck in one line.
 * sw_bottleneck_find tries the rules in order; thresholds are constants at the top. Pure functions;
 * the contract is in ui/verdict.h. */
#include "ui/verdict.h"

#include <math.h>
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
    {"copy", SW_ROLE_COPY, 'c'},        {"forward", SW_ROLE_COMPUTE, '='},
    {"backward", SW_ROLE_COMPUTE, '='}, {"update", SW_ROLE_COMM, 'u'},
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

static bool has_slow_worker(const struct sw_ledger *l, struct sw_bottleneck *v)
{
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

    v->bound = SW_BOUND_WORKER;
    v->worker = l->worker[slow].worker;
    snprintf(v->text, sizeof v->text,
             "worker %d is slow: %.1fx the others' work, mostly %s; they wait %.0f %%", v->worker,
             factor, sw_step_phase_name(largest_excess(l, slow)), 100 * waiting);

    return true;
}

static void set_bottleneck(struct sw_bottleneck *v, enum sw_bound bound, const char *fmt,
                           double percent) __attribute__((format(printf, 3, 0)));
static void set_bottleneck(struct sw_bottleneck *v, enum sw_bound bound, const char *fmt,
                           double percent)
{
    v->bound = bound;
    snprintf(v->text, sizeof v->text, fmt, percent);
}

static bool waits_for_data(const struct sw_ledger *l, struct sw_bottleneck *v)
{
    double read = sw_ledger_fraction(l, SW_STEP_READ),
           decode = sw_ledger_fraction(l, SW_STEP_DECODE);
    if (read + decode < significant)
        return false;

    if (read >= decode)
        set_bottleneck(
            v, SW_BOUND_DISK,
            "input-bound: workers wait %.0f %% for reading; try shards, a faster disk or more data "
            "workers",
            100 * (read + decode));
    else
        set_bottleneck(
            v, SW_BOUND_DECODE,
            "input-bound: workers wait %.0f %% for decoding; try more data workers or smaller "
            "images",
            100 * (read + decode));

    return true;
}

static bool waits_for_copies(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    double h2d = sw_ledger_fraction(in->ledger, SW_STEP_H2D);
    double comm = sw_ledger_fraction(in->ledger, SW_STEP_COMM);
    double step_ms = in->ledger->step_ms;

    if (h2d >= significant)
        set_bottleneck(
            v, SW_BOUND_COPY,
            "copy-bound: copying batches to the device takes %.0f %% of a step; try a faster link",
            100 * h2d);
    else if (comm >= significant && in->copy_ms >= 0.5 * comm * step_ms)
        set_bottleneck(v, SW_BOUND_COPY,
                       "copy-bound: copies of gradients and parameters take %.0f %% of a step; try "
                       "copy = none or "
                       "larger batches",
                       100 * comm);
    else
        return false;

    return true;
}

static bool too_many_servers(const struct sw_bottleneck_input *in, struct sw_bottleneck *v)
{
    const struct sw_ledger *l = in->ledger;
    double exchange = sw_ledger_fraction(l, SW_STEP_COMM) + sw_ledger_fraction(l, SW_STEP_UPDATE);
    double compute =
        sw_ledger_fraction(l, SW_STEP_FORWARD) + sw_ledger_fraction(l, SW_STEP_BACKWARD);
    if (in->server_cores > 0 && in->servers_busy < idle_servers && compute >= 0.5) {
        v->bound = SW_BOUND_SERVERS;
        snprintf(v->text, sizeof v->text,
                 "too many servers: %d use %d core%s and are busy %.0f %%; try fewer, or "
                 "bind_servers = yes",
                 in->dedicated_servers, in->server_cores, in->server_cores == 1 ? "" : "s",
                 100 * in->servers_busy);
        return true;
    }

    if (in->servers > l->worker_count && exchange >= significant) {
        v->bound = SW_BOUND_SERVERS;
        snprintf(v->text, sizeof v->text,
                 "too many servers: %d for %d worker%s, and parameters take %.0f %% of a step; "
                 "use fewer servers",
                 in->servers, l->worker_count, l->worker_count == 1 ? "" : "s", 100 * exchange);
        return true;
    }

    return false;
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

    if (comm >= significant && comm >= update && comm >= wait)
        set_bottleneck(
            v, SW_BOUND_COMM,
            "communication-bound: workers wait %.0f %% for parameters; try larger batches or a "
            "partition",
            100 * comm);
    else if (wait >= significant && wait >= update)
        set_bottleneck(v, SW_BOUND_GROUPS, "workers wait %.0f %% of a step for each other",
                       100 * wait);
    else if (update >= significant && update >= rest)
        set_bottleneck(
            v, SW_BOUND_UPDATE,
            "update-bound: updates take %.0f %% of a step; try larger batches or servers on other "
            "cores",
            100 * update);
    else if (rest >= significant && rest > compute)
        set_bottleneck(
            v, SW_BOUND_OVERHEAD,
            "overhead: %.0f %% of a step is neither computing nor waiting; try a larger batch or "
            "stop other programs",
            100 * rest);
    else
        set_bottleneck(v, SW_BOUND_COMPUTE, "compute-bound: %.0f %% forward and backward",
                       100 * compute);

    if (v->bound == SW_BOUND_COMPUTE && in->slowest_layer) {
        size_t n = strlen(v->text);
        snprintf(v->text + n, sizeof v->text - n, "; slowest layer: %.40s (%.0f %%)",
                 in->slowest_layer, 100 * in->slowest_fraction);
    }
}

struct sw_bottleneck sw_bottleneck_find(const struct sw_bottleneck_input *in)
{
    struct sw_bottleneck v = {.bound = SW_BOUND_UNKNOWN, .worker = -1};

    if (in->ledger->worker_count == 0 || isnan(sw_ledger_fraction(in->ledger, SW_STEP_READ))) {
        snprintf(v.text, sizeof v.text, "no step has been measured yet");
        return v;
    }

    if (!has_slow_worker(in->ledger, &v) && !waits_for_data(in->ledger, &v) &&
        !waits_for_copies(in, &v) && !too_many_servers(in, &v))
        largest_phase(in, &v);

    return v;
}
