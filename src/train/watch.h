/* Who sees that a job stays in motion: the watch thread (watch.c; watchdog.h judges), who waits for
 * whom (waits.c), and requests from outside (requests.c). */
#ifndef SW_TRAIN_WATCH_H
#define SW_TRAIN_WATCH_H

#include "train/job_private.h"

/* watch.c */
/* Starts the thread; the snapshot is there. sw_watch_end is due afterwards in any case. */
int sw_watch_start(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_watch_end(struct sw_job *job); /* after all other roles; none started is fine */

/* waits.c */
/* On whom a unit waits that cannot go on before that one does; -1: on nobody, or there is nobody to
 * blame. slots: those of all units. why (may be NULL) is what that one has not done. */
int sw_waits_on(const struct sw_job *job, const struct sw_slot_state *slots, int unit, char *why,
                size_t bytes);
/* "backward of conv2, step 7, on sim:0". */
void sw_waits_place(const struct sw_job *job, const struct sw_slot_state *slots, int unit,
                    char *out, size_t bytes);

/* requests.c */
/* Answers a line of the control socket (history/control.h). */
void sw_request_answer(void *job, const char *line, char *answer, size_t bytes);

#endif
