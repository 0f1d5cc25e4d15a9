/* Who waits for whom. */
#pragma once

#include "history/snapshot.h"

struct sw_job;

/* On whom a unit waits that cannot go on before that one does; -1: on nobody, or there is nobody to
 * blame. slots: those of all units. why (may be NULL) is what that one has not done. */
int sw_waits_on(const struct sw_job *job, const struct sw_slot_state *slots, int unit, char *why,
                size_t bytes);
/* "backward of conv2, step 7, on sim:0". */
void sw_waits_place(const struct sw_job *job, const struct sw_slot_state *slots, int unit,
                    char *out, size_t bytes);
