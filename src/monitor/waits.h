/* The wait-for graph of a running job, derived only from the slots of the live snapshot.
 *
 * A slot shows what its owner does. A thread that waits for another one records the wait there
 * (sw_slot_wait_on, history/snapshot.h); a new kind of wait needs a case in waits.c. A new role
 * also sets its thread id (sw_slot_set_thread). Work that may sleep for seconds must send
 * heartbeats (sw_slot_heartbeat), or the watchdog reports a stall; a role that computes on the CPU
 * needs none. */
#pragma once

#include "history/snapshot.h"

struct sw_server;
struct sw_topology;
struct sw_worker;

/* The workers and servers of a job, all borrowed. */
struct sw_roles {
    const struct sw_topology *topology;
    const struct sw_worker *workers;
    const struct sw_server *servers;
};

/* The role that blocks `role`; -1: none. slots: those of all roles. why (may be NULL) gets what the
 * blocking role has not done yet. */
int sw_waits_on(const struct sw_roles *roles, const struct sw_slot_state *slots, int role,
                char *why, size_t bytes);
/* Describes the current work of a role, as in "backward of conv2, step 7, on sim:0". */
void sw_waits_place(const struct sw_roles *roles, const struct sw_slot_state *slots, int role,
                    char *out, size_t bytes);
