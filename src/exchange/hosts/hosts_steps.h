/* Hosts that are not at the same step, but do some things together: asynchronous jobs.
 *
 * Requests (to stop, to pause, for a checkpoint) are carried out by all hosts after the same step.
 * Each host asks with sw_hosts_steps_decide after every step, which usually answers at once. When
 * there is a request, host 0 holds the others before their next step, learns how far each has come,
 * chooses the first step that none has passed, and tells it to all.
 *
 * A host that is lost is not waited for; the loss of host 0 ends every wait.
 *
 * Thread rule: made and freed by one thread; decide by one thread at a time, all else by any. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "exchange/hosts/kinds.h"

enum { SW_HOSTS_STEPS_ROOM = 16 }; /* messages to one host that can be under way */

struct sw_hosts_steps;

struct sw_hosts_steps_args {
    int hosts, own;
    int64_t first; /* the step at which all hosts begin */
    /* Another host calls sw_hosts_steps_wake. By a thread of the fabric; never waits. NULL:
     * ignored.
     */
    void (*woken)(void *user, int64_t step);
    void *user;
};

/* Errors: SW_ERR_NOMEM. */
int sw_hosts_steps_new(const struct sw_hosts_steps_args *args, struct sw_hosts_steps **out,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_hosts_steps_free(
    struct sw_hosts_steps *s); /* after the fabric is freed; NULL is accepted */
struct sw_fabric_sink sw_hosts_steps_sink(struct sw_hosts_steps *s);
/* The fabric is open; borrowed. */
void sw_hosts_steps_start(struct sw_hosts_steps *s, struct sw_fabric *f);

/* Called after every step (ascending; a host may leave out steps). *bits: the requests that all
 * hosts carry out after this step, usually none; own: those of this host, until they are carried
 * out, after which all hosts meet before they decide again. Waits only while they agree on a step.
 * Errors: SW_ERR_LOST (host 0), SW_ERR_CANCELLED (closed). */
int sw_hosts_steps_decide(struct sw_hosts_steps *s, int64_t step, int own, int *bits,
                          struct sw_err *err) SW_MUST_CHECK;
/* Makes host 0 know requests of this host while its workers sleep and decide nothing. Once the
 * fabric is open. */
void sw_hosts_steps_ask(struct sw_hosts_steps *s, int own);
/* Host 0: tells the other hosts that something is done together after that step. */
void sw_hosts_steps_wake(struct sw_hosts_steps *s, int64_t step);
/* Ends every wait; for sw_fault_attach. */
void sw_hosts_steps_close_v(void *steps);
