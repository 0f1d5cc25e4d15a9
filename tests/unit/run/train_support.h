/* Shared by the tests of training: a folder with state, history and recipes, a small recipe with
 * every random operation, a job that is opened, run and closed with its messages recorded, and
 * queries of checkpoints and history. Include once per program. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "base/str.h"
#include "history/reader.h"
#include "tensor/safetensors.h"
#include "unit/home.h"
#include "unit/run/inspect.h"
#include "worker/worker.h"
#include <glob.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a trial of a way between devices may take, where one is to hang: the others must come to
 * their ends on a busy machine, too. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { PATIENCE_MS = 10000 };
#else
enum { PATIENCE_MS = 5000 };
#endif

/* ---- files ---- */

static inline void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static inline void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* ---- recipes ---- */

#define DATA_SECTIONS                                                                              \
    "[data train]\nformat = synthetic\nclasses = 4\nrecords = 200\nheight = 16\nwidth = 16\n"      \
    "mean = 127\nstd = 64\ncrop = 14\nmirror = yes\nshuffle = yes\n"                               \
    "[data test]\nformat = synthetic\nclasses = 4\nrecords = 53\nheight = 16\nwidth = 16\n"        \
    "mean = 127\nstd = 64\ncrop = 14\n"
#define UPDATER_SECTIONS                                                                           \
    "[updater]\ntype = sgd\nlr = 0.02\npolicy = inverse\ngamma = 0.01\npower = 0.75\n"             \
    "momentum = 0.9\nweight_decay = 0.0005\n[updater *.bias]\nlr_mult = 2\n"
#define NET_SECTIONS                                                                               \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\n"                    \
    "[layer pool1]\ntype = pooling\nsrc = conv1\nmethod = max\nkernel = 2\nstride = 2\n"           \
    "[layer relu1]\ntype = activation\nsrc = pool1\nfunction = relu\n"                             \
    "[layer fc1]\ntype = inner_product\nsrc = relu1\noutputs = 24\n"                               \
    "[layer relu2]\ntype = activation\nsrc = fc1\nfunction = relu\n"                               \
    "[layer drop]\ntype = dropout\nsrc = relu2\nratio = 0.3\n"                                     \
    "[layer fc2]\ntype = inner_product\nsrc = drop\noutputs = 4\n"                                 \
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"                                        \
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n"

/* A convolutional net with dropout, random crop and mirror, shuffling, momentum and decay. */
static const char tiny_recipe[] =
    "[job]\nsteps = 60\nbatch = 16\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS NET_SECTIONS;

static inline const char *write_recipe(const char *name, const char *text)
{
    char *path = in_home("%s", name);
    write_file(path, text, strlen(text));
    return path;
}

/* ---- a job from its opening to its end ---- */

enum { TRIAL_STEPS = 2048, TRIAL_SETS = 24 };

struct trial {
    /* what is asked for */
    const char *recipe;           /* its text; NULL: tiny_recipe */
    const char *name;             /* of the run and of its folder; NULL: "run" */
    const char *sets[TRIAL_SETS]; /* up to the first NULL */
    int64_t steps;
    const char *init_from;
    const char *resume;       /* the run to go on with */
    int64_t resume_step;      /* from which of its checkpoints */
    const char *out_dir, *db; /* NULL: in the folder */
    const char *checkpoint;   /* another file to go on from, or NULL */
    int64_t trace_capacity;
    const struct sw_job_hosts *hosts;
    bool oversubscribe; /* more workers than cores */
    bool predict;       /* opened for sw_job_predict */
    const char *split;  /* to evaluate on; NULL: the default */
    const char *device, *framework;
    struct sw_display_policy display;
    void (*before)(struct trial *t); /* between opening and running */
    void (*on_event)(struct trial *t, const struct sw_job_event *e);
    void *user;
    /* what came of it */
    struct sw_job *job;
    int rc;
    bool opened, stuck;
    struct sw_err err;
    struct sw_bytes messages;
    double took_s;                /* of sw_job_run */
    int told[SW_JOB_SUMMARY + 1]; /* events by type */
    int64_t displayed[TRIAL_STEPS];
    struct sw_job_event last[SW_JOB_SUMMARY + 1];
    char text[4096]; /* of all events and log lines, a line each */
};

static inline void trial_say(struct trial *t, const char *source, const char *text)
{
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "%s: %s\n", source, text);
}

static inline void trial_observe(void *user, const struct sw_job_event *e)
{
    struct trial *t = user;
    if (e->type == SW_JOB_DISPLAY && t->told[e->type] < TRIAL_STEPS)
        t->displayed[t->told[e->type]] = e->step;
    if (e->type == SW_JOB_EVENT)
        trial_say(t, e->source, e->text);
    t->told[e->type]++;
    t->last[e->type] = *e;
    if (t->on_event)
        t->on_event(t, e);
}

static inline int trial_find_run(const struct trial *t, struct sw_run *run, struct sw_err *err)
{
    struct sw_history_reader *r = NULL;
    int rc = sw_history_reader_open(&r, t->db ? t->db : in_home("history.db"), err);
    if (rc == SW_OK)
        rc = sw_history_find(r, t->resume, run, err);
    sw_history_reader_close(r);
    return rc;
}

/* Without Winograd's algorithm unless the trial asks for it: whether the library uses it depends on
 * the processor and on the rows of a worker, and its rounding errors flip ReLUs, after which runs
 * that are shared differently drift apart. */
static inline int trial_open(struct trial *t)
{
    char recipe[512], db[512], out[512], checkpoint[640];
    const char *sets[TRIAL_SETS + 1] = {"job.winograd=no"};
    struct sw_run run = {0};
    const char *name = t->name ? t->name : "run";
    struct sw_job_options o = {.recipe_path = recipe,
                               .sets = sets,
                               .set_count = 1,
                               .name = name,
                               .out_dir = t->out_dir ? t->out_dir : out,
                               .overwrite = true,
                               .db = t->db ? t->db : db,
                               .init_from = t->init_from,
                               .steps = t->steps,
                               .device = t->device,
                               .framework = t->framework,
                               .command = "test",
                               .display = t->display,
                               .oversubscribe = t->oversubscribe,
                               .predict = t->predict,
                               .one_worker = t->predict,
                               .eval_split = t->split,
                               .hosts = t->hosts,
                               .trace_capacity = t->trace_capacity};
    snprintf(recipe, sizeof recipe, "%s",
             write_recipe("recipe.ini", t->recipe ? t->recipe : tiny_recipe));
    snprintf(db, sizeof db, "%s", in_home("history.db"));
    snprintf(out, sizeof out, "%s", in_home("%s", name));
    for (int i = 0; i < TRIAL_SETS && t->sets[i]; i++)
        sets[o.set_count++] = t->sets[i];
    if (t->resume) {
        t->rc = trial_find_run(t, &run, &t->err);
        if (t->rc != SW_OK)
            return t->rc;
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%lld.safetensors", run.out_dir,
                 (long long)t->resume_step);
        o.resume = &run;
        o.resume_checkpoint = t->checkpoint ? t->checkpoint : checkpoint;
        o.name = NULL;
    }
    t->rc = sw_job_open(&o, NULL, &t->job, &t->messages, &t->err);
    t->opened = t->rc == SW_OK;
    sw_run_fini(&run);
    return t->rc;
}

static inline double trial_clock(void)
{
    return (double)sw_os()->monotonic_ns() * 1e-9;
}

/* With all stages of the run. */
static inline int trial_run(struct trial *t)
{
    double began = trial_clock();
    if (t->before)
        t->before(t);
    t->rc = sw_job_run(t->job, trial_observe, t, &t->stuck, &t->err);
    while (t->rc == SW_OK && sw_job_has_next(t->job)) {
        t->rc = sw_job_next(&t->job, &t->messages, &t->err);
        if (t->rc == SW_OK)
            t->rc = sw_job_run(t->job, trial_observe, t, &t->stuck, &t->err);
    }
    t->took_s = trial_clock() - began;
    return t->rc;
}

static inline void trial_close(struct trial *t)
{
    sw_job_close(t->job);
    t->job = NULL;
    sw_bytes_fini(&t->messages);
}

/* No update behind that step is made before it is over: what a case does when it hears of the step
 * comes in time, however busy the machine. */
struct hold {
    int64_t behind;
    atomic_bool over;
};

static inline void hold_update(void *hold, int server, int param, uint64_t version,
                               int64_t begin_ns, int64_t end_ns)
{
    struct hold *h = hold;
    while ((int64_t)version > h->behind && !atomic_load(&h->over))
        sleep_ms(1);
}

/* Between opening and running. */
static inline void hold_updates(struct trial *t, struct hold *h)
{
    for (int i = 0; i < t->job->topology->server_groups; i++)
        sw_table_set_on_update(t->job->params.copies[i].table, hold_update, h);
}

/* All three; the answer is the first error's. */
static inline int trial_go(struct trial *t)
{
    if (trial_open(t) == SW_OK)
        trial_run(t);
    trial_close(t);
    return t->rc;
}

/* Runs a trial, or one of those members, and insists that it succeeds. */
#define trial_ok(t) trial_ok_(t, __FILE__, __LINE__)
#define train(...) trial_ok_(&(struct trial){__VA_ARGS__}, __FILE__, __LINE__)
static inline void trial_ok_(struct trial *t, const char *file, int line)
{
    if (trial_go(t) != SW_OK) {
        print_error("%s\n", t->err.text);
        _assert_int_equal((uintmax_t)t->rc, SW_OK, file, line);
    }
}

/* The worker on core 0 and the server on core 1, so that the server is a thread. False where the
 * machine has one core only. */
static inline bool give_server_a_core(struct sw_job *job)
{
    struct sw_placement_row *worker = &job->place.placement->rows[0],
                            *server = &job->place.placement->rows[1];
    if (job->place.machine->core_count < 2)
        return false;
    worker->cores = server->cores = (struct sw_core_set){0};
    sw_core_set_add(&worker->cores, job->place.machine->cores[0].number);
    sw_core_set_add(&server->cores, job->place.machine->cores[1].number);
    worker->threads = server->threads = 1;
    return true;
}

/* ---- checkpoints ---- */

static inline char *checkpoint_path(const char *run, int64_t step)
{
    return in_home("%s/checkpoint-%lld.safetensors", run, (long long)step);
}

static inline struct sw_st_file *open_tensors(const char *path)
{
    struct sw_st_file *f = NULL;
    struct sw_err err = {0};
    if (sw_st_open(path, true, &f, &err) != SW_OK)
        fail_msg("%s", err.text);
    return f;
}

static inline void *tensor_bytes(const struct sw_st_file *f, const struct sw_st_entry *e)
{
    struct sw_err err = {0};
    void *p = malloc(e->bytes + 1);
    assert_non_null(p);
    if (sw_st_read(f, e, 0, e->bytes, p, &err) != SW_OK)
        fail_msg("%s", err.text);
    return p;
}

/* The first tensor of `a` (with that prefix, or NULL) that `b` has not bit for bit; NULL: all are
 * there. Parameters and updater state alike; metadata are not looked at. */
static inline const char *differing_tensor(const char *a, const char *b, const char *prefix)
{
    static char name[256];
    struct sw_st_file *fa = open_tensors(a), *fb = open_tensors(b);
    name[0] = '\0';
    size_t compared = 0;
    for (size_t i = 0; i < sw_st_count(fa) && !name[0]; i++) {
        const struct sw_st_entry *ea = sw_st_entry_at(fa, i), *eb = sw_st_find(fb, ea->name);
        if (prefix && strncmp(ea->name, prefix, strlen(prefix)) != 0)
            continue;
        compared++;
        void *pa = tensor_bytes(fa, ea), *pb = eb ? tensor_bytes(fb, eb) : NULL;
        if (!pb || ea->bytes != eb->bytes || memcmp(pa, pb, ea->bytes) != 0)
            snprintf(name, sizeof name, "%s", ea->name);
        free(pa);
        free(pb);
    }
    if (!prefix)
        assert_int_equal(sw_st_count(fa), sw_st_count(fb));
    assert_true(compared > 0);
    sw_st_close(fa);
    sw_st_close(fb);
    return name[0] ? name : NULL;
}

#define assert_same_tensors(a, b) assert_same_tensors_(a, b, __FILE__, __LINE__)
static inline void assert_same_tensors_(const char *a, const char *b, const char *file, int line)
{
    const char *name = differing_tensor(a, b, NULL);
    if (name)
        print_error("%s and %s differ in %s\n", a, b, name);
    _assert_true(name == NULL, "the same tensors", file, line);
}

/* Largest |a - b| / max(|a|, a tenth of the root mean square of a). */
static inline double difference_of(const float *a, const float *b, size_t n)
{
    double squares = 0, worst = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)a[i] * (double)a[i];
    double small = fmax(0.1 * sqrt(squares / (double)n), 1e-12);
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]) / fmax(fabs((double)a[i]), small);
        worst = d > worst || isnan(d) ? d : worst;
    }
    return worst;
}

/* The same over all tensors of two checkpoints, which have the same names and shapes: running
 * statistics and updater state too, unless only parameters count. `where` (or NULL, 256 bytes)
 * names the worst. */
static inline double difference_of_files(const char *a, const char *b, bool params_only,
                                         char *where)
{
    struct sw_st_file *fa = open_tensors(a), *fb = open_tensors(b);
    double worst = 0;
    size_t compared = 0;
    assert_int_equal(sw_st_count(fa), sw_st_count(fb));
    for (size_t i = 0; i < sw_st_count(fa); i++) {
        const struct sw_st_entry *ea = sw_st_entry_at(fa, i), *eb = sw_st_find(fb, ea->name);
        assert_non_null(eb);
        assert_int_equal(ea->ndim, eb->ndim);
        assert_memory_equal(ea->shape, eb->shape, (size_t)ea->ndim * sizeof *ea->shape);
        bool state = strncmp(ea->name, "updater.", 8) == 0 || strncmp(ea->name, "state.", 6) == 0;
        if (ea->dtype != SW_ST_F32 || (params_only && state))
            continue;
        float *pa = tensor_bytes(fa, ea), *pb = tensor_bytes(fb, eb);
        double d = difference_of(pa, pb, ea->bytes / sizeof(float));
        if (where && (d > worst || isnan(d)))
            snprintf(where, 256, "%s", ea->name);
        worst = d > worst || isnan(d) ? d : worst;
        compared++;
        free(pa);
        free(pb);
    }
    assert_true(compared > 0);
    sw_st_close(fa);
    sw_st_close(fb);
    return worst;
}

static inline double difference_at(const char *a, const char *b, char *where)
{
    return difference_of_files(a, b, false, where);
}

static inline double difference(const char *a, const char *b)
{
    return difference_at(a, b, NULL);
}

/* By the metric of equality of parallel and single runs. */
static inline void assert_equal_runs(const char *a, const char *b, int64_t step)
{
    char where[256] = "";
    double d = difference_at(checkpoint_path(a, step), checkpoint_path(b, step), where);
    if (!(d <= 1e-4))
        fail_msg("%s and %s differ by %.3g in %s after %lld steps", a, b, d, where,
                 (long long)step);
}

/* Files of a run's folder with that in their names. */
static inline int count_files(const char *run, const char *with)
{
    glob_t found = {0};
    int count = glob(in_home("%s/*%s*", run, with), 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* ---- the history ---- */

static inline int take_cell(void *user, int64_t row, int columns,
                            const struct sw_history_cell *cells)
{
    if (row == 0 && columns > 0 && cells[0].text)
        snprintf(user, 256, "%s", cells[0].text);
    return 0;
}

/* The first value of a query as text, "" for NULL or no row; valid until the next call. */
static inline const char *ask_text(const char *fmt, ...) SW_PRINTF(1, 2);
static inline const char *ask_text(const char *fmt, ...)
{
    static char text[256];
    char sql[2048];
    struct sw_history_reader *r = NULL;
    struct sw_err err = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sql, sizeof sql, fmt, ap);
    va_end(ap);
    text[0] = '\0';
    if (sw_history_reader_open(&r, in_home("history.db"), &err) != SW_OK ||
        sw_history_sql(r, sql, take_cell, text, &err) != SW_OK)
        fail_msg("%s: %s", sql, err.text);
    sw_history_reader_close(r);
    return text;
}
#define ask(...) atof(ask_text(__VA_ARGS__))

/* The id of the newest run of that name. */
static inline int run_id(const char *name)
{
    return (int)ask("SELECT max(id) FROM runs WHERE name = '%s'", name);
}
