/* Who waits for whom, found from the slots of the live snapshot alone.
 *
 * A slot says what its owner is about to do. So a thread that waits for another one names it there
 * (sw_slot_wait_on, history/snapshot.h); a new kind of wait needs a row in waits.c. A new role also
 * gives its thread's number (sw_slot_set_thread). Work that may sleep for seconds gives a heartbeat
 * (sw_slot_heartbeat), else the watchdog takes it for a stall; a role that computes on the CPU
 * needs none. */
#pragma once

#include "history/snapshot.h"

struct sw_server;
struct sw_topology;
struct sw_worker;

/* Who may wait for whom: the workers and servers of a job, all borrowed. */
struct sw_roles {
    const struct sw_topology *topology;
    const struct sw_worker *workers;
    const struct sw_server *servers;
};

/* On whom a unit waits that cannot go on before that one does; -1: on nobody, or there is nobody to
 * blame. slots: those of all units. why (may be NULL) is what that one has not done. */
int sw_waits_on(const struct sw_roles *roles, const struct sw_slot_state *slots, int unit,
                char *why, size_t bytes);
/* "backward of conv2, step 7, on sim:0". */
void sw_waits_place(const struct sw_roles *roles, const struct sw_slot_state *slots, int unit,
                    char *out, size_t bytes);
