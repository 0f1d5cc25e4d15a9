/* What a recipe decides about its parallel plan: the keys that are set. What is not set is to be
 * searched. One owner. */
#pragma once

#include "planner/search.h"
#include "recipe/recipe.h"
#include "run/planning.h"

/* `limits` borrows the arrays of `keys`. */
struct sw_plan_constraints {
    struct sw_search_limits limits;
    struct sw_planning_keys keys;
    int threads;      /* [cluster] threads_per_worker; 0: any number */
    bool no_overlap;  /* [cluster] overlap = no */
    int copy;         /* enum sw_copy_mode, [cluster] copy */
    double bandwidth; /* [cluster] bandwidth, bytes per second; 0: no limit */
};

/* Reads the counts, framework, consistency and comm of [cluster], [job] partition, and the keys of
 * layers. Free with sw_plan_constraints_fini in every case. Errors: SW_ERR_NOMEM. */
int sw_plan_constraints_read(const struct sw_recipe *recipe, const struct sw_net_model *net,
                             struct sw_plan_constraints *out, struct sw_err *err) SW_MUST_CHECK;
void sw_plan_constraints_fini(struct sw_plan_constraints *c); /* a zeroed one is accepted */
