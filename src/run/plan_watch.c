/* Medians over the last steps of every worker. The contract is in run/plan_watch.h. */
#include "run/plan_watch.h"

#include "base/os.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = SW_PLAN_PARTS, CURVES }; /* of a worker: the parts, and the whole step */
enum { MOVED = 2 };                    /* factor of what was told */

struct sw_plan_watch_worker {
    float ms[CURVES][SW_PLAN_WATCH_STEPS]; /* rings */
    int64_t steps;
    /* Steps on end, up to the newest one: too far from the plan; not so; and far from what was
     * told, too. */
    int deviating, agreeing, moved;
};

int sw_plan_watch_init(struct sw_plan_watch *w, const struct sw_plan_times *predicted, int workers,
                       bool is_async, struct sw_err *err)
{
    *w = (struct sw_plan_watch){.predicted = *predicted,
                                .worker = sw_calloc((size_t)workers, sizeof *w->worker),
                                .workers = workers,
                                .is_async = is_async};
    return w->worker ? SW_OK : sw_err_nomem(err, "the watch over a plan", sizeof *w->worker);
}

void sw_plan_watch_fini(struct sw_plan_watch *w)
{
    sw_free(w->worker);
    *w = (struct sw_plan_watch){.worker = NULL};
}

/* ---- Medians ---- */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of the last `count` steps, or as many as there are; the lower one of two. */
static double median(const struct sw_plan_watch_worker *w, int curve, int count)
{
    float sorted[SW_PLAN_WATCH_STEPS];
    const int n = w->steps < count ? (int)w->steps : count;
    if (n == 0)
        return 0;

    for (int i = 0; i < n; i++)
        sorted[i] = w->ms[curve][(w->steps - 1 - i) % SW_PLAN_WATCH_STEPS];
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return (double)sorted[(n - 1) / 2];
}

static double usual(const struct sw_plan_watch_worker *w, int curve)
{
    return median(w, curve, SW_PLAN_WATCH_STEPS);
}

/* The slowest of asynchronous workers; of others, which are equally fast, the busiest, nearly as in
 * the simulation (planner/simulate.h): there updates count, which are measured together with waits
 * for values. */
static const struct sw_plan_watch_worker *deciding(const struct sw_plan_watch *w)
{
    const struct sw_plan_watch_worker *worst = NULL;
    double most = -1;

    for (int i = 0; i < w->workers; i++) {
        const struct sw_plan_watch_worker *x = &w->worker[i];
        const double weight = x->steps == 0 ? -1
                              : w->is_async ? usual(x, STEP)
                                            : usual(x, SW_PLAN_COMPUTE) + usual(x, SW_PLAN_REST);

        if (weight > most) {
            most = weight;
            worst = x;
        }
    }

    return worst;
}

/* ---- The verdict ---- */

enum sw_plan_verdict sw_plan_watch_add(struct sw_plan_watch *w, int worker,
                                       const double ms[SW_PLAN_PARTS])
{
    struct sw_plan_watch_worker *x = &w->worker[worker];
    const int at = (int)(x->steps % SW_PLAN_WATCH_STEPS);
    double step_ms = 0;

    for (int p = 0; p < SW_PLAN_PARTS; p++) {
        x->ms[p][at] = (float)ms[p];
        step_ms += ms[p];
    }
    x->ms[STEP][at] = (float)step_ms;
    x->steps++;

    const double smooth_ms = median(x, STEP, SW_PLAN_WATCH_SMOOTHS);
    const bool differs =
        fabs(smooth_ms - w->predicted.step_ms) > SW_PLAN_WATCH_SHARE * w->predicted.step_ms;
    x->deviating = differs ? x->deviating + 1 : 0;
    x->agreeing = differs ? 0 : x->agreeing + 1;
    x->moved =
        w->deviates && differs && (smooth_ms > MOVED * w->told_ms || smooth_ms * MOVED < w->told_ms)
            ? x->moved + 1
            : 0;

    const int so_far = !w->deviates             ? x->deviating
                       : x->agreeing > x->moved ? x->agreeing
                                                : x->moved;
    if (so_far < SW_PLAN_WATCH_STEPS || x != deciding(w))
        return SW_PLAN_UNCHANGED;

    w->deviates = differs;
    w->told_ms = usual(x, STEP);
    for (int i = 0; i < w->workers; i++)
        w->worker[i].moved = 0;
    return differs ? SW_PLAN_DEVIATES : SW_PLAN_AGREES;
}

void sw_plan_watch_gap(const struct sw_plan_watch *w, struct sw_plan_gap *out)
{
    const struct sw_plan_watch_worker *x = deciding(w);

    *out = (struct sw_plan_gap){.predicted = w->predicted, .measured.step_ms = usual(x, STEP)};
    const double sign = out->measured.step_ms < w->predicted.step_ms ? -1 : 1;
    double most = -INFINITY;

    for (int p = 0; p < SW_PLAN_PARTS; p++) {
        out->measured.ms[p] = usual(x, p);

        const double share = sign * (out->measured.ms[p] - w->predicted.ms[p]);
        if (share > most) {
            most = share;
            out->wrong = (enum sw_plan_part)p;
        }
    }
}

/* ---- In messages ---- */

const char *sw_plan_part_name(enum sw_plan_part part)
{
    static const char *const names[SW_PLAN_PARTS] = {
        [SW_PLAN_COMPUTE] = "computing",
        [SW_PLAN_PARAMS] = "exchange of parameters",
        [SW_PLAN_WAITS] = "waiting for activations and other workers",
        [SW_PLAN_REST] = "reading of data and other work",
    };
    return names[part];
}

const char *sw_plan_gap_text(const struct sw_plan_gap *gap, char out[256])
{
    const double predicted = gap->predicted.step_ms, measured = gap->measured.step_ms;
    const bool longer = measured > predicted;
    const double expected_part_ms = gap->predicted.ms[gap->wrong];
    char step[32], expected[32], part[32], expected_part[32] = "none", how[48];

    if (expected_part_ms > 0)
        sw_human_seconds(expected_part, expected_part_ms / 1000);

    /* Of steps many times as long a percentage would be hard to read. */
    if (longer && measured > 10 * predicted)
        snprintf(how, sizeof how, "%.0f times as long as", measured / predicted);
    else
        snprintf(how, sizeof how, "%.0f %% %s than", 100 * fabs(measured / predicted - 1),
                 longer ? "longer" : "shorter");

    snprintf(out, 256, "steps take %s, %s the plan predicted (%s): %s %s instead of %s",
             sw_human_seconds(step, measured / 1000), how,
             sw_human_seconds(expected, predicted / 1000), sw_plan_part_name(gap->wrong),
             sw_human_seconds(part, gap->measured.ms[gap->wrong] / 1000), expected_part);
    return out;
}
