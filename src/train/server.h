/* Servers at work: a server applies the updates of its share of the parameters, in a thread of its
 * own or run by a worker between two layers. */
#pragma once

#include "exchange/table/table.h"
#include "history/snapshot.h"
#include "plan/topology.h"
#include "thread/thread.h"

struct sw_job;
struct sw_worker;

struct sw_server {
    struct sw_job *job;                  /* borrowed */
    struct sw_table *table;              /* borrowed: its server group */
    const struct sw_server_place *place; /* borrowed */
    int runner; /* atomic: the worker that runs it just now, counted from 1 */
    char unit[32];
    bool hosted; /* workers run it; else it has a thread of its own */
    struct sw_thread thread;
    struct sw_slot *slot;
};

/* Handles what is in the inboxes of the servers that a worker runs itself; never waits. */
int sw_server_poll(struct sw_worker *host, struct sw_err *err) SW_MUST_CHECK;
void sw_server_main(void *server);
/* Makes the job's servers, and decides which are threads and which are run by a worker. Errors:
 * SW_ERR_NOMEM. */
int sw_job_settle_servers(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* The servers of a table; as many as shape.servers_per_group. */
const struct sw_server *sw_job_servers(const struct sw_job *job, const struct sw_table *table);
