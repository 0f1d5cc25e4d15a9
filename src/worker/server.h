/* The server role: a server applies the updates of its slices of the parameters, in a thread of its
 * own or run by a worker between two layers. Also the parameters of a job, which servers own. */
#pragma once

#include "exchange/table/table.h"
#include "history/snapshot.h"
#include "plan/topology.h"
#include "thread/thread.h"

struct sw_fault;
struct sw_job_place;
struct sw_sync;
struct sw_worker;
struct sw_worker_shared;

struct sw_server {
    struct sw_fault *fault;              /* borrowed: the job's */
    const struct sw_job_place *hardware; /* borrowed: what the job runs on */
    struct sw_table *table;              /* borrowed: its server group */
    const struct sw_server_place *place; /* borrowed */
    int runner; /* atomic: the worker that runs it now, counted from 1; 0: none */
    char role[32];
    bool hosted; /* workers run it; else it has a thread of its own */
    struct sw_thread thread;
    struct sw_slot *slot;
};

/* A complete copy of the parameters, and the workers and servers that change it. */
struct sw_server_group {
    const struct sw_job_place *hardware;       /* borrowed: what the job runs on */
    struct sw_table *table;                    /* owned */
    const struct sw_server_group_place *place; /* borrowed */
};

/* The parameters, one copy for each server group. */
struct sw_job_params {
    struct sw_server_group *copies; /* owned [server groups] */
    struct sw_table *table;         /* of the first copy: what is saved and evaluated */
    struct sw_sync *sync;           /* owned; NULL: there is only one copy */
};

/* Handles the messages in the inboxes of the servers that a worker runs itself; never waits. */
int sw_server_poll(struct sw_worker *host, struct sw_err *err) SW_MUST_CHECK;
void sw_server_main(void *server);
/* Initializes the job's servers, and decides which are threads and which are run by workers.
 * Errors: SW_ERR_NOMEM. */
int sw_servers_settle(const struct sw_worker_shared *job, const struct sw_topology *t,
                      struct sw_err *err) SW_MUST_CHECK;
/* The servers of the worker's table, [servers_per_group of the topology]. */
struct sw_server *sw_worker_servers(const struct sw_worker *w);
