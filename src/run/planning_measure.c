/* Measuring the layers of a net: a job trains the recipe for a few steps, with rows only, and with
 * a history in a folder of its own, which is removed. Where workers compute on cores the times are
 * medians over the steps but the first, from the trace of the job; a device with its own memory
 * measures itself (worker/layer_clock.h), and the means are read from the history, as are those of
 * nets with Gibbs chains. */
#include "base/os.h"
#include "history/reader_rows.h"
#include "run/job_private.h"
#include "run/planning_private.h"
#include "worker/worker.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The layers of a device are measured in its second step and in every 32nd from there; its steps
 * overlap, so that the time of one is that of several in a row. */
enum {
    LEAST_STEPS = 6,
    MOST_STEPS = 200,
    DEVICE_LEAST_STEPS = 12,
    DEVICE_STEPS = 36,
    STEPS_IN_ROW = 8
};

/* Work of all measured steps, if it takes more than the fewest steps: seconds on some cores. */
#define WORK_FLOPS 2.5e11

enum { MOST_EVENTS = 1 << 20 }; /* of the trace, unless the fewest steps have more */

/* ---- A folder for the history ---- */

static int make_folder(char **path, struct sw_err *err)
{
    unsigned char number[4];
    char *state = NULL;

    *path = NULL;
    int rc = sw_history_state_dir(&state, err);
    if (rc != SW_OK)
        return rc;

    if (sw_os()->random_bytes(number, sizeof number) == 0)
        *path = sw_format("%s/measuring-%02x%02x%02x%02x", state, number[0], number[1], number[2],
                          number[3]);
    sw_free(state);

    return *path ? sw_os_mkdirs(*path, 0700, err) : sw_err_nomem(err, "the name of a folder", 0);
}

static void remove_folder(const char *path)
{
    DIR *folder = path ? opendir(path) : NULL;
    if (!folder)
        return;

    for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
        char *name = sw_format("%s/%s", path, e->d_name);
        if (name && !sw_str_eq(e->d_name, ".") && !sw_str_eq(e->d_name, ".."))
            sw_os()->unlink(name);
        sw_free(name);
    }

    closedir(folder);
    rmdir(path);
}

/* ---- The job ---- */

/* The options of the jobs of a measurement. */
struct measuring {
    struct sw_job_options options;
    struct sw_parallel_plan plan; /* owned */
    struct sw_planning_texts texts;
    const char **sets; /* owned */
    bool devices;      /* with their own memory */
    struct sw_job *job;
};

static int begin(struct measuring *x, struct sw_net_model *m,
                 const struct sw_planning_measurement *how, struct sw_err *err)
{
    int rc = sw_planning_plan(m, how, &x->plan, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_planning_texts(m, &x->plan, 1, &x->texts, err);
    if (rc != SW_OK)
        return rc;

    const int given = how->options->set_count;
    x->sets = sw_calloc((size_t)(given + x->texts.count + 1), sizeof *x->sets);
    if (!x->sets)
        return sw_err_nomem(err, "the settings of a job", 0);

    x->options = *how->options;
    x->options.set_count = 0;
    for (int i = 0; i < given; i++)
        x->sets[x->options.set_count++] = how->options->sets[i];
    for (int i = 0; i < x->texts.count; i++)
        x->sets[x->options.set_count++] = x->texts.sets[i];
    x->sets[x->options.set_count++] = "job.memory=default";

    x->options.sets = x->sets;
    x->options.framework = x->options.name = x->options.reset = NULL;
    x->options.init_from = NULL;
    x->options.hosts = NULL;
    x->options.times_only = true;
    x->options.oversubscribe = true; /* simulated GPUs may be more than the cores */
    x->options.reserve = x->options.one_worker = x->options.model.of_net = false;

    return SW_OK;
}

static void end(struct measuring *x)
{
    sw_job_close(x->job);
    sw_planning_texts_fini(&x->texts);
    sw_parallel_plan_fini(&x->plan);
    sw_free(x->sets);
}

/* Places the roles, to know device and threads. */
static int place(struct measuring *x, const struct sw_planning_measurement *how,
                 struct sw_planning_setup *s, struct sw_err *err)
{
    struct sw_job_options o = x->options;

    o.only_placement = true;
    int rc = sw_planning_open_job(&o, how->log, &x->job, err);
    if (rc != SW_OK)
        return rc;

    s->host = x->job->place.machine->host;
    s->device = x->job->place.devices.text;
    x->devices = x->job->topology->devices > 0;
    s->threads = x->devices ? 0 : sw_placement_worker(x->job->place.placement, 0)->threads;
    return SW_OK;
}

/* ---- Training ---- */

static int64_t steps_for(const struct sw_net_model *m, bool devices, int64_t events)
{
    double flops = 1;

    for (int i = 0; i < m->count; i++)
        flops += m->layer[i].forward_flops + m->layer[i].backward_flops;

    const int64_t room = MOST_EVENTS / events, most = room < MOST_STEPS ? room : MOST_STEPS;
    const double steps = fmin(WORK_FLOPS / flops, (double)(devices ? DEVICE_STEPS : most));
    const int least = devices ? DEVICE_LEAST_STEPS : LEAST_STEPS;
    return steps < least ? least : (int64_t)steps;
}

static int train(struct measuring *x, struct sw_net_model *m,
                 const struct sw_planning_measurement *how, const char *folder, struct sw_err *err)
{
    bool stuck = false;
    char *db = sw_format("%s/history.db", folder);
    if (!db)
        return sw_err_nomem(err, "the name of a file", 0);

    enum { EACH = 64 }; /* passes, and updates and collects of parameters, of a layer */
    const int64_t events = how->workers * EACH * sw_net_layer_count(sw_planning_of(m)->net);
    const int64_t steps = steps_for(m, x->devices, events);

    x->options.db = db;
    x->options.out_dir = folder;
    x->options.steps = steps;
    x->options.trace_capacity = steps * events;
    int rc = sw_planning_open_job(&x->options, how->log, &x->job, err);
    if (rc == SW_OK)
        rc = sw_job_run(x->job, NULL, NULL, &stuck, err);
    if (stuck) /* a thread still uses it */
        x->job = NULL;
    sw_free(db);

    return rc;
}

/* ---- Times ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count == 0 ? 0 : (values[count / 2] + values[(count - 1) / 2]) / 2;
}

/* The median time of a pass of a layer over workers and steps but the first; 0: it was never seen.
 * room: for all times. */
static double median_ms(const struct measuring *x, int layer, enum sw_trace_what what, double *room)
{
    const struct sw_trace *t = sw_job_trace(x->job);
    const size_t stored = t->count < t->capacity ? t->count : t->capacity;
    size_t count = 0;

    for (size_t i = 0; i < stored; i++) {
        const struct sw_trace_event *e = &t->events[i];
        if (e->what == what && e->index == layer && e->step > 1)
            room[count++] = (double)(e->end_ns - e->begin_ns) * 1e-6;
    }

    return middle(room, count);
}

/* Does the layer of the measured net have the parameter that the table calls `param`? Of several
 * that share it only the first has. */
static bool has_param(const struct measuring *x, int layer, int param)
{
    const struct sw_worker *w = &x->job->workers[0];

    for (int i = 0; i <= layer; i++) {
        int first, count = sw_net_layer_params(w->train, i, &first);

        for (int k = 0; k < count; k++)
            if (w->param_of[SW_SPLIT_TRAIN][first + k] == param)
                return i == layer;
    }

    return false;
}

/* The median over steps of the time that servers take for a layer's parameters, divided by their
 * number. room: [steps + 1]. */
static double update_ms(const struct measuring *x, int layer, double *room)
{
    const struct sw_trace *t = sw_job_trace(x->job);
    const size_t stored = t->count < t->capacity ? t->count : t->capacity;
    const int64_t steps = x->options.steps;

    memset(room, 0, (size_t)(steps + 1) * sizeof *room);
    for (size_t i = 0; i < stored; i++) {
        const struct sw_trace_event *e = &t->events[i];
        if (e->what == SW_TRACE_UPDATE && e->step <= steps && has_param(x, layer, e->index))
            room[e->step] += (double)(e->end_ns - e->begin_ns) * 1e-6;
    }

    return middle(room + 2, (size_t)(steps - 1)) / x->job->topology->servers;
}

/* In the second step a worker waits for the first one of others, which allocates. The median time
 * of a later step, as the mean of some that follow one another: steps of a device begin
 * in turns, while earlier ones still compute. begins_ms: room for all steps. */
static double step_ms(const struct measuring *x, double *begins_ms)
{
    const struct sw_trace *t = sw_job_trace(x->job);
    const size_t stored = t->count < t->capacity ? t->count : t->capacity;
    const size_t in_row = x->devices ? STEPS_IN_ROW : 1;
    size_t count = 0;

    for (size_t i = 0; i < stored; i++) {
        const struct sw_trace_event *e = &t->events[i];
        if (e->what == SW_TRACE_FORWARD && e->index == 0 && e->role == 0 && e->step > 2 &&
            count < (size_t)x->options.steps)
            begins_ms[count++] = (double)e->begin_ns * 1e-6;
    }

    if (count <= in_row)
        return 0;

    count -= in_row;
    for (size_t i = 0; i < count; i++)
        begins_ms[i] = (begins_ms[i + in_row] - begins_ms[i]) / (double)in_row;
    return middle(begins_ms, count);
}

/* Room for the times of a layer in all steps and workers, or of its parameters. */
static double *make_room(const struct measuring *x, struct sw_err *err)
{
    const size_t most = (size_t)x->options.trace_capacity;
    double *room = sw_calloc(most + 1, sizeof *room);

    if (!room)
        sw_err_nomem(err, "times of a layer", most * sizeof *room);
    return room;
}

static int read_trace(const struct measuring *x, struct sw_planning_times *t, struct sw_err *err)
{
    const struct sw_net *net = x->job->workers[0].train;
    double *room = make_room(x, err);
    if (!room)
        return err->code;

    double sum_ms = 0;
    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const double forward_ms = median_ms(x, i, SW_TRACE_FORWARD, room);
        const double backward_ms = median_ms(x, i, SW_TRACE_BACKWARD, room);
        sw_planning_times_add(t, sw_net_layer(net, i)->name, forward_ms, backward_ms);
        sum_ms += forward_ms + backward_ms;
    }

    sw_free(room);
    return sum_ms > 0 ? SW_OK
                      : sw_err_set(err, SW_ERR_UNSUPPORTED,
                                   "no layer could be measured: the run ended with its first step");
}

/* Times of updates, and of a step. */
static int read_updates(const struct measuring *x, struct sw_planning_times *t, struct sw_err *err)
{
    const struct sw_net *net = x->job->workers[0].train;
    double *room = make_room(x, err);
    if (!room)
        return err->code;

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const int row = sw_planning_times_row(t, sw_net_layer(net, i)->name);
        if (row >= 0)
            t->update_ms[row] += update_ms(x, i, room);
    }
    t->step_ms = step_ms(x, room);

    sw_free(room);
    return SW_OK;
}

static int read_history(const struct measuring *x, const char *folder, struct sw_planning_times *t,
                        struct sw_err *err)
{
    struct sw_history_reader *r = NULL;
    struct sw_run run = {0};
    char *db = sw_format("%s/history.db", folder);
    if (!db)
        return sw_err_nomem(err, "the name of a file", 0);

    int rc = sw_history_reader_open(&r, db, err);
    if (rc == SW_OK)
        rc = sw_history_find(r, "@last", &run, err);
    if (rc == SW_OK)
        rc = sw_planning_times_read(t, r, &run, err);

    sw_run_fini(&run);
    sw_history_reader_close(r);
    sw_free(db);
    return rc;
}

/* The turns of Gibbs chains are not in the trace. */
static bool is_traced(const struct measuring *x)
{
    return !x->devices && sw_net_chain_steps(x->job->workers[0].train) == 0;
}

static int measure(struct measuring *x, struct sw_net_model *m,
                   const struct sw_planning_measurement *how, struct sw_planning_times *t,
                   struct sw_err *err)
{
    char *folder = NULL;

    int rc = make_folder(&folder, err);
    if (rc == SW_OK)
        rc = train(x, m, how, folder, err);
    if (rc == SW_OK)
        rc = is_traced(x) ? read_trace(x, t, err) : read_history(x, folder, t, err);
    if (rc == SW_OK)
        rc = read_updates(x, t, err);
    remove_folder(folder);
    sw_free(folder);

    return rc;
}

/* ---- The whole ---- */

/* Uses the times of a setup that are stored, or else measures and stores them. */
static int find_or_measure(struct measuring *x, struct sw_net_model *m,
                           const struct sw_planning_measurement *how, struct sw_planning_setup *s,
                           struct sw_planning_times *t, char date[16], struct sw_err *err)
{
    if (!how->again && sw_planning_stored_find(s, t, date, how->log))
        return SW_OK;
    if (how->stored_only)
        return SW_OK;

    int rc = measure(x, m, how, t, err);
    if (rc == SW_OK) {
        sw_planning_date(sw_os()->unix_time(), date);
        sw_planning_stored_add(s, t, date, how->log);
    }
    return rc;
}

/* Adds what is known of the setup to the model. */
static int use(const struct measuring *x, struct sw_net_model *m,
               const struct sw_planning_measurement *how, int threads,
               const struct sw_planning_times *t, struct sw_err *err)
{
    const struct sw_layer_sample of = {.workers = how->workers, .threads = threads};

    /* The backward passes of layers that exchange factors make no gradients. */
    int rc = how->kind == SW_STEP_FACTORS ? SW_OK : sw_planning_times_use(t, m, &of, &x->plan, err);
    if (rc == SW_OK && how->machine && t->step_ms > 0)
        rc = sw_planning_add_rest(m, how, t->step_ms * 1e-3, err);
    return rc;
}

static int add_samples(struct measuring *x, struct sw_net_model *m,
                       const struct sw_planning_measurement *how, char source[64],
                       struct sw_err *err)
{
    struct sw_planning_setup s = {.batch = m->batch, .workers = how->workers, .kind = how->kind};
    struct sw_planning_times t = {0};
    char date[16] = "";

    int rc = place(x, how, &s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_planning_times_init(&t, m->user, err);
    if (rc != SW_OK)
        return rc;

    sw_planning_hash(m, s.net);
    struct sw_job *placed = x->job; /* has the texts of s */
    x->job = NULL;

    rc = find_or_measure(x, m, how, &s, &t, date, err);
    if (rc == SW_OK && date[0])
        rc = use(x, m, how, s.threads, &t, err);
    if (rc == SW_OK && date[0])
        snprintf(source, 64, "measured %s", date);

    sw_planning_times_fini(&t);
    sw_job_close(placed);
    return rc;
}

int sw_planning_measure(struct sw_net_model *m, const struct sw_planning_measurement *how,
                        char source[64], struct sw_err *err)
{
    struct measuring x = {0};

    source[0] = '\0';
    int rc = begin(&x, m, how, err);
    if (rc == SW_OK)
        rc = add_samples(&x, m, how, source, err);
    else if (rc == SW_ERR_INVALID && how->stored_only) /* keys that no measurement can keep */
        rc = SW_OK;
    else if (rc == SW_ERR_INVALID)
        rc = sw_err_prefix(err, rc, "layers are measured with all of them split by rows");
    end(&x);

    /* Some nets cannot be trained like that, which the plans of others need not know. */
    return how->kind != SW_STEP_GRADIENTS && rc != SW_ERR_CANCELLED ? SW_OK : rc;
}
