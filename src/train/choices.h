/* How gradients and values are exchanged, as it is chosen before a job runs: whether they are
 * copied (copy_mode.c), who adds gradients up (reduce.c), and what a worker hands on of them
 * (comm.c).
 *
 * Called by who opens the job, in the order of job.c, but for what says otherwise. */
#pragma once

#include "base/json.h"
#include "exchange/sums.h"
#include "net/net.h"
#include "plan/conf.h"
#include "train/comm.h"

struct sw_job_comm;
struct sw_worker;

/* Does something look at all gradients before any update is made? */
bool sw_job_decides_about_all(const struct sw_job *job);
/* job->exchange.copy, once the units are placed; and what becomes of it when sw_reduce_choose has
 * said who adds up. */
void sw_job_choose_copy(struct sw_job *job, const struct sw_cluster_conf *c);
void sw_job_settle_copy(struct sw_job *job);
/* Why servers add up what several workers give, whatever the devices can do; NULL: nothing says so.
 */
const char *sw_reduce_why_servers(const struct sw_job *job);
/* Once the devices are open: finds which ways between them are sound (look: as far as that is
 * known), lets those reach each other that do so soundly, and says who adds up gradients. Errors:
 * SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND (a library that was asked for is not there, or not sound). */
int sw_reduce_choose(struct sw_job *job, bool look, struct sw_err *err) SW_MUST_CHECK;
/* Do devices add up gradients by themselves? */
bool sw_job_reduces(const struct sw_job *job);
/* Cuts the buckets, once the table is frozen; their memory on every device; and takes it. */
int sw_reduce_plan(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
size_t sw_reduce_bytes(const struct sw_job *job);
int sw_reduce_make(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* After it has failed: does a thread hang in the library? Then nothing it uses can be freed. */
bool sw_reduce_hangs(const struct sw_sums *d);
/* By the watch thread, now and then: what went wrong with sums under way becomes the fault. */
void sw_reduce_look(struct sw_job *job);
/* Before the workers go, while nothing runs any more. */
void sw_reduce_fini(struct sw_job *job);
/* What nets are told; and refuses what [cluster] cannot have. Once units are placed. */
int sw_comm_prepare(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_comm_args(struct sw_job *job, struct sw_net_comm *out);
/* Once all nets are made: could all choices be made? Errors: SW_ERR_NOMEM. */
int sw_comm_verdict(const struct sw_comm_plan *p, struct sw_err *err) SW_MUST_CHECK;
/* Adds the factors of layer i to the worker's table, if it has any: *number is for the specs of its
 * parameters, 0 for none. */
int sw_comm_add(const struct sw_worker *w, int i, int *number, struct sw_err *err) SW_MUST_CHECK;
/* Tells those who exchange factors which rows are whose, after they were cut anew. */
void sw_comm_set_rows(struct sw_job *job);
/* The most rows of a batch that the worker may come to have. */
int64_t sw_comm_most_rows(const struct sw_worker *w);
/* Memory of factors on a worker's device; takes it, before the workers' own; and gives it back. */
size_t sw_comm_bytes(const struct sw_job *job);
int sw_comm_make(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_comm_fini(struct sw_job *job);
/* Layer i of the training nets, for `check`; and whether the recipe says anything of it. */
void sw_comm_describe(const struct sw_job *job, int i, struct sw_job_comm *out);
bool sw_comm_is_asked(const struct sw_job *job);
/* Of the choices for a checkpoint (kept_choices.h): the array "exchange". */
void sw_comm_write(const struct sw_job *job, struct sw_json_writer *w);
