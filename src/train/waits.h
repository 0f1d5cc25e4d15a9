/* Who waits for whom. */
#ifndef SW_TRAIN_WAITS_H
#define SW_TRAIN_WAITS_H

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

#endif
