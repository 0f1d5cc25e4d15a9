/* Update groups of several hosts with servers on host 0 only (Downpour, SSP): the update groups of
 * all other hosts are remote groups of host 0's table (sw_table_args.remote_groups), and those
 * hosts have tables whose updates are made outside (sw_table_args.updates_outside). Connects both
 * ends with a fabric: host 0 gets the gradient of every slice, and answers with its new values when
 * the staleness bound allows it. Of a slice there is never more than one message of an update group
 * under way.
 *
 * All hosts have the same number of update groups; group k of host h is group h * groups + k of
 * host 0's table, and k of its own.
 *
 * A host that is lost takes its update groups out of host 0's table, and the others go on. An
 * update of a parameter whose gradient had not arrived completely is not applied. The loss of host
 * 0 is a fault of all others. Nothing here waits, so nothing need be closed.
 *
 * Thread rule: made by one thread before workers and servers run; used by the table's servers and
 * by threads of the fabric. */
#pragma once

#include "exchange/hosts/router.h"
#include "exchange/table/table.h"
#include "thread/fault.h"

/* SW_HOSTS_GRADIENT goes to host 0, its version is that of the update; SW_HOSTS_VALUES comes from
 * there, its version is the fewest updates of any group in them. Their item is slice + slices *
 * group, with the group's number in host 0's table, and their urgency the parameter. */
struct sw_table_remotes_args {
    struct sw_table *table;       /* borrowed */
    const struct sw_hosts *hosts; /* borrowed during the call */
    int groups;                   /* update groups of each host */
    bool by_change; /* what waits for a limit of the network goes by relative change (Poseidon's
                       bandwidth manager), among slices of one parameter */
    struct sw_fault *fault; /* borrowed: set when host 0 is lost */
    /* Another host is lost; on host 0 its update groups are out of the table already. Called by a
     * thread of the fabric or a server; must not wait. May be NULL. */
    void (*lost)(void *user, int host, const struct sw_err *why);
    void *user;
};

struct sw_remote_param;
struct sw_remote_slice;

struct sw_table_remotes {
    struct sw_table_remotes_args args;
    int own, hosts;           /* the number of this host, and of all */
    int first, count;         /* the remote groups that messages are about: all, or the own ones;
                                 numbers of host 0's table */
    struct sw_fabric *fabric; /* borrowed */
    struct sw_remote_param *params; /* owned [count][parameters]: their updates under way */
    struct sw_remote_slice *slices; /* owned [count][slices]: what was given, what has arrived */
};

/* How much a gradient changes these values: the sum of its magnitudes over that of theirs, as
 * RelativeMagnitude of Poseidon. The learning rate, which all slices of a parameter share, is left
 * out. 0 if it is not finite. Pure. */
float sw_relative_change(const float *gradient, const float *value, int64_t count);

/* For sw_table_args of this host, before the rest is known. */
struct sw_table_outer sw_table_remotes_outer(struct sw_table_remotes *s,
                                             const struct sw_hosts *hosts);
/* The table is allocated, and all update groups are at their first version before the fabric is
 * opened; all hosts have the same slices. The caller opens a fabric with the sink of
 * sw_table_remotes_receive and room for sw_table_remotes_room messages, and passes it to
 * sw_table_remotes_start before servers run. Errors: SW_ERR_NOMEM, SW_ERR_INVALID (the table has
 * other update groups, or too many slices). */
int sw_table_remotes_init(struct sw_table_remotes *s, const struct sw_table_remotes_args *args,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_table_remotes_receive(struct sw_table_remotes *s, struct sw_fabric_router *router);
int sw_table_remotes_room(const struct sw_table_remotes *s);
void sw_table_remotes_start(struct sw_table_remotes *s, struct sw_fabric *f);
void sw_table_remotes_fini(struct sw_table_remotes *s); /* after the fabric is freed */
