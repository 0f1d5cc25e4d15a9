/* Names the bottleneck of a run in one line and what to do about it in another, from the time
 * breakdown of the newest steps. The rules look for one slow worker first (all others wait for it,
 * and their waiting is not the cause), then at what a step waits for: data, copies, servers, other
 * workers. A pure function of its arguments. */
#pragma once

#include "history/history.h"
#include "ui/canvas.h"

/* The phases of a step that workers measure. */
enum sw_step_phase {
    SW_STEP_READ,
    SW_STEP_DECODE,
    SW_STEP_H2D,
    SW_STEP_FORWARD,
    SW_STEP_BACKWARD,
    SW_STEP_UPDATE,
    SW_STEP_COMM,
    SW_STEP_WAIT,
    SW_STEP_IDLE,
    SW_STEP_PHASES,
};
/* The name of a phase ("read", "decode", "copy", "forward", ...) and its appearance in a bar. */
const char *sw_step_phase_name(enum sw_step_phase p);
enum sw_role sw_step_phase_role(enum sw_step_phase p);
char sw_step_phase_letter(enum sw_step_phase p); /* in bars and legends */

enum { SW_LEDGER_WORKERS = 64, SW_LEDGER_STEPS = 512 };

/* Times of the newest steps: means, unless a name says otherwise. */
struct sw_ledger_worker {
    int worker;
    int64_t steps;
    double ms[SW_STEP_PHASES];
    double median_ms[SW_STEP_PHASES];
    double hidden_ms;
    int staleness; /* the largest */
};
struct sw_ledger {
    int worker_count; /* 0: nothing is known */
    struct sw_ledger_worker worker[SW_LEDGER_WORKERS];
    int64_t from_step, to_step;
    double step_ms;        /* mean, of the slowest worker of each step */
    double p50_ms, p99_ms; /* median and 99th percentile of the same; NaN: unknown */
};

/* Computes *l from rows that are sorted by step and worker. Workers beyond the first
 * SW_LEDGER_WORKERS are ignored. */
void sw_ledger_make(struct sw_ledger *l, const struct sw_step_time *rows, int count);
/* The fraction of the time of all workers that phase p takes, 0..1; NaN: unknown. */
double sw_ledger_fraction(const struct sw_ledger *l, enum sw_step_phase p);
/* The mean duration of a whole step of one worker. */
double sw_ledger_step_ms(const struct sw_ledger_worker *w);

enum sw_bound {
    SW_BOUND_UNKNOWN,
    SW_BOUND_COMPUTE,
    SW_BOUND_DISK,
    SW_BOUND_DECODE,
    SW_BOUND_COPY,
    SW_BOUND_WORKER,  /* one worker is slower than the others */
    SW_BOUND_SERVERS, /* too many servers */
    SW_BOUND_UPDATE,
    SW_BOUND_COMM,
    SW_BOUND_GROUPS, /* worker groups wait for the slowest one */
    SW_BOUND_OVERHEAD,
};

/* "compute", "disk", ...: the value of the JSON key "bound". */
const char *sw_bound_name(enum sw_bound b);

struct sw_bottleneck_input {
    const struct sw_ledger *ledger;
    int servers;           /* 0: unknown */
    int dedicated_servers; /* servers that have cores to themselves */
    int server_cores;      /* cores that only servers use */
    double servers_busy;   /* mean busy fraction of the dedicated servers; NaN: unknown */
    double copy_ms;        /* copies of gradients and parameters, per step and worker; 0: none */
    const char *slowest_layer; /* NULL: unknown */
    double slowest_fraction;   /* its fraction of the compute time of a step */
    int group_size;            /* workers of a group, for their names; 0: unknown */
    const char *const *names;  /* [name_count], of workers of several hosts */
    int name_count;
    int readers; /* prefetch threads of a worker; 0: unknown */
    bool on_cpu;
};

struct sw_bottleneck {
    enum sw_bound bound;
    int worker;       /* index of the slow worker for SW_BOUND_WORKER, else -1 */
    char text[160];   /* what limits the run */
    char advice[128]; /* which keys or commands would help; "": nothing is known */
};

/* Finds what limits the run from the time breakdown of its steps. Both texts usually fit into 76
 * columns. */
struct sw_bottleneck sw_bottleneck_find(const struct sw_bottleneck_input *in);
