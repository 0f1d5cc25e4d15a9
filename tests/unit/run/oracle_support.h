/* The oracle of parallel training: with any workers, servers, groups, devices and copy mode, a
 * synchronous job has after k steps the parameters of one worker, and a second run has the same
 * bits. Cases are drawn from a number (oracle_draw.h). Every run must prove that it had the
 * requested configuration. A failing case prints its number, its recipe and settings, and the first
 * step and tensor that differ. Include once per program. */
#pragma once

#include "oracle_coverage.h"

#include "device/sim/sim.h"
#include "net/transfer.h"
#include "plan/choices.h"
#include "train_support.h"
#include "worker/segments.h"

/* ---- running ---- */

/* A run from one step to another, in one way. */
struct oracle_leg {
    const struct oracle_case *c;
    const struct oracle_way *way;
    const char *name;
    int from, to;
    int64_t launches; /* of graphs, by all workers */
    int streams;      /* of the worker that has most */
    int away;         /* layers whose outputs do not stay in memory */
};

/* What a run is to leave in link_traffic every step, as its own nets say. */
struct oracle_bytes {
    int64_t gradients[2]; /* to servers: of workers on CPUs, on devices */
    int64_t factors[2];   /* likewise */
    int64_t features;
    int64_t values;    /* of parameters, or sums of gradients, to devices */
    int64_t exchanged; /* factors between devices */
    int64_t sums;      /* gradients and sums between devices that add up by themselves */
    int servers;       /* to which gradients go */
};

static inline bool oracle_has_device(const struct sw_worker *w)
{
    return !w->device->host_memory;
}

/* Factors of a worker's rows of a layer: outputs, and for each of so many servers inputs; between
 * devices all to all others. */
static inline void oracle_add_factors(struct oracle_bytes *b, const struct sw_job *job,
                                      const struct sw_worker *w, int layer)
{
    const struct sw_layer_factors *f = &sw_net_layer(w->train, layer)->factors;
    int64_t servers = job->topology->servers_per_group,
            workers = job->place.placement->worker_count;
    servers = servers < f->outputs ? servers : f->outputs;
    if (oracle_has_device(w) && sw_net_exchange_mode(w->train, layer) == SW_EXCHANGE_SFB)
        b->exchanged += (workers - 1) * f->rows * (f->inputs + f->outputs) * 4;
    else
        b->factors[oracle_has_device(w)] += f->rows * (servers * f->inputs + f->outputs) * 4;
}

/* One parameter of a worker. */
static inline void oracle_add_param(struct oracle_bytes *b, const struct sw_job *job,
                                    const struct sw_worker *w, int p, bool stays)
{
    const struct sw_net_param *param = sw_net_param(w->train, p);
    const struct sw_layer *l = sw_net_layer(w->train, param->layer);
    enum sw_exchange_mode way = sw_net_exchange_mode(w->train, param->layer);
    bool device = oracle_has_device(w);
    /* Devices that add up by themselves have each parameter at a place of so many bytes. */
    int64_t place = sw_reduces(&job->exchange) ? 64 : 1;
    int64_t bytes = (int64_t)sw_desc_bytes(&l->param[param->index].layout);
    bytes = (bytes + place - 1) / place * place;
    /* With `copy = none` what one worker has to itself stays where it is. */
    bool moves =
        !stays || sw_table_contributors(job->params.table, w->param_of[SW_SPLIT_TRAIN][p]) > 1;
    bool owns = param->owner < 0 || param->owner == w->rank->rank;
    if (param->root >= 0 || param->frozen || !moves || !owns)
        return;
    if (way != SW_EXCHANGE_PS && param->index == 0)
        oracle_add_factors(b, job, w, param->layer);
    if (way == SW_EXCHANGE_SFB && device)
        return;
    b->gradients[device] += way == SW_EXCHANGE_PS ? bytes : 0;
    b->values += device ? bytes : 0;
}

/* Servers that have a slice of something that comes to them. */
static inline int oracle_servers(const struct sw_job *job, bool stays)
{
    int servers = 0;
    for (int s = 0; s < job->topology->servers_per_group; s++) {
        bool owns = false;
        for (int p = 0; p < sw_table_count(job->params.table); p++)
            owns = owns || (sw_table_has_slices(job->params.table, s, p) &&
                            sw_table_reduction(job->params.table, p) != SW_REDUCTION_FACTORS &&
                            sw_table_contributors(job->params.table, p) > stays);
        servers += owns;
    }
    return servers;
}

static inline struct oracle_bytes oracle_expect(const struct sw_job *job, bool stays)
{
    struct oracle_bytes b = {0};
    int workers = job->place.placement->worker_count;
    for (int i = 0; i < workers; i++) {
        const struct sw_worker *w = &job->workers[i];
        for (int p = 0; p < sw_net_param_count(w->train); p++)
            oracle_add_param(&b, job, w, p, stays);
        for (int k = 0; k < job->topology->group_size; k++)
            b.features += sw_net_moved_bytes(w->train, w->rank->rank, k);
    }
    if (sw_reduces(&job->exchange)) {
        /* A share of each goes to and from each of the others. */
        b.sums = b.gradients[1] / workers * 2 * (workers - 1);
        b.gradients[1] = b.values = 0;
    }
    if (b.gradients[0] + b.gradients[1] + b.factors[0] + b.factors[1] > 0)
        b.servers = oracle_servers(job, stays);
    return b;
}

/* What is wrong with a case. */
struct oracle_verdict {
    char text[1024];
    bool diverges;          /* with one worker, too: a net that says nothing */
    double worst[2];        /* differences: in fp32, in less */
    struct oracle_leg seen; /* the sum over legs of what they were */
};

static inline bool oracle_reject(struct oracle_verdict *v, const char *fmt, ...) SW_PRINTF(2, 3);
static inline bool oracle_reject(struct oracle_verdict *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, ap);
    va_end(ap);
    return false;
}

static inline bool oracle_same(struct oracle_verdict *v, const char *what, int64_t is,
                               int64_t should)
{
    return is == should ||
           oracle_reject(v, "%s: %lld, not %lld", what, (long long)is, (long long)should);
}

/* Is it the job that was asked for? Between run and close. */
static inline bool oracle_check_units(struct oracle_leg *leg, const struct sw_job *job,
                                      struct oracle_verdict *v)
{
    const struct oracle_way *way = leg->way;
    int workers = oracle_workers(way), graphs = 0;
    bool right = oracle_same(v, "workers", job->place.placement->worker_count, workers) &&
                 oracle_same(v, "servers", job->place.placement->server_count, way->servers);
    for (int i = 0; right && i < workers; i++) {
        const struct sw_worker *w = &job->workers[i];
        right = oracle_same(v, "worker on a device", oracle_has_device(w), i < way->gpus);
        for (int k = 0; right && k < i && i < way->gpus; k++)
            right = oracle_same(v, "one device of two", w->device == job->workers[k].device, false);
        if (right && i < way->gpus)
            right =
                oracle_same(v, "a device that computes", sw_sim_operations(w->device) > 0, true);
        struct sw_segment_stats stats = sw_segments_stats(w->segments);
        graphs += stats.graphs;
        leg->launches += (int64_t)stats.launches;
    }
    leg->streams = sw_job_plan(job)->streams;
    leg->away = sw_job_plan(job)->fit.recomputed + sw_job_plan(job)->fit.offloaded;
    right = right && (strcmp(way->graphs, "yes") == 0 || oracle_same(v, "graphs", graphs, 0));
    right = right && oracle_same(v, "more streams than asked for", leg->streams > way->streams, 0);
    const char *precision = leg->c->precision ? leg->c->precision : "fp32";
    if (right && strcmp(sw_job_plan(job)->precision, precision) != 0)
        return oracle_reject(v, "precision is %s", sw_job_plan(job)->precision);
    return right;
}

/* From which step on the job of the leg's end is what moved bytes: a stage before may have trained
 * more layers. */
static inline int oracle_counted_from(const struct oracle_leg *leg)
{
    int cut = leg->c->cut;
    return cut > leg->from && cut < leg->to ? cut : leg->from;
}

static inline int64_t oracle_traffic(const struct oracle_leg *leg, int id, const char *kind)
{
    return (int64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE run_id = %d AND "
                        "kind = '%s' AND step > %d AND step <= %d",
                        id, kind, oracle_counted_from(leg), leg->to);
}

static inline bool oracle_check_traffic(const struct oracle_leg *leg, int id, struct oracle_bytes b,
                                        struct oracle_verdict *v)
{
    int steps = leg->to - oracle_counted_from(leg);
    int servers = (int)ask("SELECT count(DISTINCT to_unit) FROM link_traffic WHERE run_id = %d "
                           "AND kind IN ('shared', 'd2h') AND step > %d AND step <= %d",
                           id, oracle_counted_from(leg), leg->to);
    const struct {
        const char *what, *kind;
        int64_t bytes;
    } rows[] = {
        {"feature bytes", "feature", b.features},
        {"bytes between devices", "allreduce", b.sums},
        {"gradient bytes of CPUs", "shared", b.gradients[0] + b.factors[0]},
        {"gradient bytes of devices", "d2h", b.gradients[1] + b.factors[1]},
        {"bytes to devices", "h2d", b.values},
        {"bytes of factors between devices", "factor", b.exchanged},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!oracle_same(v, rows[i].what, oracle_traffic(leg, id, rows[i].kind),
                         rows[i].bytes * steps))
            return false;
    return oracle_same(v, "servers that get gradients", servers, b.servers);
}

/* As many workers, on such devices, with so many bytes on their way. */
static inline bool oracle_check_record(const struct oracle_leg *leg, struct oracle_bytes b,
                                       struct oracle_verdict *v)
{
    int id = run_id(leg->name), workers = oracle_workers(leg->way);
    int rows = (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d AND step > %d AND "
                        "step <= %d",
                        id, leg->from, leg->to);
    int seen = (int)ask("SELECT count(DISTINCT worker) FROM step_time WHERE run_id = %d AND "
                        "step > %d AND step <= %d",
                        id, leg->from, leg->to);
    int placed[2];
    for (int sim = 0; sim < 2; sim++)
        placed[sim] = (int)ask("SELECT count(*) FROM placement WHERE run_id = %d AND unit LIKE "
                               "'worker%%' AND device LIKE '%s%%'",
                               id, sim ? "sim:" : "cpu");
    return oracle_same(v, "rows of step_time", rows, workers * (leg->to - leg->from)) &&
           oracle_same(v, "workers in step_time", seen, workers) &&
           oracle_same(v, "workers on devices", placed[1], leg->way->gpus) &&
           oracle_same(v, "workers on CPUs", placed[0], workers - leg->way->gpus) &&
           oracle_check_traffic(leg, id, b, v);
}

/* One worker on the CPU, whose numbers all others are to have. more: --set, or NULL. */
static inline bool oracle_alone(const struct oracle_case *c, const char *name, const char *more,
                                struct oracle_verdict *v)
{
    struct trial t = {
        .recipe = c->recipe, .name = name, .steps = c->steps, .device = "cpu", .sets = {more}};
    v->diverges = trial_go(&t) == SW_ERR_DIVERGED;
    return t.rc == SW_OK || oracle_reject(v, "one worker: %s", t.err.text);
}

/* The least budget that the refusal of a smaller one names, and a little more, in which something
 * may stay; 0: it cannot be asked. t has room for another setting. */
static inline long long oracle_budget(struct trial t, struct oracle_verdict *v)
{
    long long least = 0;
    int n = 0;
    while (t.sets[n])
        n++;
    t.sets[n] = "job.memory=fit:1";
    trial_open(&t);
    const char *says = strstr(t.err.text, "budget is memory = fit:");
    if (t.rc != SW_ERR_NOMEM || !says || sscanf(says, "budget is memory = fit:%lld", &least) != 1)
        oracle_reject(v, "a budget of 1: %s%s", sw_bytes_text(&t.messages), t.err.text);
    trial_close(&t);
    return least + least / 64;
}

static inline bool oracle_check_budget(const struct sw_job *job, long long budget,
                                       struct oracle_verdict *v)
{
    const struct sw_job_plan *plan = sw_job_plan(job);
    if (!oracle_same(v, "budget", plan->fit.budget_bytes, budget))
        return false;
    for (int i = 0; i < job->place.placement->worker_count; i++) {
        const struct sw_worker *w = &job->workers[i];
        long long used = oracle_has_device(w) ? (long long)sw_device_bytes_of(w->device).peak
                                              : (long long)plan->bytes.peak;
        if (used > budget)
            return oracle_reject(v, "%lld bytes are more than the budget, %lld", used, budget);
    }
    return true;
}

/* One way, with proof that it was. */
static inline bool oracle_run_leg(struct oracle_leg *leg, const char *more,
                                  struct oracle_verdict *v)
{
    const struct oracle_way *way = leg->way;
    struct trial t = {.recipe = leg->c->recipe,
                      .name = leg->name,
                      .steps = leg->to,
                      .device = way->device,
                      .resume = leg->from ? leg->name : NULL,
                      .resume_step = leg->from,
                      .oversubscribe = true};
    struct oracle_bytes bytes = {0};
    long long budget = 0;
    char fit[ORACLE_SET_BYTES] = "job.memory=default";
    int n = 0;
    for (; n < ORACLE_SETS && way->sets[n][0]; n++)
        t.sets[n] = way->sets[n];
    if (leg->c->spoilt)
        t.sets[n++] = leg->c->spoilt;
    if (more)
        t.sets[n++] = more;
    if (way->fits) {
        budget = oracle_budget(t, v);
        snprintf(fit, sizeof fit, "job.memory=fit:%lld", budget);
    }
    t.sets[n] = fit;
    bool ran = (!way->fits || budget > 0) && trial_open(&t) == SW_OK && trial_run(&t) == SW_OK;
    if (ran) {
        ran = oracle_check_units(leg, t.job, v) &&
              (!way->fits || oracle_check_budget(t.job, budget, v));
        bytes = oracle_expect(t.job, oracle_keeps(way));
    } else if (!v->text[0]) {
        oracle_reject(v, "%s: %s%s", leg->name, sw_bytes_text(&t.messages), t.err.text);
    }
    trial_close(&t);
    return ran && oracle_check_record(leg, bytes, v);
}

/* As the case says, leg by leg. */
static inline bool oracle_run(const struct oracle_case *c, const char *name, const char *more,
                              struct oracle_verdict *v)
{
    for (int k = 0; k < (c->turn ? 2 : 1); k++) {
        struct oracle_leg leg = {.c = c,
                                 .way = &c->way[k],
                                 .name = name,
                                 .from = k ? c->turn : 0,
                                 .to = c->turn && !k ? c->turn : c->steps};
        if (!oracle_run_leg(&leg, more, v))
            return false;
        v->seen.launches += leg.launches;
        v->seen.streams = leg.streams > v->seen.streams ? leg.streams : v->seen.streams;
        v->seen.away += leg.away;
    }
    return true;
}

/* ---- comparing ---- */

/* By the metric of equality of parallel and single runs, or by that of roundings. */
static inline double oracle_limit(const struct oracle_case *c)
{
    return c->precision ? 0.05 : 1e-4;
}

/* How far b is from a, as a share of how far a has come from what it began with. Where products
 * round their factors another last bit makes another factor, and runs part by the size of
 * roundings: few elements by much, all together by little. What has hardly moved is as good as at
 * rest. */
static inline double oracle_rounding(const float *begin, const float *a, const float *b, size_t n)
{
    double apart = 0, moved = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        moved += ((double)a[i] - (double)begin[i]) * ((double)a[i] - (double)begin[i]);
        size += (double)a[i] * (double)a[i];
    }
    return sqrt(apart / fmax(fmax(moved, 1e-4 * size), 1e-24));
}

/* The largest over all parameters; step 0 of `one` is what both began with. */
static inline double oracle_roundings(const char *one, const char *many, int step, char *where)
{
    struct sw_st_file *f[3] = {open_tensors(checkpoint_path(one, 0)),
                               open_tensors(checkpoint_path(one, step)),
                               open_tensors(checkpoint_path(many, step))};
    double worst = 0;
    for (size_t i = 0; i < sw_st_count(f[1]); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f[1], i);
        float *v[3] = {NULL};
        if (strncmp(e->name, "updater.", 8) == 0 || strncmp(e->name, "state.", 6) == 0 ||
            e->dtype != SW_ST_F32)
            continue;
        for (int k = 0; k < 3; k++) {
            assert_non_null(sw_st_find(f[k], e->name));
            v[k] = tensor_bytes(f[k], sw_st_find(f[k], e->name));
        }
        double d = oracle_rounding(v[0], v[1], v[2], e->bytes / sizeof(float));
        if (d > worst || isnan(d))
            snprintf(where, 256, "%s", e->name);
        worst = d > worst || isnan(d) ? d : worst;
        for (int k = 0; k < 3; k++)
            free(v[k]);
    }
    for (int k = 0; k < 3; k++)
        sw_st_close(f[k]);
    return worst;
}

static inline double oracle_difference(const struct oracle_case *c, const char *one,
                                       const char *many, int step, char *where)
{
    char path[512];
    if (c->precision)
        return oracle_roundings(one, many, step, where);
    snprintf(path, sizeof path, "%s", checkpoint_path(one, step));
    return difference_of_files(path, checkpoint_path(many, step), true, where);
}

/* Runs both anew with a checkpoint after every step; the first after which they differ, or 0. */
static inline int oracle_first_step(const struct oracle_case *c, char *where)
{
    struct oracle_verdict unused = {.text = ""};
    if (!oracle_alone(c, "slow-one", "job.checkpoint_every=1", &unused) ||
        !oracle_run(c, "slow-many", "job.checkpoint_every=1", &unused))
        return 0;
    for (int t = 1; t <= c->steps; t++)
        if (!(oracle_difference(c, "slow-one", "slow-many", t, where) <= oracle_limit(c)))
            return t;
    return 0;
}

/* What an evaluation at the end says: the loss, or of machines how far reconstructions are. */
static inline double oracle_loss(const struct oracle_case *c, const char *run)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = '%s' "
               "AND step = %d",
               run_id(run), c->kind == ORACLE_MACHINES ? "reconstruction_error" : "loss", c->steps);
}

/* How the last run of that name was computed, as its checkpoint says. */
static inline char *oracle_choices(const char *run, int step)
{
    struct sw_st_file *f = open_tensors(checkpoint_path(run, step));
    const char *choices = sw_st_metadata(f, "choices");
    char *copy = strdup(choices ? choices : "");
    sw_st_close(f);
    return copy;
}

/* The first tensor in which a second run has other bits, or NULL. What is measured (comm = auto)
 * may be another choice the next time, and is then another set-up. */
static inline const char *oracle_other_bits(const struct oracle_case *c)
{
    char first[512];
    snprintf(first, sizeof first, "%s", checkpoint_path("many", c->steps));
    char *one = oracle_choices("many", c->steps), *other = oracle_choices("again", c->steps);
    bool measured = strcmp(c->way[0].comm, "auto") == 0 || strcmp(c->way[1].comm, "auto") == 0;
    const char *bits = measured && strcmp(one, other) != 0
                           ? NULL
                           : differing_tensor(first, checkpoint_path("again", c->steps), NULL);
    free(one);
    free(other);
    return bits;
}

/* Does the loss of one worker's training grow out of all bounds, and every rounding with it? */
static inline bool oracle_grows(const struct oracle_case *c)
{
    static const char query[] =
        "SELECT value FROM metrics WHERE run_id = %d AND split = 'train' AND "
        "name = 'loss' AND step = %d";
    return ask(query, run_id("one"), c->steps) > 4 * ask(query, run_id("one"), 1);
}

/* One worker against several, and those against themselves. */
static inline bool oracle_compare(const struct oracle_case *c, struct oracle_verdict *v)
{
    char where[256] = "";
    const char *bits = oracle_other_bits(c);
    double d = oracle_difference(c, "one", "many", c->steps, where);
    double loss = oracle_loss(c, "one"), other = oracle_loss(c, "many");
    v->worst[c->precision != NULL] = d <= oracle_limit(c) ? d : 0;
    if (bits)
        return oracle_reject(v, "a second run has other bits in %s", bits);
    v->diverges = !(d <= oracle_limit(c)) && oracle_grows(c);
    if (!(d <= oracle_limit(c))) {
        int step = oracle_first_step(c, where);
        return oracle_reject(v, "differs by %.3g after %d steps, first after step %d, most in %s",
                             d, c->steps, step, where);
    }
    if (!(fabs(loss - other) <= oracle_limit(c) * fmax(fabs(loss), 1)) || loss == 0)
        return oracle_reject(v, "the test loss is %.9g, not %.9g", other, loss);
    return true;
}

/* All runs of a case, in a folder of its own. */
static inline bool oracle_judge(const struct oracle_case *c, struct oracle_verdict *v)
{
    void *unused = NULL;
    assert_int_equal(home_begin(&unused), 0);
    bool right = oracle_alone(c, "one", NULL, v) && oracle_run(c, "many", NULL, v) &&
                 oracle_run(c, "again", NULL, v) && oracle_compare(c, v);
    assert_int_equal(home_end(&unused), 0);
    return right;
}

/* ---- many cases ---- */

static inline void oracle_note_run(struct oracle_coverage *v, const struct oracle_verdict *of)
{
    v->graphs += of->seen.launches > 0;
    v->branching += of->seen.streams > 1;
    v->away += of->seen.away > 0;
    for (int i = 0; i < 2; i++)
        v->worst[i] = fmax(v->worst[i], of->worst[i]);
}

/* One case; whether it is right. */
static inline bool oracle_try(uint64_t seed, struct oracle_coverage *coverage)
{
    struct oracle_verdict v = {.text = ""};
    struct oracle_case c = oracle_draw(seed);
    bool right = oracle_judge(&c, &v);
    oracle_note(coverage, &c);
    oracle_note_run(coverage, &v);
    if (!right && v.diverges) {
        coverage->diverging++;
        right = true;
    }
    if (!right) {
        oracle_print(&c);
        fprintf(stderr, "case %d: %s\n", (int)seed, v.text);
    }
    sw_free(c.recipe);
    return right;
}

/* Cases [from, to): all of them, then the verdict. */
static inline void oracle_sweep(uint64_t from, uint64_t to, struct oracle_coverage *coverage)
{
    int failed = 0;
    for (uint64_t seed = from; seed < to; seed++)
        failed += !oracle_try(seed, coverage);
    assert_int_equal(failed, 0);
}
