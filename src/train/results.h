/* What a step or an evaluation has to say: losses and metrics (results.c), the history's rows
 * (record.c), and the files of output layers (outputs.c). Called by the workers' threads. */
#ifndef SW_TRAIN_RESULTS_H
#define SW_TRAIN_RESULTS_H

#include "train/job_private.h"

/* results.c */
/* Names for a net's results (loss, accuracy, accuracy.top5 ...) and room for the pairs of so many
 * nets. Errors: SW_ERR_INVALID with a message in the recipe (too many, or two of one name),
 * SW_ERR_NOMEM. */
int sw_series_init(struct sw_series *s, struct sw_recipe *recipe, const struct sw_net *net,
                   int parts, struct sw_err *err) SW_MUST_CHECK;
void sw_series_fini(struct sw_series *s); /* a zeroed one is accepted */
/* Losses and some metrics get better by getting smaller. */
bool sw_series_less_is_better(const struct sw_net *net, const struct sw_series *s, int i);
void sw_series_clear(struct sw_series *s); /* sums become zero */
/* The pairs of the part's last forward pass are added to its s->sums. */
void sw_results_add(const struct sw_net *net, struct sw_series *s, int part);
/* s->totals becomes the sum over the worker's own parts. */
void sw_results_sum_own(struct sw_series *s);
/* The weighted sum of all losses that these pairs say, NaN where they say nothing. */
double sw_results_loss(const struct sw_net *net, const struct sw_result *pairs);
/* The weighted sum of all losses over the worker's rows, once they are on the host; its series has
 * what metrics are made of. */
double sw_results_step_loss(struct sw_worker *w);
/* All values that these pairs say; *count of them. */
void sw_results_read(const struct sw_net *net, const struct sw_series *s,
                     const struct sw_result *pairs, struct sw_job_metric *out, int *count);

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
