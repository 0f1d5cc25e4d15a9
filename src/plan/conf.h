/* [cluster]: how many workers and servers, how consistent they are, and which framework they make.
 * A framework is a row of defaults for the other keys, never another code path. Const tables; any
 * thread. */
#pragma once

#include "base/comm_way.h"
#include "exchange/copy_mode.h"
#include "plan/placement.h"
#include "recipe/option.h"

enum sw_framework {
    SW_FRAMEWORK_AUTO,
    SW_FRAMEWORK_SANDBLASTER,
    SW_FRAMEWORK_ALLREDUCE,
    SW_FRAMEWORK_DOWNPOUR,
    SW_FRAMEWORK_HOGWILD,
    SW_FRAMEWORK_CUSTOM,
};

/* Between worker groups: inside one everything is synchronous. */
enum sw_consistency {
    SW_CONSISTENCY_AUTO,    /* as the framework has it */
    SW_CONSISTENCY_BSP,     /* all groups make every update together */
    SW_CONSISTENCY_SSP,     /* every group its own, within `staleness` steps of the slowest */
    SW_CONSISTENCY_ASYNC,   /* every group its own */
    SW_CONSISTENCY_HOGWILD, /* the same, without servers and locks */
};

enum { SW_MAX_STALENESS = 100, SW_MAX_SERVER_GROUPS = 64 };

/* 0 and _AUTO: not given. */
struct sw_cluster_conf {
    int framework; /* enum sw_framework */
    int64_t worker_groups, workers_per_group, server_groups, servers_per_group;
    int consistency;   /* enum sw_consistency */
    int64_t staleness; /* -1: not given */
    int64_t sync_period;
    struct sw_strings sync_topology;
    int64_t warmup_steps;
    int bind_servers;    /* enum sw_bind_choice */
    int copy;            /* enum sw_copy_mode */
    int overlap;         /* enum sw_overlap */
    int comm;            /* enum sw_comm_way, of layers that do not say */
    int64_t slice_size;  /* parameters */
    int64_t bucket_size; /* bytes */
    int all_reduce;      /* enum sw_all_reduce */
    bool rebalance;      /* rows of a batch by the workers' measured speed */
    int on_stall;        /* enum sw_on_stall */
    double stall_s;      /* 0: as monitor/watchdog.h says */
    int devices;         /* of their own for workers, as the caller counts them; 0: none */
};
enum sw_bind_choice { SW_BIND_AUTO, SW_BIND_YES, SW_BIND_NO };
/* Who adds up gradients where no server does: the devices' own library, or copies between devices.
 */
enum sw_all_reduce { SW_ALL_REDUCE_AUTO, SW_ALL_REDUCE_LIBRARY, SW_ALL_REDUCE_COPIES };
/* When updates are handed over: after each layer's backward, or after the last one. */
enum sw_overlap { SW_OVERLAP_YES, SW_OVERLAP_NO };
/* AUTO warns, and stops what lasts. */
enum sw_on_stall { SW_ON_STALL_AUTO, SW_ON_STALL_WARN, SW_ON_STALL_STOP };

extern const struct sw_opt sw_cluster_opts[];

/* How worker groups get along. */
struct sw_cluster_terms {
    enum sw_consistency consistency; /* never _AUTO */
    int64_t staleness;               /* -1: no bound */
    int64_t sync_period;             /* steps between exchanges of server groups */
    int64_t warmup_steps;            /* that the first group makes alone; 0 under BSP */
};

/* The shape that the settings mean on this machine, and a sentence that says why. The name of the
 * framework is returned. Without settings: allreduce with one worker per NUMA node.
 * Errors: SW_ERR_INVALID (a combination that cannot be; *key names the key to blame). */
int sw_cluster_shape(const struct sw_cluster_conf *conf, const struct sw_machine *m,
                     struct sw_cluster_shape *shape, const char **framework, char *reason,
                     size_t reason_bytes, const char **key, struct sw_err *err) SW_MUST_CHECK;
/* The same for the terms; a staleness of 0 is BSP. */
int sw_cluster_terms(const struct sw_cluster_conf *conf, struct sw_cluster_terms *terms,
                     const char **key, struct sw_err *err) SW_MUST_CHECK;

const char *sw_copy_mode_name(enum sw_copy_mode mode);

/* What to add to a command line so that it asks for at most `most` workers (1 or more), into out of
 * at least 128 bytes; returns out. */
const char *sw_cluster_advice(const struct sw_cluster_conf *conf,
                              const struct sw_cluster_shape *shape, int most, char *out,
                              size_t bytes);

/* Which of so many server groups exchange with each other: neighbours[i * server_groups + j],
 * symmetric. Errors: SW_ERR_INVALID (neither a name nor a list of pairs, a pair that cannot be). */
int sw_cluster_neighbours(const struct sw_cluster_conf *conf, int server_groups, bool *neighbours,
                          struct sw_err *err) SW_MUST_CHECK;
