/* What a step or an evaluation has to say: losses and metrics (series.h), the history's rows
 * (record.c), and the files of output layers (outputs.c). Called by the workers' threads. */
#ifndef SW_TRAIN_RESULTS_H
#define SW_TRAIN_RESULTS_H

#include "train/job_private.h"

/* record.c */
/* After step w->step, which began at began_ns and ended at w->timer.lap_ns. */
void sw_record_step(struct sw_worker *w, int64_t began_ns);
/* What its server group sent to others since the last time; by its first worker. */
void sw_record_sync(struct sw_worker *w);
/* Norms of gradients that are known by now; by the first worker of those who make updates together.
 */
void sw_record_norms(struct sw_worker *w);
void sw_record_layers(struct sw_worker *w);     /* mean times since the last call */
void sw_record_evaluation(struct sw_worker *w); /* by the leader */
/* Fills what all events share. */
void sw_record_event(const struct sw_worker *w, int split, struct sw_job_event *e);

/* outputs.c. plan after the evaluation nets are built, allocate before workers run; then every
 * worker calls, in an evaluation: begin; per batch collect after each layer's forward and hand_over
 * when the batch is computed; end, with what became of the evaluation. */
int sw_outputs_plan(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_allocate(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_outputs_fini(struct sw_job *job);
int sw_outputs_begin(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_collect(struct sw_worker *w, int layer, int64_t batch,
                       struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_hand_over(struct sw_worker *w, int64_t batch, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_end(struct sw_worker *w, int rc, struct sw_err *err) SW_MUST_CHECK;

#endif
