/* Measures the overhead of a step: trains a recipe with one worker and records a trace.
 *
 *     steps RECIPE FOLDER WARMUP STEPS [SECTION.KEY=VALUE ...]
 *
 * Prints two medians over the steps after the warm-up, in milliseconds: of a step, and of its
 * layers and updates. The difference is the parameter table with its messages, the queues of
 * batches, the time breakdown, the snapshot, the rings of the history, and waits for data. */
#include "run/job.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_A_STEP = 1000, MOST_STEPS = 10000, MOST_SETS = 32 };

static void die(const char *what)
{
    fprintf(stderr, "steps: %s\n", what);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* A step lasts from its first forward pass to that of the next step. */
static void print(const struct sw_trace *t, int64_t warmup, int64_t steps)
{
    static int64_t begin_ns[MOST_STEPS + 2], busy_ns[MOST_STEPS + 2];
    static double step_ms[MOST_STEPS], busy_ms[MOST_STEPS];
    int64_t last = warmup + steps, n = 0;
    if (t->count > t->capacity)
        die("the trace is too short for this net");
    for (size_t i = 0; i < t->count; i++) {
        const struct sw_trace_event *e = &t->events[i];
        if (e->step < 1 || e->step > last + 1)
            continue;
        if (e->what == SW_TRACE_FORWARD && (!begin_ns[e->step] || e->begin_ns < begin_ns[e->step]))
            begin_ns[e->step] = e->begin_ns;
        if (e->what != SW_TRACE_COLLECT)
            busy_ns[e->step] += e->end_ns - e->begin_ns;
    }
    for (int64_t s = warmup + 1; s <= last; s++, n++) {
        step_ms[n] = (double)(begin_ns[s + 1] - begin_ns[s]) * 1e-6;
        busy_ms[n] = (double)busy_ns[s] * 1e-6;
    }
    printf("%.6f %.6f\n", median(step_ms, n), median(busy_ms, n));
}

static void ignore(void *user, const struct sw_job_event *e)
{
}

int main(int argc, char **argv)
{
    struct sw_job *job = NULL;
    struct sw_bytes messages = {0};
    struct sw_err err = {0};
    if (argc < 5 || argc - 5 > MOST_SETS)
        die("usage: steps RECIPE FOLDER WARMUP STEPS [SECTION.KEY=VALUE ...]");
    int64_t warmup = atoll(argv[3]), steps = atoll(argv[4]);
    if (warmup < 1 || steps < 1 || warmup + steps > MOST_STEPS)
        die("STEPS must be 1 to 10000");
    struct sw_job_options o = {.recipe_path = argv[1],
                               .out_dir = argv[2],
                               .overwrite = true,
                               .sets = (const char *const *)argv + 5,
                               .set_count = argc - 5,
                               .steps = warmup + steps + 1,
                               .command = "steps",
                               .trace_capacity = EVENTS_A_STEP * (warmup + steps + 1)};
    struct sw_log *log = sw_log_new();
    if (!log)
        die("out of memory");
    if (sw_job_open(&o, log, &job, &messages, &err))
        die(messages.length ? sw_bytes_text(&messages) : err.text);
    if (sw_job_run(job, ignore, NULL, NULL, &err))
        die(err.text);
    print(sw_job_trace(job), warmup, steps);
    sw_job_close(job);
    sw_bytes_fini(&messages);
    sw_log_free(log);
    return 0;
}
