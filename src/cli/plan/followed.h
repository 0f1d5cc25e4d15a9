/* Reads back the JSON of a plan that a run follows (recipes/planning.md), as the table `plans` has
 * it. */
#pragma once

#include "base/json.h"
#include "history/reader.h"
#include "planner/parallel_plan.h"
#include "run/plan_watch.h"

/* The plan that a run follows; NULL: none, or it cannot be read. Freed by the caller. */
struct sw_json *sw_plan_followed_read(const char *db, const struct sw_run *run);

/* The lines of `overrides` (NULL: none) that are not settings of the plan, for the caller to free;
 * NULL: out of memory. */
char *sw_plan_followed_without(const struct sw_json *plan, const char *overrides);

/* The prediction. A plan that lacks a part has 0 there. */
struct sw_plan_times sw_plan_followed_times(const struct sw_json *plan);
/* The plan for a net; the threads of its shape are those of each worker, also if these are all
 * cores that it has. Errors: SW_ERR_FORMAT (it is not one of this net), SW_ERR_NOMEM. Free with
 * sw_parallel_plan_fini in every case. */
int sw_plan_followed_parse(const struct sw_json *plan, const struct sw_net_model *net,
                           struct sw_parallel_plan *out, struct sw_err *err) SW_MUST_CHECK;

/* Writes a value that was read. */
void sw_plan_followed_copy(struct sw_json_writer *w, const char *key, const struct sw_json *v);
