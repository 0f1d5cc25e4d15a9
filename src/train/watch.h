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
/* What is asked of the job, and of the whole process; enum sw_job_request_kind bits. Any
 * thread. */
int sw_job_requests(const struct sw_job *job);
/* Answers a line of the control socket (history/control.h). */
void sw_request_answer(void *job, const char *line, char *answer, size_t bytes);
int sw_gate_init(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Before round n of the evaluation after step w->step: false when the job is to stop, and all
 * workers leave the evaluation here. */
bool sw_gate_begin_round(struct sw_worker *w, int64_t n);
void sw_gate_fini(struct sw_job *job);
/* One part of a pause after step t, by a worker whose updates are all applied; again until *over.
 * *checkpoint: the leader is to write one now. *stop: the run is to end here; the same answer for
 * all. Errors: SW_ERR_CANCELLED. */
int sw_gate_wait(struct sw_worker *w, bool *over, bool *checkpoint, bool *stop,
                 struct sw_err *err) SW_MUST_CHECK;

#endif
