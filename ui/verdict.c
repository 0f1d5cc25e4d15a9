/* Summarizes the time breakdown of the newest steps and names the bottleneck in one line. The rules
 * are tried in the order of sw_verdict_find; thresholds are constants at the top. Pure functions;
 * the contract is in ui/verdict.h. */
#include "ui/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thresholds: the share of a step that is worth a change, the factor from which a worker is slow,
 * and the share below which servers are idle. */
static const double worth = 0.2, far_slower = 1.25, hardly_busy = 0.15;

/* ---- Parts ------------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    enum sw_role role;
    char letter;
} parts[SW_PARTS] = {
    {"read", SW_ROLE_DATA, 'r'},        {"decode", SW_ROLE_DATA, 'd'},
    {"copy", SW_ROLE_COPY, 'c'},        {"forward", SW_ROLE_COMPUTE, '='},
    {"backward", SW_ROLE_COMPUTE, '='}, {"update", SW_ROLE_COMM, 'u'},
    {"comm", SW_ROLE_COMM, '#'},        {"wait", SW_ROLE_WAIT, '.'},
    {"rest", SW_ROLE_DIM, '~'},
};

const char *sw_part_name(enum sw_part p)
{
    return parts[p].name;
}

enum sw_role sw_part_role(enum sw_part p)
{
    return parts[p].role;
}

char sw_part_letter(enum sw_part p)
{
    return parts[p].letter;
}

/* ---- The ledger -------------------------------------------------------------------------------
 */

static void split_up(const struct sw_step_time *row, double ms[SW_PARTS])
{
    const double all[SW_PARTS] = {row->read_ms,         row->decode_ms,   row->h2d_ms,
                                  row->forward_ms,      row->backward_ms, row->update_ms,
                                  row->comm_exposed_ms, row->wait_ms,     row->idle_ms};
    memcpy(ms, all, sizeof all);
}

static double sum(const double ms[SW_PARTS])
{
    double all = 0;
    for (int p = 0; p < SW_PARTS; p++)
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
    double ms[SW_PARTS];
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
    split_up(row, ms);
    for (int p = 0; p < SW_PARTS; p++)
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
        for (int p = 0; p < SW_PARTS; p++)
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

double sw_ledger_share(const struct sw_ledger *l, enum sw_part p)
{
    double part = 0, all = 0;
    for (int w = 0; w < l->worker_count; w++) {
        part += l->worker[w].ms[p];
        all += sum(l->worker[w].ms);
    }
    return all > 0 ? part / all : (double)NAN;
}

/* ---- The verdict ------------------------------------------------------------------------------
 */

const char *sw_bound_name(enum sw_bound b)
{
    static const char *const names[] = {"unknown",       "compute", "disk",    "decode",
                                        "copy",          "worker",  "servers", "update",
                                        "communication", "groups",  "overhead"};
    return names[b];
}

/* The own work of a worker: its step without waiting for others. */
static double own_ms(const struct sw_ledger_worker *w)
{
    return sum(w->ms) - w->ms[SW_PART_COMM] - w->ms[SW_PART_WAIT];
}

static double waiting_share(const struct sw_ledger_worker *w)
{
    double all = sum(w->ms);
    return all > 0 ? (w->ms[SW_PART_COMM] + w->ms[SW_PART_WAIT]) / all : 0;
}

/* The part in which a worker is furthest above the mean of the others. */
static enum sw_part differs_most(const struct sw_ledger *l, int slow)
{
    enum sw_part worst = SW_PART_FORWARD;
    double most = -1;
    for (int p = 0; p < SW_PARTS; p++) {
        double others = 0;
        if (p == SW_PART_COMM || p == SW_PART_WAIT)
            continue;
        for (int w = 0; w < l->worker_count; w++)
            others += w == slow ? 0 : l->worker[w].ms[p];
        double more = l->worker[slow].ms[p] - others / (l->worker_count - 1);
        if (more > most) {
            most = more;
            worst = (enum sw_part)p;
        }
    }
    return worst;
}

static bool one_is_slow(const struct sw_ledger *l, struct sw_verdict *v)
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
            waiting += waiting_share(&l->worker[w]) / (l->worker_count - 1);
        }
    double factor = others > 0 ? own_ms(&l->worker[slow]) / others : 0;
    if (factor < far_slower || (waiting < worth && waiting_share(&l->worker[slow]) < 0.01))
        return false;
    v->bound = SW_BOUND_WORKER;
    v->worker = l->worker[slow].worker;
    snprintf(v->text, sizeof v->text,
             "worker %d is slow: %.1f x the others' work, mostly %s; they wait %.0f %%", v->worker,
             factor, sw_part_name(differs_most(l, slow)), 100 * waiting);
    return true;
}

static void say(struct sw_verdict *v, enum sw_bound bound, const char *fmt, double percent)
    __attribute__((format(printf, 3, 0)));
static void say(struct sw_verdict *v, enum sw_bound bound, const char *fmt, double percent)
{
    v->bound = bound;
    snprintf(v->text, sizeof v->text, fmt, percent);
}

static bool waits_for_data(const struct sw_ledger *l, struct sw_verdict *v)
{
    double read = sw_ledger_share(l, SW_PART_READ), decode = sw_ledger_share(l, SW_PART_DECODE);
    if (read + decode < worth)
        return false;
    if (read >= decode)
        say(v, SW_BOUND_DISK,
            "input-bound: workers wait %.0f %% for reading; try shards, a faster disk, more data "
            "workers",
            100 * (read + decode));
    else
        say(v, SW_BOUND_DECODE,
            "input-bound: workers wait %.0f %% for decoding; try more data workers, smaller "
            "pictures",
            100 * (read + decode));
    return true;
}

static bool waits_for_copies(const struct sw_verdict_input *in, struct sw_verdict *v)
{
    double h2d = sw_ledger_share(in->ledger, SW_PART_H2D);
    double comm = sw_ledger_share(in->ledger, SW_PART_COMM);
    double step_ms = in->ledger->step_ms;
    if (h2d >= worth)
        say(v, SW_BOUND_COPY,
            "copy-bound: batches take %.0f %% of a step to reach the device; try a faster link",
            100 * h2d);
    else if (comm >= worth && in->copy_ms >= 0.5 * comm * step_ms)
        say(v, SW_BOUND_COPY,
            "copy-bound: %.0f %% of a step waits for gradients and values; try copy = none, larger "
            "batches",
            100 * comm);
    else
        return false;
    return true;
}

static bool too_many_servers(const struct sw_verdict_input *in, struct sw_verdict *v)
{
    const struct sw_ledger *l = in->ledger;
    double exchange = sw_ledger_share(l, SW_PART_COMM) + sw_ledger_share(l, SW_PART_UPDATE);
    double compute = sw_ledger_share(l, SW_PART_FORWARD) + sw_ledger_share(l, SW_PART_BACKWARD);
    if (in->server_cores > 0 && in->servers_busy < hardly_busy && compute >= 0.5) {
        v->bound = SW_BOUND_SERVERS;
        snprintf(v->text, sizeof v->text,
                 "too many servers: %d of them keep %d core%s and are at work %.0f %%; fewer, or "
                 "bind_servers = yes",
                 in->servers_apart, in->server_cores, in->server_cores == 1 ? "" : "s",
                 100 * in->servers_busy);
        return true;
    }
    if (in->servers > l->worker_count && exchange >= worth) {
        v->bound = SW_BOUND_SERVERS;
        snprintf(v->text, sizeof v->text,
                 "too many servers: %d for %d worker%s, and parameters take %.0f %% of a step; "
                 "fewer servers",
                 in->servers, l->worker_count, l->worker_count == 1 ? "" : "s", 100 * exchange);
        return true;
    }
    return false;
}

/* Names the largest part, if no other rule applies. */
static void largest_part(const struct sw_verdict_input *in, struct sw_verdict *v)
{
    const struct sw_ledger *l = in->ledger;
    double update = sw_ledger_share(l, SW_PART_UPDATE), comm = sw_ledger_share(l, SW_PART_COMM);
    double wait = sw_ledger_share(l, SW_PART_WAIT), rest = sw_ledger_share(l, SW_PART_IDLE);
    double compute = sw_ledger_share(l, SW_PART_FORWARD) + sw_ledger_share(l, SW_PART_BACKWARD);
    if (comm >= worth && comm >= update && comm >= wait)
        say(v, SW_BOUND_COMM,
            "communication-bound: workers wait %.0f %% for parameters; try larger batches, a "
            "partition",
            100 * comm);
    else if (wait >= worth && wait >= update)
        say(v, SW_BOUND_GROUPS, "workers wait %.0f %% of a step for each other", 100 * wait);
    else if (update >= worth && update >= rest)
        say(v, SW_BOUND_UPDATE,
            "update-bound: %.0f %% of a step is updates; try larger batches, servers on other "
            "cores",
            100 * update);
    else if (rest >= worth && rest > compute)
        say(v, SW_BOUND_OVERHEAD,
            "overhead: %.0f %% of a step is neither computing nor waiting; try a larger batch, "
            "fewer "
            "other programs",
            100 * rest);
    else
        say(v, SW_BOUND_COMPUTE, "compute-bound: %.0f %% forward and backward", 100 * compute);
    if (v->bound == SW_BOUND_COMPUTE && in->slowest_layer) {
        size_t n = strlen(v->text);
        snprintf(v->text + n, sizeof v->text - n, "; the slowest layer, %.40s, has %.0f %% of that",
                 in->slowest_layer, 100 * in->slowest_share);
    }
}

struct sw_verdict sw_verdict_find(const struct sw_verdict_input *in)
{
    struct sw_verdict v = {.bound = SW_BOUND_UNKNOWN, .worker = -1};
    if (in->ledger->worker_count == 0 || isnan(sw_ledger_share(in->ledger, SW_PART_READ))) {
        snprintf(v.text, sizeof v.text, "no step has been measured yet");
        return v;
    }
    if (!one_is_slow(in->ledger, &v) && !waits_for_data(in->ledger, &v) &&
        !waits_for_copies(in, &v) && !too_many_servers(in, &v))
        largest_part(in, &v);
    return v;
}
