/* Small sums through host 0, which go on with those hosts that survive. Every living host sends
 * host 0 its values; host 0 adds those that are complete, in the order of hosts, and sends the
 * result to all. A host that is lost meanwhile is left out by host 0's decision, the same for all.
 * Where all hosts must survive, sums of hosts_sum.h take one hop less.
 *
 * Thread rule: new, start and free by one thread; sums of a channel by one thread at a time; close
 * by any thread. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "exchange/hosts/hosts_sum.h"
#include "exchange/hosts/kinds.h"

struct sw_hosts_lead;

struct sw_hosts_lead_args {
    int hosts, own;
    int small_most; /* values of a sum, at most */
};

/* Errors: SW_ERR_NOMEM, SW_ERR_INVALID. */
int sw_hosts_lead_new(const struct sw_hosts_lead_args *args, struct sw_hosts_lead **out,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_hosts_lead_free(struct sw_hosts_lead *s); /* after the fabric is freed; accepts NULL */
/* For sw_fabric_args and the router. */
int sw_hosts_lead_room(const struct sw_hosts_lead *s);
struct sw_fabric_sink sw_hosts_lead_sink(struct sw_hosts_lead *s);
void sw_hosts_lead_start(struct sw_hosts_lead *s, struct sw_fabric *f);

/* values [count] become the sums over all hosts whose values host 0 has got; waits. All living
 * hosts call it equally often for a channel, with the same counts. Errors: SW_ERR_LOST (host 0),
 * SW_ERR_CANCELLED (closed, or one leaves), SW_ERR_INVALID (more than small_most values; on host 0:
 * different counts, which are named). */
int sw_hosts_lead_sum(struct sw_hosts_lead *s, enum sw_hosts_channel channel, double *values,
                      int count, struct sw_err *err) SW_MUST_CHECK;
/* Bits of the hosts that are in the last sum of the channel, the same on all. By its thread. */
uint64_t sw_hosts_lead_counted(const struct sw_hosts_lead *s, enum sw_hosts_channel channel);
/* Ends every wait; for sw_fault_attach. */
void sw_hosts_lead_close_v(void *lead);
