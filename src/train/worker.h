/* Workers and servers at work: how a worker gets its part of the batch (microbatches.c,
 * rebalance.c), nets, memory (worker_setup.c), data (worker_data.c) and history (worker_links.c),
 * how it makes a step (worker.c, bp.c, cd.c, decision.c, sums.c, ledger.c) and an evaluation
 * (evaluate.c), what happens when a number is not finite (mishap.c) or good enough (stop_at.c), and
 * the servers' loop (server.c).
 *
 * Called by the worker's own thread but for what says otherwise. */
#ifndef SW_TRAIN_WORKER_H
#define SW_TRAIN_WORKER_H

#include "train/job_private.h"

/* worker_place.c */
/* Where it is: its row of the placement. */
const struct sw_placement_row *sw_worker_seat(const struct sw_worker *w);
/* Host memory of a worker that its device copies from and to, on the worker's NUMA nodes. `worker`
 * is a struct sw_worker; sw_worker_give_memory takes it back (NULL is accepted). Errors:
 * SW_ERR_NOMEM. */
int sw_worker_take_memory(void *worker, size_t bytes, const char *what, void **out,
                          struct sw_err *err) SW_MUST_CHECK;
/* By the worker's own thread, before anything else: its streams are used from here. */
int sw_worker_attach(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* sw_stream_wait, and meanwhile a device that hangs is found out. */
int sw_worker_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;

/* worker_setup.c */
/* Stream and training net; then, once the table knows the parameters, the evaluation net. */
int sw_worker_build(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_build_eval(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Between two steps, by the leader while the worker waits: nets, memory and batches for the rows
 * that it has now. After an error the worker cannot go on before another call succeeds. */
int sw_worker_rebuild(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The source's fields as a net of so many rows sees them; how many. */
int sw_worker_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out);
/* The stream for work on host memory, such as the parameter table. */
static inline struct sw_stream *sw_worker_host_stream(const struct sw_worker *w)
{
    return w->host_stream ? w->host_stream : w->stream;
}
int sw_worker_allocate(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_worker_fini(struct sw_worker *w);
void sw_worker_give_memory(void *worker, void *p, size_t bytes);

/* Does the worker speak for those with whom it makes updates? */
static inline bool sw_worker_leads(const struct sw_worker *w)
{
    return w->rank->global_rank % w->topology->update_group_size == 0;
}

/* worker_links.c: handles of curves and links, once the history is open. */
int sw_worker_open_history(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;

/* worker_data.c */
/* How many batches of the evaluation are its group's. */
int64_t sw_worker_eval_batches(const struct sw_worker *w);
int sw_worker_start_prefetch(struct sw_worker *w, int split, struct sw_err *err) SW_MUST_CHECK;
/* sw_prefetch_next, and meanwhile the live snapshot says so. */
int sw_worker_next_batch(struct sw_worker *w, int split, struct sw_batch *batch,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_worker_prefetch_args(const struct sw_worker *w, int split, struct sw_prefetch_args *args);

/* worker.c */
void sw_worker_main(void *worker);

/* server.c */
/* Handles what is in the inboxes of the servers that a worker runs itself; never waits. */
int sw_server_poll(struct sw_worker *host, struct sw_err *err) SW_MUST_CHECK;
void sw_server_main(void *server);
/* Makes the job's servers, and decides which are threads and which are run by a worker. Errors:
 * SW_ERR_NOMEM. */
int sw_job_settle_servers(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* The servers of a table; as many as shape.servers_per_group. */
const struct sw_server *sw_job_servers(const struct sw_job *job, const struct sw_table *table);

/* microbatches.c */
/* Does the recipe ask for layers that are split otherwise than by rows? */
bool sw_job_splits_layers(const struct sw_job *job);
/* What goes together with repeat_exact. Errors: SW_ERR_INVALID with messages in the recipe. */
int sw_microbatches_check(struct sw_job *job, const struct sw_section *cluster,
                          struct sw_err *err) SW_MUST_CHECK;
/* Cuts the batches into microbatches, as the checkpoint to go on from had them where that says so.
 */
int sw_microbatches_split(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* The rows of each, as in "48 16". */
void sw_microbatches_write(const struct sw_job *job, struct sw_buf *out);

/* rebalance.c */
/* Rows by speed: ms[i] is what rows[i] took. out: `total` rows over `count` workers, one at least
 * for each. Does it make enough of a difference? */
bool sw_rebalance_split(int64_t total, int count, const int64_t *rows, const double *ms,
                        int64_t *out);
/* By all workers, after an evaluation: gives them rows by their speed. */
int sw_rebalance(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;

/* sums.c */
/* Of a pass of training, over all who share the batch; of an evaluation, over the group. */
int sw_worker_sum(void *worker, double *values, int count, bool in_rows,
                  struct sw_err *err) SW_MUST_CHECK;
int sw_worker_sum_in_group(void *worker, double *values, int count, bool in_rows,
                           struct sw_err *err) SW_MUST_CHECK;
/* sw_group_meet of all workers, and meanwhile the live snapshot says that it waits for `what`. */
int sw_worker_meet(struct sw_worker *w, const char *what) SW_MUST_CHECK;
/* The same of those that made step w->step. */
int sw_worker_meet_active(struct sw_worker *w, const char *what) SW_MUST_CHECK;
/* sw_group_rest: w->step becomes that after which all come together. */
int sw_worker_rest(struct sw_worker *w) SW_MUST_CHECK;
/* The same in its own group. */
int sw_worker_meet_group(struct sw_worker *w, const char *what) SW_MUST_CHECK;
/* Until over(state), which another worker of the group makes true and tells. */
int sw_worker_wait_in_group(struct sw_worker *w, const char *what, bool (*over)(const void *state),
                            const void *state) SW_MUST_CHECK;
/* The same, until no worker is more than `most` steps behind this one. */
int sw_worker_keep_pace(struct sw_worker *w, int64_t most) SW_MUST_CHECK;

/* ledger.c */
/* Adds the time since the last lap to a part of the ledger and to *total_ms when that is not NULL.
 */
void sw_worker_lap(struct sw_worker *w, float *part_ms, double *total_ms);
/* sw_worker_wait; its time goes to what the device did meanwhile. */
int sw_ledger_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Fills what runs beside the worker, before the ledger is recorded; copied_ms: of values to the
 * device, of gradients from it. */
void sw_ledger_add_hidden(struct sw_worker *w, double copied_ms[2]);

/* layer_clock.c: of layers, by passes. */
/* Device memory, and as much of the host's, that a worker with a device of its own needs for it. */
size_t sw_layer_clock_bytes(const struct sw_worker *w);
int sw_layer_clock_new(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_layer_clock_free(struct sw_worker *w);
/* Tells the history why there are none, and what to do, where that is so. */
void sw_layer_clock_say(const struct sw_worker *w);
/* A step begins; a pass of a layer begins, which laps outside of it name, and ends, with a lap. */
void sw_layer_clock_step(struct sw_worker *w);
int sw_layer_clock_begin(struct sw_worker *w, int layer, bool backward,
                         struct sw_err *err) SW_MUST_CHECK;
int sw_layer_clock_end(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Asks the device for its times, behind the last pass; and takes them when it was waited for. */
int sw_layer_clock_ask(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_layer_clock_take(struct sw_worker *w);

/* worker_exchange.c */
/* The worker's end of the exchange, when its device and nets are there. Errors: SW_ERR_NOMEM, those
 * of the device. */
int sw_worker_make_exchange(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* What it takes. */
struct sw_exchange_bytes sw_worker_exchange_bytes(const struct sw_worker *w);
/* Parameters of the training or the evaluation net, as the table numbers them. */
struct sw_param_list sw_worker_params(const struct sw_worker *w, int split);
/* Tells the nets where values, gradients and factors of the worker's rows are. */
void sw_worker_bind_params(struct sw_worker *w);

/* step.c */
/* Update `t`: forward, backward with wait-free updates. */
int sw_train_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
                  struct sw_err *err) SW_MUST_CHECK;

/* cd.c: the Gibbs chains of step t, between its passes forward and backward; without machines
 * nothing. */
int sw_cd_chains(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;

/* evaluate.c */
/* One pass over the evaluation source with the values as they are. *left becomes true, and nothing
 * comes of it, when the job is to stop and all workers have left it; NULL: the pass is finished. */
int sw_evaluate_pass(struct sw_worker *w, bool *left, struct sw_err *err) SW_MUST_CHECK;

/* mishap.c */
int sw_mishap_before_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* After update w->step was handed over: what to do if it is not finite (job.on_nan). All workers
 * call it. Errors: SW_ERR_DIVERGED when nothing helps. */
int sw_mishap_after_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Has a group that is apart asked for a rollback since the last one? */
bool sw_mishap_wants_rollback(const struct sw_job *job);
/* Then this is the next one. By all workers when they have met behind the same step. */
int sw_mishap_roll_back(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;

/* stop_at.c */
/* Reads job.stop_at; after the nets are made. Errors go to the recipe's diags. */
int sw_stop_init(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Does a condition look at grad_norm? Before sw_stop_init, too. */
bool sw_stop_wants_norm(const struct sw_job *job);
/* By all workers, after each step: what conditions look at is known when it returns. */
int sw_stop_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Does a condition hold for what the split said last, at step t? tell: make it an event. */
bool sw_stop_reached(struct sw_job *job, int split, int64_t t, bool tell);
/* By all workers, after an evaluation; the same answer for all. */
int sw_stop_after_evaluation(struct sw_worker *w, bool *reached, struct sw_err *err) SW_MUST_CHECK;

#endif
