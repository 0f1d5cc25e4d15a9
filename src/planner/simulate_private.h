/* Shared by the files of the simulator, whose floors are: simulate_events (the clock),
 * simulate_links (transfers that share links), simulate_paths (links of collective operations),
 * simulate_exchange_plan and simulate_move_plan (what a plan exchanges and moves), simulate_setup
 * (the rest of a simulation), simulate_exchange (parameters), simulate_moves (activations),
 * simulate_worker (a worker's step), simulate (the loop and the result). Exchanges and moves never
 * call the worker: they wake workers, which the loop then lets go on. */
#pragma once

#include "planner/simulate.h"
#include "planner/simulate_paths.h"

/* What a worker's time goes to. */
enum sw_plansim_part {
    SW_PLANSIM_COMPUTES,
    SW_PLANSIM_UPDATES,     /* runs servers, or makes updates itself */
    SW_PLANSIM_RESTS,       /* what a step takes beside its layers */
    SW_PLANSIM_PARAMS,      /* waits for an exchange of parameters that has begun */
    SW_PLANSIM_ACTIVATIONS, /* waits for a movement of activations that has begun */
    SW_PLANSIM_OTHERS,      /* waits for other workers */
    SW_PLANSIM_PARTS
};

enum sw_plansim_state {
    SW_PLANSIM_READY,
    SW_PLANSIM_WAITS,
    SW_PLANSIM_BUSY,
    SW_PLANSIM_DONE,   /* with all steps: it still serves, ... */
    SW_PLANSIM_SERVES, /* ... as now */
    SW_PLANSIM_LOST,   /* with its host */
};

/* The worker's share of an exchange's work, which its servers do between two passes. */
struct sw_plansim_job {
    int exchange;
    double seconds;
};

struct sw_plansim_worker {
    int group, rank, host;
    double slow; /* factor of its time */
    double rest_s;
    int rest_pass;      /* the pass before which the rest of the step is done; -1: none */
    int64_t step;       /* 1, 2, ... */
    int pass;           /* the current or next one: forward passes, then backward from the top */
    int serves;         /* the exchange that it is busy with; -1: a pass */
    int64_t fetch_step; /* the step after which it fetches the values ... */
    int fetch_layer;    /* ... of this layer next */
    enum sw_plansim_state state;
    bool is_woken;
    double since_s; /* it waits, */
    const struct sw_plansim_exchange
        *awaits_exchange; /* for one of these; both NULL: for its group */
    const struct sw_plansim_crossing *awaits_move;
    int next_woken;
    struct sw_plansim_job *job; /* owned: [first_job, jobs) are to be done */
    int64_t first_job, jobs, job_capacity;
    double spent_s[SW_PLANSIM_PARTS];
    double begin_s, end_s; /* of the measured steps: the end of the first, and of the last */
    double begin_spent_s[SW_PLANSIM_PARTS], end_spent_s[SW_PLANSIM_PARTS];
};

/* Stages of an exchange, in this order; those without work are passed at once. */
enum sw_plansim_stage {
    SW_PLANSIM_GATHER,  /* not all members have pushed */
    SW_PLANSIM_SUM,     /* workers of a host sum their gradients */
    SW_PLANSIM_UP,      /* all-reduce, factors to all, or gradients to servers */
    SW_PLANSIM_CONTROL, /* until all sums of the step are known, if an option needs them */
    SW_PLANSIM_SERVE,   /* sum and update */
    SW_PLANSIM_ANSWER,  /* withheld while the group would be too far ahead */
    SW_PLANSIM_DOWN,    /* values from servers */
};

/* The order of transfers on a link. */
enum {
    SW_PLANSIM_MOVES,   /* activations are awaited at once */
    SW_PLANSIM_COPIES,  /* what devices copy themselves, in the order of their queues */
    SW_PLANSIM_URGENCY, /* of the lowest layer with parameters, and so on: messages of hosts */
};

/* The gradients of a layer that make one update, or its shard of them; one at a time. */
struct sw_plansim_exchange {
    int layer, group; /* group -1: all */
    struct sw_plansim_members members;
    const struct sw_plansim_path *up, *down; /* borrowed; NULL: nothing moves */
    double up_bytes, down_bytes;
    int up_arrays, down_arrays; /* of a unit: each is a copy of a device */
    bool is_queued;             /* devices of one host make the transfers themselves */
    bool is_mirror;        /* they fetch new values from servers, those of the lowest layer first */
    int64_t ready;         /* how often the values were there; */
    int asked;             /* members that want to fetch them now */
    double sum_s, serve_s; /* of all servers of a host, one after the other */
    double pull_s;         /* of each member, before its forward pass: product of factors, update */
    int server_host; /* its servers have threads of their own on that host; -1: members serve */
    enum sw_plansim_stage stage;
    int pushed, jobs_left;
    int64_t begun, updates, done; /* begun; made by servers; answered */
    double begun_s;
    bool is_withheld;
};

/* A connection between two distributions of a layer's output, and of the gradient back. Direction 0
 * is forward, 1 back. */
struct sw_plansim_move {
    int source, reader; /* the first layer that needs it */
    struct sw_distribution from, to;
    int parent;        /* the move that makes `from`; -1: the source does */
    bool has_back;     /* a gradient goes back: */
    int back_reader;   /* from its last reader in backward order (-1: none), ... */
    int back_children; /* ... and from moves whose parent this is */
    double copy_s;     /* of workers that share memory */
    double bytes[2];   /* units of the paths */
    const struct sw_plansim_path **path[2]; /* owned [groups], paths borrowed */
    struct sw_plansim_crossing {
        int arrived[2]; /* senders, by the parity of the step */
        int64_t begun, done;
        double begun_s;
    } * crossing[2]; /* owned [groups] */
};

struct sw_plansim {
    const struct sw_simulation_args *args;
    const struct sw_net_model *net;
    const struct sw_machine_model *machine;
    const struct sw_parallel_plan *plan;
    struct sw_cost_model cost, alone; /* of the plan's shape, and of a single worker */
    int layers, workers, groups, size;
    int64_t steps;
    bool is_async;
    double now_s;
    double *pass_s[2];     /* owned [workers][layers]: forward, backward */
    double *capacity;      /* owned [links] */
    double *server_free_s; /* owned [hosts]: when the servers of a host have done all so far */
    struct sw_plansim_worker *worker;     /* owned */
    struct sw_plansim_exchange *exchange; /* owned: those of layer l are first_exchange[l] and on */
    int exchanges;
    int *first_exchange;          /* owned [layers + 1] */
    int *urgency;                 /* owned [layers]: of messages of the layer's parameters */
    struct sw_plansim_move *move; /* owned: by reader, parents first */
    int moves;
    struct sw_plansim_paths paths;
    struct sw_plansim_links links;
    struct sw_plansim_events events;
    int first_woken;   /* -1: none */
    bool host_is_lost; /* args->lost_host */
    /* Asynchronous groups. */
    int64_t *group_steps; /* owned [groups]: that it does */
    int unfinished;       /* groups that have not done `steps` */
    bool *is_lost;        /* owned [groups] */
    int64_t *least;       /* owned [layers]: updates of the slowest group that is not lost */
    int *slowest;         /* owned [layers]: groups that have made no more */
    double staleness;     /* sum over answers */
    int64_t answers, most_staleness;
    double *layer_wait_s; /* borrowed [layers]: sums of all workers */
};

/* simulate_exchange_plan.c, simulate_move_plan.c: for sw_plansim_init. */
int sw_plansim_plan_exchanges(struct sw_plansim *s, struct sw_err *err) SW_MUST_CHECK;
int sw_plansim_plan_moves(struct sw_plansim *s, struct sw_err *err) SW_MUST_CHECK;

/* simulate_setup.c. Errors: SW_ERR_NOMEM, SW_ERR_INVALID. Free with sw_plansim_fini in every case.
 */
int sw_plansim_init(struct sw_plansim *s, const struct sw_simulation_args *args,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_plansim_fini(struct sw_plansim *s);
/* Does the layer have parameters that are trained? */
bool sw_plansim_is_trained(const struct sw_plansim *s, int layer);
/* Are the layer's parameters divided over the workers of a group? */
bool sw_plansim_is_split(const struct sw_plansim *s, int layer);
/* The exchange of the layer's parameters that the worker is a member of; NULL: none. */
struct sw_plansim_exchange *sw_plansim_exchange_of(const struct sw_plansim *s, int layer,
                                                   int worker);
/* Does the worker compute that layer? */
bool sw_plansim_computes(const struct sw_plansim *s, int layer, const struct sw_plansim_worker *w);
/* The loop lets the worker go on before the clock does. */
void sw_plansim_wake(struct sw_plansim *s, int worker);
/* Asks for a transfer of `owner`, which the loop tells when it begins and ends. */
int sw_plansim_ask(struct sw_plansim *s, const struct sw_plansim_path *path, int urgency, int owner,
                   struct sw_err *err) SW_MUST_CHECK;

/* simulate_exchange.c: the worker's gradient of the layer is complete. */
int sw_plansim_push(struct sw_plansim *s, int worker, int layer, struct sw_err *err) SW_MUST_CHECK;
/* A worker has done its job of the exchange. */
int sw_plansim_served(struct sw_plansim *s, int exchange, struct sw_err *err) SW_MUST_CHECK;
/* The exchange's transfer begins to move bytes. */
int sw_plansim_exchange_begin(struct sw_plansim *s, int exchange, struct sw_err *err) SW_MUST_CHECK;
/* Its transfer, or its servers' work, has ended: goes on with the next stage. */
int sw_plansim_exchange_ended(struct sw_plansim *s, int exchange, struct sw_err *err) SW_MUST_CHECK;
/* The group makes no updates any more. */
int sw_plansim_lose_group(struct sw_plansim *s, int group, struct sw_err *err) SW_MUST_CHECK;

/* simulate_moves.c: the worker has done the forward (direction 0) or backward pass of the layer. */
int sw_plansim_send(struct sw_plansim *s, int worker, int layer, int direction,
                    struct sw_err *err) SW_MUST_CHECK;
/* Owners of transfers from `exchanges` on are moves. */
int sw_plansim_move_begin(struct sw_plansim *s, int owner, struct sw_err *err) SW_MUST_CHECK;
int sw_plansim_move_ended(struct sw_plansim *s, int owner, struct sw_err *err) SW_MUST_CHECK;
/* The first movement that the worker's pass has to wait for; NULL: none. */
const struct sw_plansim_crossing *sw_plansim_awaited(const struct sw_plansim *s,
                                                     const struct sw_plansim_worker *w, int layer,
                                                     int direction);

/* simulate_worker.c: goes on as far as possible. */
int sw_plansim_go_on(struct sw_plansim *s, int worker, struct sw_err *err) SW_MUST_CHECK;
/* What the worker was busy with has ended. */
int sw_plansim_worker_done(struct sw_plansim *s, int worker, struct sw_err *err) SW_MUST_CHECK;
