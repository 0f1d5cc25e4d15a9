/* The oracle of parallel training: whatever workers, servers, groups, devices and copies a
 * synchronous job is made of, after k steps it has the parameters that one worker has, and a second
 * run has the same bits. Cases are drawn from a number: a random net with its data, augmentation
 * and updater, and a way to train it. Every run has to prove that it was what was asked for. A case
 * that fails prints its number, its recipe and settings, and the first step and tensor that differ.
 *
 * Rounding must not decide: a function with a kink (relu, a maximum) that two runs enter from
 * different sides makes their gradients differ. So most nets are smooth, and the others train for a
 * few steps only. Include once per program. */
#ifndef TESTS_UNIT_TRAIN_ORACLE_SUPPORT_H
#define TESTS_UNIT_TRAIN_ORACLE_SUPPORT_H

#include "unit/net/random_net.h"

#include "train/choices.h"
#include "train_support.h"

enum {
    ORACLE_MOST_WORKERS = 8,
    ORACLE_MOST_SERVERS = 4,
    ORACLE_MOST_STEPS = 20,
    ORACLE_KINKED_STEPS = 4,
    ORACLE_SIDE = 9,
    ORACLE_SETS = 15,
    ORACLE_LAYER_SETS = 5,
};
#define ORACLE_LIMIT 1e-4

enum oracle_framework { ORACLE_SANDBLASTER, ORACLE_ALLREDUCE, ORACLE_GROUPS, ORACLE_FRAMEWORKS };
static const char *const oracle_frameworks[] = {"sandblaster", "allreduce", "custom"};

struct oracle_case {
    uint64_t seed;
    enum oracle_framework framework;
    int groups, members, servers, steps, batch;
    bool smooth, on_sim, clips; /* clips: updates in two phases */
    const char *copy, *all_reduce, *overlap, *partition, *comm, *updater;
    int slice;
    char *recipe;       /* owned (sw_free) */
    const char *spoilt; /* --set of the runs with several workers, that is to be noticed; or NULL */
    char sets[ORACLE_SETS][48];
    char device[48];
};

static inline int oracle_workers(const struct oracle_case *c)
{
    return c->groups * c->members;
}

/* ---- drawing ---- */

#define ORACLE_DATA                                                                                \
    "[data train]\nformat = synthetic\nclasses = 6\nrecords = 61\nheight = 11\nwidth = 12\n"       \
    "mean = 127\nstd = 64\ncrop = 9\nmirror = yes\nbrightness = 0.2\nshuffle = yes\n"              \
    "[data test]\nformat = synthetic\nclasses = 6\nrecords = 23\nheight = 11\nwidth = 12\n"        \
    "mean = 127\nstd = 64\ncrop = 9\n"

static const char *const oracle_updaters[] = {
    "type = sgd\nlr = 0.003\n",
    "type = sgd\nlr = 0.003\nmomentum = 0.9\nweight_decay = 0.001\n[updater *.weight]\nlr_mult = "
    "1.5\n",
    "type = nesterov\nlr = 0.003\nmomentum = 0.8\npolicy = step\ngamma = 0.5\nstep_size = 3\n",
    "type = adagrad\nlr = 0.003\ndelta = 0.1\n"};
enum { ORACLE_UPDATERS = sizeof oracle_updaters / sizeof *oracle_updaters };

static inline char *oracle_recipe(const struct oracle_case *c)
{
    struct sw_buf b = {0};
    struct random_net_terms terms = {
        .height = ORACLE_SIDE, .width = ORACLE_SIDE, .trains = true, .smooth = c->smooth};
    char *net = random_net_for(c->seed, &terms);
    sw_buf_printf(&b,
                  "[job]\nsteps = 20\nbatch = %d\neval_batch = 10\neval_every = %d\nseed = %d\n",
                  c->batch, c->seed % 4 ? 0 : 3, 1 + (int)c->seed);
    if (c->clips)
        sw_buf_add(&b, "grad_clip = norm:0.5\n");
    sw_buf_add(&b, ORACLE_DATA);
    sw_buf_printf(&b, "[updater]\n%s", c->updater);
    sw_buf_add(&b, net);
    sw_free(net);
    return sw_buf_take(&b);
}

/* Groups and their members, `workers` of them where that can be. */
static inline void oracle_draw_workers(struct oracle_case *c, struct rng *r)
{
    int workers = 1 + (int)(c->seed % ORACLE_MOST_WORKERS);
    c->framework = (enum oracle_framework)rng_int(r, 0, ORACLE_FRAMEWORKS - 1);
    c->groups = 1;
    c->members = workers;
    if (c->framework == ORACLE_GROUPS) {
        c->groups = workers < 4 ? workers : (int)rng_int(r, 2, 4);
        c->members = workers / c->groups;
    }
    c->servers = (int)rng_int(r, 1, ORACLE_MOST_SERVERS);
    if (c->framework == ORACLE_ALLREDUCE)
        c->servers = c->members;
}

static inline void oracle_put_sets(struct oracle_case *c)
{
    int n = 0;
#define PUT(...) snprintf(c->sets[n++], sizeof c->sets[0], __VA_ARGS__)
    PUT("cluster.framework=%s", oracle_frameworks[c->framework]);
    PUT("cluster.worker_groups=%d", c->groups);
    PUT("cluster.workers_per_group=%d", c->members);
    PUT("cluster.servers_per_group=%d", c->servers);
    PUT("cluster.slice_size=%d", c->slice);
    PUT("cluster.copy=%s", c->copy);
    PUT("cluster.overlap=%s", c->overlap);
    PUT("cluster.all_reduce=%s", c->all_reduce);
    PUT("job.partition=%s", c->partition);
    PUT("cluster.comm=%s", c->comm);
#undef PUT
    if (c->on_sim)
        snprintf(c->device, sizeof c->device, "sim:gpus=%d,mem=32MiB", oracle_workers(c));
    else
        strcpy(c->device, "cpu");
}

/* Some layers go otherwise than the net: whole on any worker, losses and metrics too, or an inner
 * product by its outputs, of which there are enough for every worker. */
static inline void oracle_draw_layers(struct oracle_case *c, struct rng *r)
{
    int n = 0, room = ORACLE_LAYER_SETS;
    char name[16], type[32];
    while (n < ORACLE_SETS && c->sets[n][0])
        n++;
    for (const char *s = c->recipe; (s = strstr(s, "[layer ")) && room > 0; s++) {
        if (sscanf(s, "[layer %15[^]]]\ntype = %31s", name, type) != 2 ||
            strcmp(type, "input") == 0 || rng_int(r, 0, 1))
            continue;
        int at = (int)rng_int(r, 0, c->members);
        if (at < c->members)
            snprintf(c->sets[n++], sizeof c->sets[0], "layer.%s.location=%d", name, at);
        else if (strcmp(type, "inner_product") == 0 && c->members <= RANDOM_CLASSES)
            snprintf(c->sets[n++], sizeof c->sets[0], "layer.%s.partition=1", name);
        else
            continue;
        room--;
    }
}

/* What cannot be gives way to auto: updates that look at all gradients, or devices without servers.
 * keeps: devices update. */
static inline const char *oracle_draw_comm(const struct oracle_case *c, bool keeps)
{
    static const char *const ways[] = {"ps", "sfb", "adam", "auto"};
    struct rng r = rng_of(78000 + c->seed);
    const char *way = ways[rng_int(&r, 0, 3)];
    bool adds = keeps && c->framework == ORACLE_ALLREDUCE;
    bool cannot =
        strcmp(way, "sfb") == 0 ? c->on_sim && c->clips : strcmp(way, "adam") == 0 && adds;
    return cannot ? "auto" : way;
}

static inline struct oracle_case oracle_draw(uint64_t seed)
{
    static const char *const copies[] = {"async", "sync", "none"},
                             *const overlaps[] = {"yes", "no"},
                             *const partitions[] = {"0", "1", "1in", "none"};
    struct rng r = rng_of(77000 + seed);
    struct oracle_case c = {.seed = seed, .smooth = rng_int(&r, 0, 2) > 0};
    oracle_draw_workers(&c, &r);
    /* At least a row for each, and mostly no equal shares. */
    c.batch = oracle_workers(&c) + (int)rng_int(&r, 0, 17);
    c.steps = (int)rng_int(&r, 1, c.smooth ? ORACLE_MOST_STEPS : ORACLE_KINKED_STEPS);
    c.on_sim = rng_int(&r, 0, 2) == 0;
    c.copy = copies[rng_int(&r, 0, 2)];
    c.overlap = overlaps[rng_int(&r, 0, 1)];
    c.partition = partitions[rng_int(&r, 0, 3)];
    c.updater = oracle_updaters[rng_int(&r, 0, ORACLE_UPDATERS - 1)];
    c.slice = rng_int(&r, 0, 1) ? 1024 : 1 << 20;
    c.all_reduce = seed / 12 % 2 ? "library" : "auto";
    if (seed % 12 == 5) { /* else too rare: devices that add up by themselves */
        c.framework = ORACLE_ALLREDUCE;
        c.members = c.groups * c.members;
        c.servers = c.members;
        c.groups = 1;
        c.on_sim = true;
        c.copy = "none";
        c.partition = seed % 24 == 5 ? "0" : "1";
    }
    bool keeps = c.on_sim && strcmp(c.copy, "none") == 0; /* its gradients to itself */
    c.clips = rng_int(&r, 0, 3) == 0 && !keeps;
    c.comm = oracle_draw_comm(&c, keeps);
    c.recipe = oracle_recipe(&c);
    oracle_put_sets(&c);
    if (c.groups == 1 && c.members > 1 && rng_int(&r, 0, 1))
        oracle_draw_layers(&c, &r);
    return c;
}

static inline void oracle_print(const struct oracle_case *c)
{
    /* cmocka's messages end after a kilobyte. */
    fprintf(stderr, "case %d, %d steps on %s:\n", (int)c->seed, c->steps, c->device);
    for (int i = 0; i < ORACLE_SETS && c->sets[i][0]; i++)
        fprintf(stderr, "  --set %s\n", c->sets[i]);
    fprintf(stderr, "%s\n", c->recipe);
}

/* ---- running ---- */

/* What a run is to leave in link_traffic every step, as its own nets say. */
struct oracle_bytes {
    int64_t gradients, features;
    int64_t values;    /* of parameters, or sums of gradients, to devices */
    int64_t factors;   /* to servers */
    int64_t exchanged; /* factors between devices */
    int64_t sums;      /* gradients and sums between devices that add up by themselves */
    int servers;       /* to which gradients go */
};

/* Factors of a worker's rows of a layer: outputs, and for each of so many servers inputs; between
 * devices all to all others. */
static inline void oracle_add_factors(struct oracle_bytes *b, const struct sw_job *job,
                                      const struct sw_worker *w, int layer)
{
    const struct sw_layer_factors *f = &sw_net_layer(w->train, layer)->factors;
    int64_t servers = job->shape.servers_per_group, workers = job->placement->worker_count;
    servers = servers < f->outputs ? servers : f->outputs;
    if (sw_job_has_devices(job) && sw_net_comm_way(w->train, layer) == SW_COMM_SFB)
        b->exchanged += (workers - 1) * f->rows * (f->inputs + f->outputs) * 4;
    else
        b->factors += f->rows * (servers * f->inputs + f->outputs) * 4;
}

/* One parameter of a worker. */
static inline void oracle_add_param(struct oracle_bytes *b, const struct sw_job *job,
                                    const struct sw_worker *w, int p, bool stays)
{
    const struct sw_net_param *param = sw_net_param(w->train, p);
    const struct sw_layer *l = sw_net_layer(w->train, param->layer);
    enum sw_comm_way way = sw_net_comm_way(w->train, param->layer);
    /* Devices that add up by themselves have each parameter at a place of so many bytes. */
    int64_t place = sw_job_reduces(job) ? 64 : 1;
    int64_t bytes = (int64_t)sw_desc_bytes(&l->param[param->index].layout);
    bytes = (bytes + place - 1) / place * place;
    /* With `copy = none` what one worker has to itself stays where it is. */
    bool moves = !stays || sw_table_givers(job->table, w->param_of[SW_SPLIT_TRAIN][p]) > 1;
    bool owns = param->owner < 0 || param->owner == w->place % job->shape.workers_per_group;
    if (param->root >= 0 || !moves || !owns)
        return;
    if (way != SW_COMM_PS && param->index == 0)
        oracle_add_factors(b, job, w, param->layer);
    if (way == SW_COMM_SFB && sw_job_has_devices(job))
        return;
    b->gradients += way == SW_COMM_PS ? bytes : 0;
    b->values += bytes;
}

static inline struct oracle_bytes oracle_expect(const struct sw_job *job, bool stays)
{
    struct oracle_bytes b = {0};
    for (int i = 0; i < job->placement->worker_count; i++) {
        const struct sw_worker *w = &job->workers[i];
        for (int p = 0; p < sw_net_param_count(w->train); p++)
            oracle_add_param(&b, job, w, p, stays);
        for (int k = 0; k < job->group_size; k++)
            b.features += sw_net_moved_bytes(w->train, w->place, k);
    }
    if (sw_job_reduces(job)) {
        /* A share of each goes to and from each of the others. */
        int workers = job->placement->worker_count;
        b.sums = b.gradients / workers * 2 * (workers - 1);
        b.gradients = b.values = 0;
    }
    for (int s = 0; s < job->shape.servers_per_group && b.values > 0; s++) {
        bool owns = false;
        for (int p = 0; p < sw_table_count(job->table); p++)
            owns = owns || (sw_table_has_slices(job->table, s, p) &&
                            !sw_table_is_elsewhere(job->table, p) &&
                            sw_table_givers(job->table, p) > stays);
        b.servers += owns;
    }
    return b;
}

/* Is it the job that was asked for? Between run and close. */
static inline void oracle_check_units(const struct oracle_case *c, const struct sw_job *job)
{
    int workers = oracle_workers(c);
    assert_int_equal(job->placement->worker_count, workers);
    assert_int_equal(job->placement->server_count, c->servers);
    for (int i = 0; i < workers; i++) {
        struct sw_device *device = job->workers[i].device;
        assert_int_equal(device->host_memory, !c->on_sim);
        for (int k = 0; k < i && c->on_sim; k++)
            assert_ptr_not_equal(device, job->workers[k].device);
        if (c->on_sim)
            assert_true(sw_sim_operations(device) > c->steps);
    }
}

static inline int64_t oracle_traffic(int id, const char *kinds)
{
    return (int64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE run_id = %d AND "
                        "kind IN (%s)",
                        id, kinds);
}

/* What is wrong with a case. */
struct oracle_verdict {
    char text[1024];
    bool diverges; /* with one worker, too: a net that says nothing */
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

static inline bool oracle_check_traffic(const struct oracle_case *c, int id, struct oracle_bytes b,
                                        struct oracle_verdict *v)
{
    int64_t gradients = (b.gradients + b.factors) * c->steps;
    int servers = (int)ask("SELECT count(DISTINCT to_unit) FROM link_traffic WHERE run_id = %d "
                           "AND kind IN ('shared', 'd2h')",
                           id);
    return oracle_same(v, "feature bytes", oracle_traffic(id, "'feature'"),
                       b.features * c->steps) &&
           oracle_same(v, "bytes between devices", oracle_traffic(id, "'allreduce'"),
                       b.sums * c->steps) &&
           oracle_same(v, "gradient bytes", oracle_traffic(id, c->on_sim ? "'d2h'" : "'shared'"),
                       gradients) &&
           oracle_same(v, "bytes to devices", oracle_traffic(id, "'h2d'"),
                       c->on_sim ? b.values * c->steps : 0) &&
           oracle_same(v, "bytes of factors between devices", oracle_traffic(id, "'factor'"),
                       b.exchanged * c->steps) &&
           oracle_same(v, "servers that get gradients", servers, gradients ? b.servers : 0);
}

/* As many workers, on such devices, with so many bytes on their way. */
static inline bool oracle_check_record(const struct oracle_case *c, const char *name,
                                       struct oracle_bytes b, struct oracle_verdict *v)
{
    int id = run_id(name), workers = oracle_workers(c);
    int rows = (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", id);
    int seen = (int)ask("SELECT count(DISTINCT worker) FROM step_time WHERE run_id = %d", id);
    int placed = (int)ask("SELECT count(*) FROM placement WHERE run_id = %d AND unit LIKE "
                          "'worker%%' AND device LIKE '%s%%'",
                          id, c->on_sim ? "sim:" : "cpu");
    return oracle_same(v, "rows of step_time", rows, workers * c->steps) &&
           oracle_same(v, "workers in step_time", seen, workers) &&
           oracle_same(v, "workers on such a device", placed, workers) &&
           oracle_check_traffic(c, id, b, v);
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

/* As the case says, with proof that it was. */
static inline bool oracle_run(const struct oracle_case *c, const char *name, const char *more,
                              struct oracle_verdict *v)
{
    struct trial t = {.recipe = c->recipe,
                      .name = name,
                      .steps = c->steps,
                      .device = c->device,
                      .oversubscribe = true};
    struct oracle_bytes bytes = {0};
    int n = 0;
    for (; n < ORACLE_SETS && c->sets[n][0]; n++)
        t.sets[n] = c->sets[n];
    if (c->spoilt)
        t.sets[n++] = c->spoilt;
    t.sets[n] = more;
    bool ran = trial_open(&t) == SW_OK && trial_run(&t) == SW_OK;
    if (ran) {
        oracle_check_units(c, t.job);
        bytes = oracle_expect(t.job, c->on_sim && strcmp(c->copy, "none") == 0);
    } else {
        oracle_reject(v, "%s: %s%s", name, sw_buf_text(&t.messages), t.err.text);
    }
    trial_close(&t);
    return ran && oracle_check_record(c, name, bytes, v);
}

/* ---- comparing ---- */

static inline double oracle_difference(const char *one, const char *many, int step, char *where)
{
    char path[512];
    snprintf(path, sizeof path, "%s", checkpoint_path(one, step));
    return difference_of_files(path, checkpoint_path(many, step), true, where);
}

/* Runs both anew with a checkpoint after every step; the first after which they differ, or 0. */
static inline int oracle_first_step(const struct oracle_case *c, char *where)
{
    struct oracle_verdict unused;
    if (!oracle_alone(c, "slow-one", "job.checkpoint_every=1", &unused) ||
        !oracle_run(c, "slow-many", "job.checkpoint_every=1", &unused))
        return 0;
    for (int t = 1; t <= c->steps; t++)
        if (!(oracle_difference("slow-one", "slow-many", t, where) <= ORACLE_LIMIT))
            return t;
    return 0;
}

static inline double oracle_loss(const char *run, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = 'loss' "
               "AND step = %d",
               run_id(run), step);
}

/* One worker against several, and those against themselves. */
static inline bool oracle_compare(const struct oracle_case *c, struct oracle_verdict *v)
{
    char where[256] = "", first[512];
    snprintf(first, sizeof first, "%s", checkpoint_path("many", c->steps));
    const char *bits = differing_tensor(first, checkpoint_path("again", c->steps), NULL);
    double d = oracle_difference("one", "many", c->steps, where);
    double loss = oracle_loss("one", c->steps), other = oracle_loss("many", c->steps);
    if (bits)
        return oracle_reject(v, "a second run has other bits in %s", bits);
    if (!(d <= ORACLE_LIMIT)) {
        int step = oracle_first_step(c, where);
        return oracle_reject(v, "differs by %.3g after %d steps, first after step %d, most in %s",
                             d, c->steps, step, where);
    }
    if (!(fabs(loss - other) <= ORACLE_LIMIT * fmax(fabs(loss), 1)))
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

/* ---- coverage ---- */

/* Words that the recipes and settings of cases have, and in how many cases. */
static const char *const oracle_words[] = {"type = convolution",
                                           "type = deconvolution",
                                           "method = max",
                                           "method = avg",
                                           "type = lrn",
                                           "type = batch_norm",
                                           "type = layer_norm",
                                           "type = dropout",
                                           "type = noise",
                                           "type = sparsity",
                                           "type = softmax\n",
                                           "type = inner_product",
                                           "type = activation",
                                           "function = relu",
                                           "type = concat",
                                           "type = slice",
                                           "type = split",
                                           "type = eltwise",
                                           "type = softmax_loss",
                                           "type = hinge_loss",
                                           "type = euclidean_loss",
                                           "type = accuracy",
                                           "type = nesterov",
                                           "type = adagrad",
                                           "momentum = 0.9",
                                           "grad_clip",
                                           "framework=sandblaster",
                                           "framework=allreduce",
                                           "framework=custom",
                                           "copy=async",
                                           "copy=sync",
                                           "copy=none",
                                           "all_reduce=library",
                                           "overlap=no",
                                           "comm=sfb",
                                           "comm=adam",
                                           "comm=auto",
                                           "job.partition=1",
                                           "job.partition=1in",
                                           "job.partition=none",
                                           ".location=0",
                                           ".location=3",
                                           "partition=1"};
enum { ORACLE_WORDS = sizeof oracle_words / sizeof *oracle_words };

struct oracle_coverage {
    int reducing;   /* devices that add up by themselves */
    int factors[2]; /* workers in rows that give factors: on the CPU, on sim */
    int cases, on_sim, uneven, several_losses, diverging;
    int words[ORACLE_WORDS], workers[ORACLE_MOST_WORKERS + 1], servers[ORACLE_MOST_WORKERS + 1];
};

static inline int oracle_count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
        n++;
    return n;
}

static inline void oracle_note(struct oracle_coverage *v, const struct oracle_case *c)
{
    v->cases++;
    v->on_sim += c->on_sim;
    v->factors[c->on_sim] += oracle_workers(c) > 1 && strcmp(c->partition, "0") == 0 &&
                             (strcmp(c->comm, "sfb") == 0 || strcmp(c->comm, "adam") == 0);
    v->reducing += c->on_sim && c->framework == ORACLE_ALLREDUCE && c->members > 1 &&
                   strcmp(c->copy, "none") == 0;
    v->uneven += c->batch % oracle_workers(c) != 0;
    v->several_losses += oracle_count(c->recipe, "_loss\n") > 1;
    v->workers[oracle_workers(c)]++;
    v->servers[c->servers]++;
    for (int i = 0; i < ORACLE_WORDS; i++) {
        bool found = strstr(c->recipe, oracle_words[i]) != NULL;
        for (int s = 0; s < ORACLE_SETS; s++)
            found = found || strstr(c->sets[s], oracle_words[i]);
        v->words[i] += found;
    }
}

static inline void oracle_print_coverage(const struct oracle_coverage *v)
{
    print_message("%d cases (%d diverge), %d on sim, %d with uneven shares, %d with several "
                  "losses\n",
                  v->cases, v->diverging, v->on_sim, v->uneven, v->several_losses);
    for (int n = 1; n <= ORACLE_MOST_WORKERS; n++)
        print_message("%d workers: %d, servers: %d\n", n, v->workers[n], v->servers[n]);
    for (int i = 0; i < ORACLE_WORDS; i++)
        print_message("%.*s: %d\n", (int)strcspn(oracle_words[i], "\n"), oracle_words[i],
                      v->words[i]);
}

/* Everything that is claimed is there. */
static inline void oracle_check_coverage(const struct oracle_coverage *v)
{
    oracle_print_coverage(v);
    assert_true(v->on_sim > 0 && v->on_sim < v->cases);
    print_message("%d with devices that add up by themselves\n", v->reducing);
    assert_true(v->reducing > 0);
    print_message("%d and %d on sim give factors\n", v->factors[0], v->factors[1]);
    assert_true(v->factors[0] > 0 && v->factors[1] > 0);
    assert_true(v->diverging * 50 <= v->cases);
    assert_true(v->uneven > 0 && v->several_losses > 0);
    for (int n = 1; n <= ORACLE_MOST_WORKERS; n++)
        assert_true(v->workers[n] > 0);
    for (int n = 1; n <= ORACLE_MOST_SERVERS; n++)
        assert_true(v->servers[n] > 0);
    for (int i = 0; i < ORACLE_WORDS; i++)
        if (v->words[i] == 0)
            fail_msg("no case has %s", oracle_words[i]);
}

/* Cases [from, to): all of them, then the verdict. */
static inline void oracle_sweep(uint64_t from, uint64_t to, struct oracle_coverage *coverage)
{
    int failed = 0;
    for (uint64_t seed = from; seed < to; seed++) {
        struct oracle_verdict v = {.text = ""};
        struct oracle_case c = oracle_draw(seed);
        oracle_note(coverage, &c);
        if (!oracle_judge(&c, &v) && v.diverges) {
            coverage->diverging++;
        } else if (v.text[0]) {
            oracle_print(&c);
            fprintf(stderr, "case %d: %s\n", (int)seed, v.text);
            failed++;
        }
        sw_free(c.recipe);
    }
    assert_int_equal(failed, 0);
}

#endif
