/* The exchange of server groups (exchange/table/sync.h) as messages between hosts: host h has the
 * table of server group h. The slices of the lowest parameters are the most urgent. Neither the
 * table nor its workers know of hosts. Thread rule: made by one thread before the workers run; used
 * by the table's servers and by threads of the fabric; merges by one thread. */
#pragma once

#include "exchange/hosts/hosts_merge.h"
#include "exchange/hosts/router.h"
#include "exchange/table/sync.h"
#include "thread/thread.h"

struct sw_table_deltas {
    struct sw_sync *sync;         /* borrowed */
    struct sw_hosts_merge *merge; /* owned */
    int hosts, own;
    struct sw_mutex lock;
    struct sw_fabric *fabric; /* borrowed; set under the lock, before the first delta is sent */
    uint64_t early[SW_MOST_HOSTS]; /* guarded by the lock: losses to tell each host; until start */
};

/* For sw_sync_args, before the rest is known. */
struct sw_sync_outer sw_table_deltas_outer(struct sw_table_deltas *t);
/* The exchange is made, with the table of group `own` only, which has parameters. The caller opens
 * a fabric with the sink of sw_table_deltas_receive and room for sw_table_deltas_room messages,
 * passes it to sw_table_deltas_start, and attaches sw_table_deltas_close_v to the fault. A lost
 * host is a lost group, and not a fault. Errors: SW_ERR_NOMEM, SW_ERR_INVALID. */
int sw_table_deltas_init(struct sw_table_deltas *t, struct sw_sync *sync,
                         const struct sw_hosts *hosts, struct sw_err *err) SW_MUST_CHECK;
void sw_table_deltas_receive(struct sw_table_deltas *t, struct sw_fabric_router *router);
int sw_table_deltas_room(const struct sw_table_deltas *t);
void sw_table_deltas_start(struct sw_table_deltas *t, struct sw_fabric *f);
void sw_table_deltas_fini(struct sw_table_deltas *t); /* after the fabric is freed */
void sw_table_deltas_close_v(void *deltas);

/* The workers of this host have ended their step: is no delta in flight between any living hosts?
 * Never waits; servers must add what arrives until it is true. Any thread. False for ever where
 * host 0 is lost, or the fabric closed. */
bool sw_table_deltas_is_quiet(struct sw_table_deltas *t);
/* When sw_table_deltas_is_quiet has been true for all threads that call it, by one thread of each
 * living host: merges their tables. Afterwards these have the same bits, with all updates up to
 * that step, and no delta changes them before sw_table_deltas_resume. *hosts, errors: those of
 * sw_hosts_merge. */
int sw_table_deltas_merge(struct sw_table_deltas *t, uint64_t step, uint64_t *hosts,
                          struct sw_err *err) SW_MUST_CHECK;
/* The workers of this host begin, with their first values, or go on: from now on deltas are added,
 * at first those of hosts that did so before. */
void sw_table_deltas_resume(struct sw_table_deltas *t);
