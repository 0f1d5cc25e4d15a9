/* Which features are recomputed or offloaded, so that a step's arena meets a budget. Private to
 * net/. */
#pragma once

#include "net/memory/memory.h"

/* Fills in the order's residency, without making it again; order and separate_scratch
 * as for sw_net_memory_plan, budget, rates and fit as for sw_net_fit. Errors: SW_ERR_NOMEM. */
int sw_net_find_residency(struct sw_exec_order *s, const struct sw_branch_order *order,
                          bool separate_scratch, size_t budget_bytes,
                          const struct sw_net_rates *rates, struct sw_net_fit *fit,
                          struct sw_err *err) SW_MUST_CHECK;
