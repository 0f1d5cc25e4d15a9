/* All data that the dashboard shows of a run, from the live snapshot, the history and the machine.
 * Panels draw only from this, so a screen is a pure function of it. feed.c fills it; tests fill it
 * by hand. Unknown numbers are NaN or -1 and are shown as `--`. Texts are truncated to their
 * buffers. One owner. */
#pragma once

#include "history/history.h"
#include "history/reader_rows.h"
#include "history/snapshot.h"
#include "ui/plan.h"
#include "ui/trail.h"
#include "ui/verdict.h"

enum {
    SW_UI_SERIES = 24,   /* curves of a run; further ones are ignored */
    SW_UI_POINTS = 8192, /* points of a downsampled curve */
    SW_UI_RECENT = 240,  /* values of the newest steps of a curve */
    SW_UI_EVENTS = 1000,
    /* the newest ones */ SW_UI_SEGMENTS = 32, /* the newest */
    SW_UI_LINKS = 64,                          /* the ones with most bytes */
    SW_UI_LAYERS = 512,                        /* the slowest */
    SW_UI_DEVICES = 32,
    SW_UI_CPUS = 512,
    SW_UI_NODES = 16,
    SW_UI_HOSTS = 64,
    SW_UI_NAME = 64,
};

/* A curve: downsampled as a whole, and its newest values unchanged. */
struct sw_ui_series {
    int64_t id; /* in the history */
    char split[32], name[SW_UI_NAME];
    struct sw_trail trail;
    double recent[SW_UI_RECENT]; /* a ring; the newest at (count - 1) % SW_UI_RECENT */
    int64_t count;               /* number of values that were added */
    int64_t last_step;           /* -1: none */
    double best;                 /* lowest of a loss, highest of others; NaN: none */
    int64_t best_step;
    int64_t not_finite; /* number of non-finite values */
    bool changes;       /* a value differs from the first one */
    double first;
};

struct sw_ui_run {
    int64_t id; /* 0: not in the history yet */
    char uid[17], name[SW_UI_NAME], recipe[160], framework[24], device[64], host[64], out_dir[256];
    char version[24], note[128];
    enum sw_run_status status;
    int64_t workers, batch, steps, epoch_records, params, seed;
    double flops_per_sample;
    double started_at, ended_at; /* 0: unknown */
    int64_t pid;
};

/* A worker, server or prefetch thread, from its slot of the snapshot. */
struct sw_ui_thread {
    struct sw_slot_state slot;
    double busy; /* moving average of the busy fraction; NaN: unknown */
};

/* A host of a run on several hosts. */
struct sw_ui_host {
    char name[32];      /* roles of hosts other than the first have it in front: "b/worker0.1" */
    char why[160];      /* it was lost; "": it was not */
    bool left;          /* it takes part no more */
    int64_t step;       /* completed by all of its workers; -1: unknown */
    double bytes_per_s; /* what it sends to the others; NaN: unknown */
};

struct sw_ui_event {
    double time;
    int64_t step; /* of an evaluation or a checkpoint, else -1 */
    enum sw_log_level level;
    char source[32];
    char text[256];
};

struct sw_ui_node {
    int number, first_cpu, cpu_count; /* the CPUs are a range in sw_ui_machine.cpu */
    double mem_used, mem_total;       /* bytes */
};

/* The machine that the dashboard runs on; `known` only if the run is on it. */
struct sw_ui_machine {
    bool known;
    char cpu_model[96];
    int cpu_count, node_count;
    float cpu[SW_UI_CPUS]; /* busy fraction of each CPU, node by node; NaN: unknown */
    struct sw_ui_node node[SW_UI_NODES];
    double load, mem_used, mem_total;
    double process_cpus;            /* CPUs that the trainer keeps busy */
    double process_memory;          /* its resident bytes */
    double read_per_s, write_per_s; /* its disk bytes per second */
    char gpus[8][96];               /* "0: NVIDIA H200, PCIe 63 GB/s" */
    int gpu_count;
    char paths[8][96]; /* "the same PCIe switch: 0-1 2-3" */
    int path_count;
};

/* A line of the list of runs. */
struct sw_ui_row {
    int64_t id, step, steps;
    char name[SW_UI_NAME];
    enum sw_run_status status;
    double loss, accuracy, samples_per_s, started_at, ended_at;
};

struct sw_ui_model {
    double now;     /* Unix seconds */
    int64_t now_ns; /* monotonic, like the times of slots */
    bool found;     /* a run was found; else `problem` says why not */
    char problem[256];
    bool live;       /* the last refresh could read the snapshot */
    double rows_age; /* seconds since the last new row of the history; NaN: none yet */
    struct sw_ui_run run;

    struct sw_ui_thread *threads; /* owned [thread_count] */
    int thread_count;
    struct sw_run_placement *placements; /* owned [placement_count] */
    int placement_count;
    struct sw_ui_host hosts[SW_UI_HOSTS];
    int host_count; /* 0: the run is on one host */

    struct sw_ui_series series[SW_UI_SERIES];
    int series_count;
    struct sw_ui_series overlay[4]; /* of another run: loss and accuracies */
    int overlay_count;
    int64_t overlay_run;
    char overlay_name[SW_UI_NAME];
    double ended_s;       /* duration of the completed segments */
    double segment_start; /* Unix seconds, start of the current segment; NaN: none */
    int64_t resume_steps[SW_UI_SEGMENTS]; /* steps from which a resume continued */
    int resume_count;

    struct sw_ledger ledger;
    struct sw_run_layer layers[SW_UI_LAYERS];
    int layer_count;
    struct sw_ui_plan plan;
    struct sw_run_traffic links[SW_UI_LINKS];
    int link_count;
    struct sw_run_hardware devices[SW_UI_DEVICES];
    int device_count;
    struct sw_ui_machine machine;

    struct sw_ui_event events[SW_UI_EVENTS]; /* a ring; the newest at (event_total - 1) % size */
    int64_t event_total;
    int64_t checkpoint_step; /* the newest, -1: none */
    double checkpoint_time;

    struct sw_ui_row *rows; /* owned [row_count]; newest run first */
    int row_count;
};

/* Resets the model for another run and frees its curves, threads and placements. The struct is
 * zero-initialized before the first call. */
void sw_ui_model_clear(struct sw_ui_model *m);
void sw_ui_model_fini(struct sw_ui_model *m);

/* Appends a curve to a list of at most `most`; NULL if the list is full or memory is exhausted. */
struct sw_ui_series *sw_ui_series_add(struct sw_ui_series *list, int *count, int most, int64_t id,
                                      const char *split, const char *name);
void sw_ui_series_point(struct sw_ui_series *s, int64_t step, double value);
void sw_ui_series_fini(struct sw_ui_series *list, int *count);
/* Finds a curve, or NULL. split NULL stands for any split except train. */
const struct sw_ui_series *sw_ui_series_find(const struct sw_ui_model *m, const char *split,
                                             const char *name);
/* Whether a curve has several values, all the same. */
bool sw_ui_is_constant(const struct sw_ui_series *s);
/* The newest value of a curve; NaN if it has none or s is NULL. */
double sw_ui_newest(const struct sw_ui_series *s);
/* The median of the newest values, so that outliers such as steps with an evaluation do not count.
 */
double sw_ui_median(const struct sw_ui_series *s);

/* Inserts an event by time. */
void sw_ui_event_add(struct sw_ui_model *m, double time, enum sw_log_level level,
                     const char *source, const char *text);
/* Adds a value of an evaluation; values of one evaluation go into one event. */
void sw_ui_event_eval(struct sw_ui_model *m, double time, const char *split, int64_t step,
                      const char *name, double value);
void sw_ui_event_checkpoint(struct sw_ui_model *m, double time, int64_t step, const char *path,
                            double bytes);
/* The i-th stored event, oldest first; 0 <= i < sw_ui_event_count. */
const struct sw_ui_event *sw_ui_event_at(const struct sw_ui_model *m, int i);
int sw_ui_event_count(const struct sw_ui_model *m);

/* The last step that the run has completed; -1: none. */
int64_t sw_ui_step(const struct sw_ui_model *m);
/* Seconds that the run has taken without the time between segments, and the estimated remaining
 * seconds (NaN: unknown). */
double sw_ui_elapsed(const struct sw_ui_model *m);
double sw_ui_eta(const struct sw_ui_model *m);
/* Whether all workers are paused by request. */
bool sw_ui_paused(const struct sw_ui_model *m);
/* The state of the whole run: "running", "paused", "starting", "evaluating", ... */
const char *sw_ui_status(const struct sw_ui_model *m);
/* The name of a role or device without that of its host: "worker0.1" of "b/worker0.1". */
const char *sw_ui_role(const char *unit);
/* The index of the host of a role; 0 if its name has no known host in front. */
int sw_ui_host_of(const struct sw_ui_model *m, const char *unit);
/* Sets steps and rates of the hosts from threads and links. */
void sw_ui_update_hosts(struct sw_ui_model *m);
/* "running", "left" or "lost". */
const char *sw_ui_host_state(const struct sw_ui_host *h);
/* The kind of a thread by its name: worker0.0 is a worker, server0.0 a server, any other a prefetch
 * thread. */
enum sw_ui_thread_kind { SW_UI_WORKER, SW_UI_SERVER, SW_UI_READER };
enum sw_ui_thread_kind sw_ui_thread_kind_of(const char *unit);

/* Parses the next range of "0-3,8"; returns the text behind it, or NULL at the end. */
const char *sw_ui_next_range(const char *list, long *from, long *to);

/* Finds the bottleneck of the run. */
struct sw_bottleneck sw_ui_bottleneck(const struct sw_ui_model *m);
