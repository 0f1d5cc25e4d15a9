/* A route takes one parameter of one worker from a complete gradient to the next value. It is
 * chosen once, from the registry in route.c; from then on the exchange calls its functions and asks
 * nothing else. A new route is a file in routes/, a row in routes/routes.h, and rows of
 * tests/unit/exchange/test_routes.c, which take it through every case.
 *
 * What a route keeps for a worker is its state; what it keeps for one parameter is in the port. The
 * routes, in the order of the registry:
 *
 *     route                update runs on              what moves
 *     table                a server; under Hogwild     nothing: worker and table share host memory
 *                          the worker
 *     constant             nothing: it is frozen       the value, once, to the device
 *     factors              every device                factors between devices (sfb)
 *     local                the device, in the step     nothing
 *     all-reduce           every device                buckets between devices (reduce/allreduce.h)
 *     server-sum-factors   every device                factors to servers, their sum back
 *     server-sum           every device                gradients to servers, their sum back
 *     mirror-factors       a server                    factors to servers, values back
 *     mirror               a server                    gradients to servers, values back
 *
 * tests/unit/exchange/test_routes.c runs every route through one matrix of cases, without nets or
 * jobs. */
#pragma once

#include "exchange/exchange.h"
#include "exchange/update_op.h"

enum { SW_MOST_ROUTES = 16, SW_NEVER = -1 };

/* What the choice of a route depends on: a parameter of a worker, before anything is allocated. */
struct sw_route_query {
    const struct sw_table *table;
    int worker; /* its rank in the table */
    int param;
    enum sw_copy_mode copy;
    bool own_memory; /* the host cannot reach the memory of the worker's device */
};

struct sw_route;

/* A parameter at one worker. */
struct sw_port {
    struct sw_exchange *x;        /* borrowed */
    const struct sw_route *route; /* never NULL */
    void *state;                  /* borrowed: the route's state for this worker */
    int param;                    /* the table's index */
    int priority; /* position among the worker's parameters, lowest layer first: the priority of its
                     copies */
    int place;    /* position among the parameters in the order of their lists */
    struct sw_update_list *list; /* borrowed: the parameters that are updated together; one alone
                                    where the device does not update */
    int64_t first, first_chunk;  /* in the list */
    size_t bytes;
    struct sw_param_place at;  /* device memory; all NULL where host memory is used */
    int64_t version;           /* the newest version that is queued on the device; SW_NEVER */
    int64_t constants_version; /* the newest version whose update constants are queued, where the
                                  device updates */
    const struct sw_update_formula *formula;
    struct sw_event *arrived; /* owned: a copy to the device is done */
    struct sw_event *made; /* owned: the gradient is complete, and the value is not read any more */
    struct sw_event *sent; /* owned: the gradient is on the host */
    struct sw_port *lead;  /* the port whose copies carry the gradient: this one, or that of the
                              factors' weight */
    int64_t fetched;       /* the newest version whose copy to the device was started */
    uint64_t sending;      /* the version whose gradient is being copied to the host */
    int missing;           /* atomic: copies of it that are not done */
};

struct sw_route {
    const char *name;
    /* Does the parameter take this route? The first row of the registry that says so is taken. */
    bool (*takes)(const struct sw_route_query *q);
    /* Updater state is on the device, and the update is an operation of its compute stream. */
    bool updates_on_device;
    /* The gradients of a bucket, or without buckets those of all parameters of the route, are known
     * together: one operation updates these parameters. */
    bool updates_together;
    /* The host need not act before forward or after backward, so a captured graph may contain the
     * layer. Update `version` is made in step `version`, after its last backward pass; for other
     * routes that update on the device, the pull in the next step makes it. Excludes `wait`. */
    bool device_only;
    /* The wait ends when all workers have pushed; a message to a hosted server does not end it. */
    bool is_collective;
    /* Arrays in the port's device memory that gradients are written to; NULL: none. */
    int (*arrays)(const struct sw_route_query *q);
    /* Device memory of a worker in addition to its ports; NULL: none. */
    size_t (*bytes)(const struct sw_exchange_args *args);
    /* Copies of one parameter that may be in flight at a time; NULL: none. */
    int (*copies)(const struct sw_route_query *q);

    /* Creates a worker's state, before its first port; or NULL. */
    int (*attach)(struct sw_exchange *x, void **state, struct sw_err *err);
    void (*detach)(struct sw_exchange *x, void *state);
    /* Which bucket carries the gradient: gradients of one bucket move when the last of them is
     * pushed, and become readable together. NULL: each alone. */
    int (*bucket)(const struct sw_port *p);
    /* Where the gradient is, if not in the port's memory; or NULL. */
    float *(*gradient)(const struct sw_port *p);
    /* Where a net reads the value and writes partial gradients or factors; NULL: the port's memory.
     */
    void (*bind)(const struct sw_port *p, struct sw_exchange_binding *out);

    int (*push)(struct sw_port *p, uint64_t version, struct sw_err *err);
    /* Blocks until pull(version) may be called. Returns SW_OK; SW_ERR_BUSY on timeout (0: polls) or
     * when a server that this worker hosts has a message; SW_ERR_CANCELLED when the job ends;
     * nothing else. The route must register what ends this wait with sw_fault_attach. NULL: never
     * waits. */
    int (*wait)(const struct sw_port *p, uint64_t version, int timeout_ms);
    /* Called after wait: queues what makes that version readable on the compute stream; NULL:
     * nothing. With updates_on_device it delivers only the gradient sum into at.gradient, and the
     * exchange queues the update, unless the route has queued it and set the port's version. May be
     * called twice for one version. */
    int (*pull)(struct sw_port *p, uint64_t version, struct sw_err *err);
    /* Where the table does not count the updates of other update groups: blocks as `wait`, until
     * update `version` of every update group is complete. NULL: the table counts. */
    int (*wait_all)(const struct sw_port *p, uint64_t version, int timeout_ms);
    /* The next pull makes the updates of all update groups readable; see sw_exchange_refresh. NULL:
     * nothing. */
    void (*refresh)(struct sw_port *p);
    /* As sw_table_staleness, after the pull; NULL: that is it. */
    int64_t (*lag)(const struct sw_port *p);
    /* Fills in dst, src and `after` of the host-to-device copy that sw_fetch makes; NULL: no such
     * copy. sw_fetch may start it early, while another port is pulled. Set only if servers advance
     * the version: sw_exchange_sync_to_host relies on that. */
    void (*fetch)(const struct sw_port *p, struct sw_copy_event *e);
};

/* Never NULL. */
const struct sw_route *sw_route_choose(const struct sw_route_query *q);
/* Row i of the registry, to iterate; NULL after the last. */
const struct sw_route *sw_route_at(int i);
