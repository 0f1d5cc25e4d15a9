/* Random cases of the oracle of parallel training. From a number it draws a recipe (a net over
 * images, sequences or Boltzmann machines, with its data, updater and precision) and one or two
 * configurations to train it: workers, devices, and how gradients are exchanged. With two
 * configurations the second one resumes from a checkpoint of the first. Rounding must not change a
 * result much: if a function has a kink (relu, a maximum) and two runs reach it from different
 * sides, their gradients differ. Therefore most nets are smooth and the others train for a few
 * steps only, as do Boltzmann machines, whose units are sampled by comparison. Updaters that divide
 * by the magnitude of a gradient have a lower bound for magnitudes that may be rounding errors
 * only. */
#pragma once

#include "unit/net/random_machines.h"
#include "unit/net/random_net.h"
#include "unit/net/random_sequences.h"

#include <stdio.h>
#include <string.h>

enum {
    ORACLE_MOST_WORKERS = 8,
    ORACLE_MOST_SERVERS = 4,
    ORACLE_MOST_STEPS = 20,
    ORACLE_FEW_STEPS = 4, /* where rounding may decide */
    ORACLE_SIDE = 9,
    ORACLE_SETS = 18,
    ORACLE_LAYER_SETS = 5,
    ORACLE_SET_BYTES = 48,
    ORACLE_WAYS = 2,
};

enum oracle_kind { ORACLE_PICTURES, ORACLE_SEQUENCES, ORACLE_MACHINES, ORACLE_KINDS };
static const char *const oracle_kinds[] = {"pictures", "sequences", "machines"};

enum oracle_framework { ORACLE_SANDBLASTER, ORACLE_ALLREDUCE, ORACLE_GROUPS, ORACLE_FRAMEWORKS };
static const char *const oracle_frameworks[] = {"sandblaster", "allreduce", "custom"};

struct oracle_way {
    enum oracle_framework framework;
    int groups, members, servers;
    int gpus; /* of the workers, the first ones, on simulated GPUs */
    int slice, streams;
    const char *copy, *all_reduce, *overlap, *partition, *comm, *graphs, *bucket;
    bool fits;  /* within a budget of memory */
    bool peers; /* simulated GPUs reach each other */
    char sets[ORACLE_SETS][ORACLE_SET_BYTES];
    char device[ORACLE_SET_BYTES];
};

struct oracle_case {
    uint64_t seed;
    enum oracle_kind kind;
    int steps, batch, eval_batch;
    bool smooth;
    bool at_once; /* updates look at all gradients: in two phases */
    const char *updater, *clip, *precision, *on_nan;
    char frozen[16]; /* a layer, or "" */
    char *recipe;    /* owned (sw_free) */
    int cut;         /* the step behind which a second stage begins; 0: there are no stages */
    char cooled[16]; /* a layer that the second stage freezes, or "" */
    int turn;        /* the step behind which the second way goes on; 0: never */
    struct oracle_way way[ORACLE_WAYS];
    const char *spoilt; /* --set of the runs with several workers, that is to be noticed; or NULL */
};

static inline int oracle_workers(const struct oracle_way *w)
{
    return w->groups * w->members;
}

static inline bool oracle_is_mixed(const struct oracle_way *w)
{
    return w->gpus > 0 && w->gpus < oracle_workers(w);
}

/* Devices keep parameters, and update them. */
static inline bool oracle_keeps(const struct oracle_way *w)
{
    return w->gpus > 0 && strcmp(w->copy, "none") == 0;
}

/* ---- recipes ---- */

#define ORACLE_PICTURE_DATA                                                                        \
    "[data train]\nformat = synthetic\nclasses = 6\nrecords = 61\nheight = 11\nwidth = 12\n"       \
    "mean = 127\nstd = 64\ncrop = 9\nmirror = yes\nbrightness = 0.2\nshuffle = yes\n"              \
    "[data test]\nformat = synthetic\nclasses = 6\nrecords = 23\nheight = 11\nwidth = 12\n"        \
    "mean = 127\nstd = 64\ncrop = 9\n"
#define ORACLE_MACHINE_DATA                                                                        \
    "[data train]\nformat = synthetic\nclasses = 6\nrecords = 61\nheight = 5\nwidth = 6\n"         \
    "scale = 0.00392156863\nshuffle = yes\n"                                                       \
    "[data test]\nformat = synthetic\nclasses = 6\nrecords = 23\nheight = 5\nwidth = 6\n"          \
    "scale = 0.00392156863\n"

/* norms: it needs the norms of all gradients. even: it makes as much of a small gradient as of a
 * large one, so nothing that ends before a normalisation may learn by it. */
struct oracle_updater {
    const char *text;
    bool norms, even;
};
static const struct oracle_updater oracle_updaters[] = {
    {.text = "type = sgd\nlr = 0.003\n"},
    {.text = "type = sgd\nlr = 0.003\nmomentum = 0.9\nweight_decay = 0.001\n"
             "[updater *.weight]\nlr_mult = 1.5\n"},
    {.text = "type = nesterov\nlr = 0.003\nmomentum = 0.8\npolicy = step\ngamma = 0.5\n"
             "step_size = 3\n"},
    {.text = "type = adagrad\nlr = 0.003\ndelta = 0.1\n"},
    {.text = "type = rmsprop\nlr = 0.002\nrho = 0.9\ndelta = 0.01\n"},
    {.text = "type = adadelta\nlr = 0.02\nrho = 0.9\ndelta = 1e-4\n"},
    {.text = "type = adam\nlr = 0.002\ndelta = 0.01\nweight_decay = 0.001\n"},
    {.text = "type = adamw\nlr = 0.002\ndelta = 0.01\nweight_decay = 0.1\npolicy = cosine\n"
             "warmup = 2\n"},
    {.text = "type = adamax\nlr = 0.001\n", .even = true},
    {.text = "type = lars\nlr = 0.5\ntrust = 0.01\nweight_decay = 0.05\n", .norms = true},
};
enum { ORACLE_UPDATERS = sizeof oracle_updaters / sizeof *oracle_updaters };

/* The layers, and in *streams whether data have to be in streams. */
static inline char *oracle_net(const struct oracle_case *c, int length, int words, bool *streams)
{
    struct random_net_terms terms = {
        .height = ORACLE_SIDE, .width = ORACLE_SIDE, .trains = true, .smooth = c->smooth};
    *streams = false;
    switch (c->kind) {
    case ORACLE_SEQUENCES:
        return random_sequences_for(c->seed, length, words, streams);
    case ORACLE_MACHINES:
        return random_machines_for(c->seed);
    default:
        return random_net_for(c->seed, &terms);
    }
}

static inline void oracle_add_sequences(struct sw_bytes *b, const char *split, int records,
                                        int length, int words, int streams)
{
    sw_bytes_printf(b,
                    "[data %s]\nformat = synthetic\nkind = sequences\nclasses = %d\nrecords = %d\n"
                    "length = %d\n",
                    split, words, records, length);
    if (streams)
        sw_bytes_printf(b, "streams = %d\n", streams);
}

/* A layer with parameters that stays as it is, where another one learns; "" where there is none. */
static inline void oracle_draw_frozen(char name[16], const char *net, struct rng *r)
{
    char names[RANDOM_LAYERS][16];
    int count = 0;
    for (const char *s = net; (s = strstr(s, "[layer ")) && count < RANDOM_LAYERS; s++) {
        char type[32];
        if (sscanf(s, "[layer %15[^]]]\ntype = %31s", names[count], type) == 2 &&
            (strcmp(type, "inner_product") == 0 || strcmp(type, "convolution") == 0 ||
             strcmp(type, "gru") == 0 || strcmp(type, "lstm") == 0 ||
             strcmp(type, "batch_norm") == 0))
            count++;
    }
    if (count > 1)
        strcpy(name, names[rng_int(r, 0, count - 1)]);
}

/* Steps, and where there are stages what is another's in the second one. */
static inline void oracle_add_steps(struct sw_bytes *job, struct sw_bytes *stages,
                                    const struct oracle_case *c)
{
    if (c->cut == 0) {
        sw_bytes_printf(job, "steps = %d\n", ORACLE_MOST_STEPS);
        return;
    }
    sw_bytes_printf(stages, "[stage first]\nsteps = %d\n[stage second]\nsteps = %d\n", c->cut,
                    ORACLE_MOST_STEPS - c->cut);
    sw_bytes_add(stages, "updater.lr = 0.001\n");
    if (c->cooled[0])
        sw_bytes_printf(stages, "freeze = %s.*\n", c->cooled);
}

static inline void oracle_add_job(struct sw_bytes *b, struct sw_bytes *stages,
                                  const struct oracle_case *c)
{
    sw_bytes_add(b, "[job]\n");
    oracle_add_steps(b, stages, c);
    sw_bytes_printf(b, "batch = %d\neval_batch = %d\neval_every = %d\nseed = %d\n", c->batch,
                    c->eval_batch, c->seed % 4 ? 0 : 3, 1 + (int)c->seed);
    if (c->kind == ORACLE_MACHINES)
        sw_bytes_add(b, "algorithm = cd\n");
    if (c->clip)
        sw_bytes_printf(b, "grad_clip = %s\n", c->clip);
    if (c->precision)
        sw_bytes_printf(b, "precision = %s\n", c->precision);
    if (c->on_nan)
        sw_bytes_printf(b, "on_nan = %s\n", c->on_nan);
    if (c->frozen[0])
        sw_bytes_printf(b, "freeze = %s.*\n", c->frozen);
}

static inline char *oracle_recipe(struct oracle_case *c, struct rng *r)
{
    struct sw_bytes b = {0}, stages = {0};
    struct rng more = rng_of(81000 + c->seed);
    bool streams;
    int length = (int)rng_int(r, 2, 6), words = (int)rng_int(r, 5, 11);
    char *net = oracle_net(c, length, words, &streams);
    /* What two rows have in common says nothing of either: gradients are nothing but rounding. */
    if (c->batch < ORACLE_MOST_WORKERS && strstr(net, "batch_norm"))
        c->batch += ORACLE_MOST_WORKERS;
    if (rng_int(r, 0, 5) == 0)
        oracle_draw_frozen(c->frozen, net, r);
    if (c->steps > 1 && rng_int(&more, 0, 4) == 0)
        c->cut = (int)rng_int(&more, 1, c->steps - 1);
    if (c->cut && !c->frozen[0] && rng_int(&more, 0, 1))
        oracle_draw_frozen(c->cooled, net, &more);
    if (c->at_once && rng_int(&more, 0, 2) == 0)
        c->on_nan = rng_int(&more, 0, 2) == 0 || oracle_keeps(&c->way[0]) ? "skip" : "rollback";
    oracle_add_job(&b, &stages, c);
    if (c->kind == ORACLE_SEQUENCES) {
        oracle_add_sequences(&b, "train", 7 * c->batch, length, words, streams ? c->batch : 0);
        oracle_add_sequences(&b, "test", 3 * c->eval_batch, length, words,
                             streams ? c->eval_batch : 0);
    } else {
        sw_bytes_add(&b, c->kind == ORACLE_MACHINES ? ORACLE_MACHINE_DATA : ORACLE_PICTURE_DATA);
    }
    sw_bytes_printf(&b, "[updater]\n%s%s%s", c->updater, net, sw_bytes_text(&stages));
    sw_bytes_fini(&stages);
    sw_free(net);
    return sw_bytes_take(&b);
}

/* ---- ways ---- */

/* Groups and their members, `workers` of them where that can be. */
static inline void oracle_draw_workers(struct oracle_way *w, int workers, struct rng *r)
{
    w->framework = (enum oracle_framework)rng_int(r, 0, ORACLE_FRAMEWORKS - 1);
    w->groups = 1;
    w->members = workers;
    if (w->framework == ORACLE_GROUPS) {
        w->groups = workers < 4 ? workers : (int)rng_int(r, 2, 4);
        w->members = workers / w->groups;
    }
    w->servers = (int)rng_int(r, 1, ORACLE_MOST_SERVERS);
    if (w->framework == ORACLE_ALLREDUCE)
        w->servers = w->members;
}

/* On CPUs, simulated GPUs, or some on these and the others on CPUs; then groups that split layers
 * are of one kind. */
static inline void oracle_draw_devices(struct oracle_way *w, struct rng *r)
{
    int workers = oracle_workers(w), kind = (int)rng_int(r, 0, 8);
    if (kind < 3)
        w->gpus = workers;
    else if (kind == 3 && workers > 1)
        w->gpus = (int)rng_int(r, 1, workers - 1);
    if (oracle_is_mixed(w) && w->gpus % w->members)
        w->partition = "0";
}

/* What cannot be gives way to auto: updates that look at all gradients, or devices without servers;
 * beside CPUs devices send nothing but gradients. */
static inline const char *oracle_draw_comm(const struct oracle_case *c, const struct oracle_way *w,
                                           struct rng *r)
{
    static const char *const ways[] = {"ps", "sfb", "adam", "auto"};
    const char *way = ways[rng_int(r, 0, 3)];
    bool adds = oracle_keeps(w) && w->framework == ORACLE_ALLREDUCE;
    bool cannot =
        strcmp(way, "sfb") == 0 ? w->gpus > 0 && c->at_once : strcmp(way, "adam") == 0 && adds;
    return cannot || (oracle_is_mixed(w) && strcmp(way, "ps") != 0) ? "auto" : way;
}

static inline void oracle_put_sets(struct oracle_way *w)
{
    int n = 0;
#define PUT(...) snprintf(w->sets[n++], ORACLE_SET_BYTES, __VA_ARGS__)
    PUT("cluster.framework=%s", oracle_frameworks[w->framework]);
    PUT("cluster.worker_groups=%d", w->groups);
    PUT("cluster.workers_per_group=%d", w->members);
    PUT("cluster.servers_per_group=%d", w->servers);
    PUT("cluster.slice_size=%d", w->slice);
    PUT("cluster.copy=%s", w->copy);
    PUT("cluster.overlap=%s", w->overlap);
    PUT("cluster.all_reduce=%s", w->all_reduce);
    PUT("job.partition=%s", w->partition);
    PUT("cluster.comm=%s", w->comm);
    PUT("job.graphs=%s", w->graphs);
    PUT("job.streams=%d", w->streams);
    PUT("cluster.bucket_size=%s", w->bucket);
#undef PUT
    if (w->gpus)
        snprintf(w->device, sizeof w->device, "sim:gpus=%d,mem=32MiB%s%s", w->gpus,
                 w->peers ? "" : ",peer=no", oracle_is_mixed(w) ? "+cpu" : "");
    else
        strcpy(w->device, "cpu");
}

/* Does the layer share parameters, or has it ones that others share? Such layers are in rows. */
static inline bool oracle_shares(const char *recipe, const char *section, const char *name)
{
    char own[40];
    const char *share = strstr(section, ".share = "), *end = strstr(section + 1, "[layer ");
    snprintf(own, sizeof own, ".share = %s.", name);
    return strstr(recipe, own) || (share && (!end || share < end));
}

/* Some layers go otherwise than the net: whole on any worker, losses and metrics too, or an inner
 * product by its outputs, of which there are enough for every worker. */
static inline void oracle_draw_layers(const struct oracle_case *c, struct oracle_way *w,
                                      struct rng *r)
{
    int n = 0, room = ORACLE_LAYER_SETS;
    char name[16], type[32];
    while (n < ORACLE_SETS && w->sets[n][0])
        n++;
    for (const char *s = c->recipe; (s = strstr(s, "[layer ")) && room > 0; s++) {
        if (sscanf(s, "[layer %15[^]]]\ntype = %31s", name, type) != 2 ||
            strcmp(type, "input") == 0 || oracle_shares(c->recipe, s, name) || rng_int(r, 0, 1))
            continue;
        int at = (int)rng_int(r, 0, w->members);
        if (at < w->members)
            snprintf(w->sets[n++], ORACLE_SET_BYTES, "layer.%s.location=%d", name, at);
        else if (strcmp(type, "inner_product") == 0 && w->members <= RANDOM_CLASSES &&
                 c->kind == ORACLE_PICTURES)
            snprintf(w->sets[n++], ORACLE_SET_BYTES, "layer.%s.partition=1", name);
        else
            continue;
        room--;
    }
}

/* Else too rare: devices that add up by themselves. */
static inline void oracle_let_devices_add(struct oracle_way *w, uint64_t seed)
{
    w->framework = ORACLE_ALLREDUCE;
    w->members = oracle_workers(w);
    w->servers = w->members;
    w->groups = 1;
    w->gpus = w->members;
    w->copy = "none";
    w->partition = seed % 24 == 5 ? "0" : "1";
}

/* As the case's updater and precision allow. */
static inline struct oracle_way oracle_draw_way(const struct oracle_case *c, int workers,
                                                bool devices_add, struct rng *r)
{
    struct rng more = rng_of(82000 + 10 * c->seed + (uint64_t)workers);
    static const char *const copies[] = {"async", "sync", "none"}, *const yes_no[] = {"yes", "no"},
                             *const partitions[] = {"0", "1", "1in", "none"},
                             *const sums[] = {"auto", "library", "copies"};
    struct oracle_way w = {.copy = copies[rng_int(r, 0, 2)],
                           .overlap = yes_no[rng_int(r, 0, 1)],
                           .graphs = yes_no[rng_int(r, 0, 2) == 0],
                           .all_reduce = sums[rng_int(r, 0, 2)],
                           .partition = partitions[rng_int(r, 0, 3)],
                           .slice = rng_int(r, 0, 1) ? 1024 : 1 << 20,
                           .streams = (int)rng_int(r, 1, 5)};
    w.bucket = rng_int(&more, 0, 1) ? "1KiB" : "4MiB";
    w.peers = rng_int(&more, 0, 2) > 0;
    oracle_draw_workers(&w, workers, r);
    oracle_draw_devices(&w, r);
    if (devices_add)
        oracle_let_devices_add(&w, c->seed);
    /* Rows that go on stay with one group. */
    if (w.groups > 1 && c->kind != ORACLE_PICTURES)
        w.partition = "0";
    /* Values that come back from a checkpoint are on the host. */
    bool needs_host = oracle_is_mixed(&w) || (c->on_nan && strcmp(c->on_nan, "rollback") == 0);
    if (w.gpus > 0 && needs_host && strcmp(w.copy, "none") == 0)
        w.copy = "async";
    w.comm = oracle_draw_comm(c, &w, r);
    w.fits = rng_int(r, 0, 5) == 0 && !oracle_is_mixed(&w) && c->kind != ORACLE_MACHINES;
    if (w.fits && strcmp(w.comm, "auto") == 0)
        w.comm = "ps"; /* what is measured takes other memory from time to time */
    oracle_put_sets(&w);
    return w;
}

/* ---- cases ---- */

/* each: every parameter is updated for itself. */
static inline void oracle_draw_updates(struct oracle_case *c, struct rng *r, bool each)
{
    static const char *const precisions[] = {"bf16", "tf32", "fp16"};
    const struct oracle_updater *u = &oracle_updaters[rng_int(r, 0, ORACLE_UPDATERS - 1)];
    if ((u->even && c->kind != ORACLE_SEQUENCES) || (u->norms && each))
        u = &oracle_updaters[1];
    int clips = (int)rng_int(r, each ? 2 : 0, 7), rounds = (int)rng_int(r, 0, 9);
    c->updater = u->text;
    c->clip = clips < 2 ? "norm:0.5" : clips == 2 ? "value:0.01" : NULL;
    if (rounds < (each ? 2 : 3) && c->kind != ORACLE_MACHINES)
        c->precision = precisions[rounds];
    c->at_once = clips < 2 || u->norms || (c->precision && strcmp(c->precision, "fp16") == 0);
}

static inline struct oracle_case oracle_draw(uint64_t seed)
{
    struct rng r = rng_of(77000 + seed);
    int kind = (int)rng_int(&r, 0, 9), workers = 1 + (int)(seed % ORACLE_MOST_WORKERS);
    struct oracle_case c = {.way = {{.comm = ""}, {.comm = ""}},
                            .seed = seed,
                            .kind = kind < 2    ? ORACLE_SEQUENCES
                                    : kind == 2 ? ORACLE_MACHINES
                                                : ORACLE_PICTURES,
                            .smooth = rng_int(&r, 0, 2) > 0};
    bool devices_add = seed % 12 == 5;
    c.smooth = c.smooth || c.kind == ORACLE_SEQUENCES;
    c.steps = (int)rng_int(
        &r, 1, c.smooth && c.kind != ORACLE_MACHINES ? ORACLE_MOST_STEPS : ORACLE_FEW_STEPS);
    /* At least a row for each, and mostly no equal shares. */
    c.batch = ORACLE_MOST_WORKERS + (int)rng_int(&r, 0, 14);
    if (rng_int(&r, 0, 3) == 0)
        c.batch = workers;
    c.eval_batch = (int)rng_int(&r, ORACLE_MOST_WORKERS, 13);
    oracle_draw_updates(&c, &r, devices_add);
    c.smooth = c.smooth || c.precision; /* roundings are large then */
    c.way[0] = oracle_draw_way(&c, workers, devices_add, &r);
    c.recipe = oracle_recipe(&c, &r);
    if (c.steps > 1 && c.batch >= ORACLE_MOST_WORKERS && rng_int(&r, 0, 3) == 0) {
        c.turn = (int)rng_int(&r, 1, c.steps - 1);
        c.way[1] = oracle_draw_way(&c, (int)rng_int(&r, 1, ORACLE_MOST_WORKERS), false, &r);
    } else if (c.way[0].groups == 1 && c.way[0].members > 1 && !oracle_is_mixed(&c.way[0]) &&
               c.kind != ORACLE_MACHINES && rng_int(&r, 0, 1)) {
        oracle_draw_layers(&c, &c.way[0], &r);
    }
    return c;
}

static inline void oracle_print_way(const struct oracle_way *w)
{
    fprintf(stderr, "  --device %s%s\n", w->device, w->fits ? " --set job.memory=fit:..." : "");
    for (int i = 0; i < ORACLE_SETS && w->sets[i][0]; i++)
        fprintf(stderr, "  --set %s\n", w->sets[i]);
}

static inline void oracle_print(const struct oracle_case *c)
{
    /* cmocka's messages end after a kilobyte. */
    fprintf(stderr, "case %d, %s, %d steps:\n", (int)c->seed, oracle_kinds[c->kind], c->steps);
    oracle_print_way(&c->way[0]);
    if (c->turn) {
        fprintf(stderr, "resumed after step %d:\n", c->turn);
        oracle_print_way(&c->way[1]);
    }
    fprintf(stderr, "%s\n", c->recipe);
}
