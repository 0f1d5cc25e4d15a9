/* The internals of the exchange: exchange.c creates it and implements the calls of a step, route.c
 * has the registry of routes, port.c the device memory of parameters, device_update.c updates on
 * the device, device_report.c what the device reports, control.c and control_device.c update
 * control, copies.c copies between device and host. */
#pragma once

#include "exchange/route.h"

/* A block of device memory that is copied to the host as a whole: marks, the result of update
 * control, and for every port whether its update was finite. After that block follows what the host
 * uploads before a step: the constants of the updates, and what update control needs to know. */
struct sw_device_report {
    size_t bytes;      /* of the whole block on the device */
    int64_t *marks;    /* owned device memory [SW_MARKS]: the block */
    bool *bad;         /* [places]; NULL: the device does not update */
    size_t ask_bytes;  /* bytes that are copied to the host */
    void *host;        /* owned host memory: such a block for the newest step and for the one
                          before, which take turns (sw_device_report_on_host) */
    int turn;          /* of the newest step: 0 or 1 */
    int64_t *versions; /* owned [2][ports]: the updates that the flags `bad` are about */
    struct sw_update_numbers *numbers;        /* [places] */
    struct sw_update_control_result *control; /* NULL: no update control on the device */
    struct sw_update_control_input *known;
};

/* An update controller: decides whether, and with which scale, the updates of a step are applied.
 */
struct sw_update_controller {
    const char *name;
    bool (*takes)(const struct sw_exchange_args *args);
    bool two_phase; /* two phases: no parameter is updated before all gradients of the step are
                       known. Routes then deliver sums and make no update */
    bool at_end;    /* the device makes all updates after the last backward pass */
    /* Does a step need something that the host learns from the step before, or in its own middle?
     * NULL: never. */
    bool (*waits)(const struct sw_exchange *x);
    /* Creates the controller's state; or NULL. */
    int (*attach)(struct sw_exchange *x, struct sw_err *err);
    void (*detach)(struct sw_exchange *x);
    /* Implementations of the functions of the same names in exchange.h; NULL: nothing to do. */
    int (*begin)(struct sw_exchange *x, uint64_t version, double *scale, struct sw_err *err);
    bool (*is_queued)(const struct sw_exchange *x);
    int (*queue)(struct sw_exchange *x, struct sw_err *err);
    int (*end)(struct sw_exchange *x, uint64_t version, struct sw_err *err);
    int (*finish)(struct sw_exchange *x, uint64_t version, int behind, struct sw_err *err);
    int (*wait_own)(struct sw_exchange *x, uint64_t version, struct sw_err *err);
};
extern const struct sw_update_controller sw_control_whole, sw_control_each, sw_control_host,
    sw_control_device;

struct sw_device_control;

struct sw_exchange {
    struct sw_exchange_args args;
    struct sw_port *ports;        /* owned [count], lowest layer first */
    int count;                    /* unique parameters; args.params may repeat one */
    struct sw_update_list *lists; /* owned [list_count]: the parameters that are updated together */
    int list_count;
    int *port_at; /* owned [count]: the port of each place */
    int *port_of; /* owned [parameters of the table]; -1: not a parameter of this worker */
    void *state[SW_MOST_ROUTES]; /* owned by the routes, or NULL */
    const struct sw_update_controller *control;
    struct sw_device_control *control_state; /* owned by control_device.c */
    struct sw_copy_queue *queue;             /* owned; NULL: the table's memory is the worker's */
    void *memory;                            /* owned device memory of the ports */
    size_t bytes;
    struct sw_device_report report;
    bool keeps_values;        /* a device updates, this worker's or another one */
    struct sw_event *updated; /* owned; with whole_steps: after the updates of a step */
    int64_t last_step;        /* whose updates are queued; SW_NEVER */
    bool torn;                /* some updates of a step are queued, others are not */
    int64_t start;            /* the version before the first all-reduce round; SW_NEVER */
    int64_t lag;
    int64_t first_row, rows; /* the worker's rows of the batch */
};

static inline const struct sw_table *sw_port_table(const struct sw_port *p)
{
    return p->x->args.table;
}
/* Port i of the list. */
static inline struct sw_port *sw_exchange_listed(const struct sw_exchange *x,
                                                 const struct sw_update_list *list, int i)
{
    return &x->ports[x->port_at[list->first + i]];
}
static inline struct sw_port *sw_exchange_port(const struct sw_exchange *x, int param)
{
    return &x->ports[x->port_of[param]];
}
/* The all-reduce round (1, 2, ...) of gradient `version`. */
static inline uint64_t sw_exchange_round(const struct sw_exchange *x, uint64_t version)
{
    return version - (uint64_t)x->start;
}

/* exchange.c: waits for the parameter of a port, then pulls it. */
int sw_exchange_pull_port(struct sw_exchange *x, struct sw_port *p, uint64_t version,
                          struct sw_err *err) SW_MUST_CHECK;
/* Waits until the table has a version of one update group, or of SW_TABLE_ALL. */
int sw_exchange_wait_table(struct sw_exchange *x, int group, int param, uint64_t version,
                           struct sw_err *err) SW_MUST_CHECK;
int sw_exchange_wait_params(struct sw_exchange *x, int group, uint64_t version,
                            struct sw_err *err) SW_MUST_CHECK;

/* Pulls all sums of gradients; with whole_steps it also waits for them, and verifies them. */
int sw_exchange_gather(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* The caller queues the updates of a step between these two. */
void sw_exchange_begin_updates(struct sw_exchange *x);
int sw_exchange_end_updates(struct sw_exchange *x, uint64_t version,
                            struct sw_err *err) SW_MUST_CHECK;

/* port.c: does any parameter of the table take a route that updates on a device? */
bool sw_exchange_updates(const struct sw_exchange_args *args);
/* Makes all ports and allocates their memory. The table is frozen. */
int sw_ports_make(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
void sw_ports_free(struct sw_exchange *x);
/* Partial sum k of the worker's gradient on its device; NULL: none. */
float *sw_port_partial(const struct sw_port *p, int k);

/* device_report.c */
size_t sw_device_report_bytes(int ports, bool updates, bool controls);
int sw_device_report_make(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
void sw_device_report_free(struct sw_exchange *x);
/* The host's place of what is at on_device: the source of an upload, or the target of the report.
 * behind: 0 for the newest step, 1 for the one before it. */
void *sw_device_report_on_host(const struct sw_device_report *r, const void *on_device, int behind);

/* device_update.c */
/* Uploads the constants of the updates that will be queued in step `version`. */
int sw_device_update_begin(struct sw_exchange *x, uint64_t version,
                           struct sw_err *err) SW_MUST_CHECK;
/* Copies the first value and updater state of a port to the device, once. */
int sw_device_update_load(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Fills *out with the constants of the port's update (sw_table_update_numbers). */
void sw_device_update_number(struct sw_port *p, uint64_t version, uint64_t before,
                             struct sw_update_numbers *out);
/* Queues the update whose constants were uploaded; runs nothing on the host. */
int sw_device_update_queue(struct sw_exchange *x, const struct sw_update_list *list,
                           struct sw_err *err) SW_MUST_CHECK;
/* Queues the update of a given version of the port and all others of its list, after uploading the
 * constants if necessary. */
int sw_device_update(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;

/* control_device.c */
struct sw_exchange_bytes sw_device_control_bytes(const struct sw_exchange_args *args);
/* Where the sums of squares of the port's gradient begin; 0 without update control. */
int64_t sw_device_control_first_square(const struct sw_port *p);

/* copies.c: shared by the routes whose gradients the servers reduce. */
int sw_copies_of_port(const struct sw_route_query *q);
int sw_partials_of_port(const struct sw_route_query *q);
int sw_wait_for_table(const struct sw_port *p, uint64_t version, int timeout_ms);
/* Copies the partial sums to the host and notifies the servers when they have arrived. */
int sw_push_partials(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Starts the copy of the parameter at `version`, and of all other parameters that the table already
 * has at that version; the compute stream waits for this one. */
int sw_fetch(struct sw_port *p, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* With `copy = sync`: waits for the copies that were started. */
int sw_copies_settle(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
