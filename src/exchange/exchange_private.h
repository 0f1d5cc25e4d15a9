/* The exchange from the inside: exchange.c has its life and the step's calls, route.c the registry
 * of routes, port.c the device memory of parameters, device_update.c updates on the device,
 * device_report.c what the device tells, control.c and control_device.c decisions about all updates
 * of a step, copies.c copies between device and host. */
#pragma once

#include "exchange/route.h"

/* A block of device memory that is copied to the host as a whole: marks, what was decided, and of
 * every port whether its update was not finite. Behind it is what the host writes ahead of a step:
 * numbers of updates, and what is known before a decision. */
struct sw_device_report {
    size_t bytes;                             /* of all of it on the device */
    int64_t *marks;                           /* owned device memory [SW_MARKS]: the block */
    bool *bad;                                /* [ports]; NULL: the device does not update */
    size_t ask_bytes;                         /* what is copied to the host */
    void *host;                               /* owned host memory of which these are parts: */
    const int64_t *told;                      /* the copy, */
    const bool *told_bad;                     /* its part, */
    struct sw_update_numbers *numbers, *sent; /* [ports]: on the device, and what is copied there */
    struct sw_decided *decided;               /* NULL: no device decides */
    const struct sw_decided *told_decided;
    struct sw_deciding *known, *sent_known;
};

/* Who decides about the updates of a step, and when. */
struct sw_control {
    const char *name;
    bool (*takes)(const struct sw_exchange_args *args);
    bool together; /* two phases: no parameter is updated before all gradients of the step are
                    * known. Routes then deliver sums and make no update */
    /* What it keeps, or NULL. */
    int (*attach)(struct sw_exchange *x, struct sw_err *err);
    void (*detach)(struct sw_exchange *x);
    /* As the functions of exchange.h; NULL: there is nothing to do. */
    int (*begin)(struct sw_exchange *x, uint64_t version, double *scale, struct sw_err *err);
    bool (*is_queued)(const struct sw_exchange *x);
    int (*queue)(struct sw_exchange *x, struct sw_err *err);
    int (*end)(struct sw_exchange *x, uint64_t version, struct sw_err *err);
    int (*learn)(struct sw_exchange *x, uint64_t version, struct sw_err *err);
    int (*wait_own)(struct sw_exchange *x, uint64_t version, struct sw_err *err);
};
extern const struct sw_control sw_control_each, sw_control_host, sw_control_device;

struct sw_decider;

struct sw_exchange {
    struct sw_exchange_args args;
    struct sw_port *ports;  /* owned [count], lowest layer first */
    int count;              /* args.params may name one more than once */
    int *port_of;           /* owned [parameters of the table]: -1: the worker has not got it */
    void *state[SW_MOST_ROUTES]; /* owned by the routes: NULL */
    const struct sw_control *control;
    struct sw_decider *decider;  /* owned by control_device.c */
    struct sw_copy_queue *queue; /* owned; NULL: the table's memory is the worker's */
    void *memory;                /* owned device memory of the ports */
    size_t bytes;
    struct sw_device_report report;
    bool keeps_values; /* a device updates, this one or another */
    int64_t start;     /* the version before the first round of sums; SW_NEVER */
    int64_t lag;
    int64_t first_row, rows; /* of the batch, this worker's */
};

static inline const struct sw_table *sw_port_table(const struct sw_port *p)
{
    return p->x->args.table;
}
static inline struct sw_port *sw_exchange_port(const struct sw_exchange *x, int param)
{
    return &x->ports[x->port_of[param]];
}
/* The round of sums (1, 2, ...) in which gradient `version` is. */
static inline uint64_t sw_exchange_round(const struct sw_exchange *x, uint64_t version)
{
    return version - (uint64_t)x->start;
}

/* exchange.c: waits for a port; pulls it. */
int sw_exchange_pull_port(struct sw_exchange *x, struct sw_port *p, uint64_t version,
                          struct sw_err *err) SW_MUST_CHECK;
/* Waits for a version in the table, of one update group or SW_TABLE_ALL. */
int sw_exchange_wait_table(struct sw_exchange *x, int group, int param, uint64_t version,
                           struct sw_err *err) SW_MUST_CHECK;
int sw_exchange_wait_params(struct sw_exchange *x, int group, uint64_t version,
                            struct sw_err *err) SW_MUST_CHECK;

/* port.c: does the worker's device update, or another's in its place? */
bool sw_exchange_updates(const struct sw_exchange_args *args);
/* Takes the memory of all ports, and makes them; the table is frozen. */
int sw_ports_make(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
void sw_ports_free(struct sw_exchange *x);
/* A partial sum of the worker's gradient on its device. */
float *sw_port_partial(const struct sw_port *p, int k);

/* device_report.c */
size_t sw_device_report_bytes(int ports, bool updates, bool decides);
int sw_device_report_make(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
void sw_device_report_free(struct sw_exchange *x);

/* device_update.c */
/* Sends the numbers of the updates that will be queued in step `version`. */
int sw_device_update_begin(struct sw_exchange *x, uint64_t version,
                           struct sw_err *err) SW_MUST_CHECK;
/* The first value and updater state of a port are copied to the device, once. */
int sw_device_update_start(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Queues the update that the numbers describe; nothing on the host. */
int sw_device_update_queue(struct sw_port *p, struct sw_err *err) SW_MUST_CHECK;
/* The same for a certain version, whose numbers are sent if they are not there. */
int sw_device_update(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;

/* control_device.c */
struct sw_exchange_bytes sw_decider_bytes(const struct sw_exchange_args *args);

/* copies.c: what routes have in common whose gradients the servers add up. */
int sw_copies_of_port(const struct sw_route_query *q);
int sw_partials_of_port(const struct sw_route_query *q);
int sw_wait_for_table(const struct sw_port *p, uint64_t version, int timeout_ms);
/* Copies the partial sums to the host, and tells the servers when they are there. */
int sw_push_partials(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Starts the copy of what the table has at `version`, and of all other parameters that are there
 * already; the compute stream waits for it. */
int sw_fetch(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Waits for copies that were started, with `copy = sync`. */
int sw_copies_settle(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
