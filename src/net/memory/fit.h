/* Chooses which activations are recomputed or offloaded, so that a step's arena fits a budget.
 * Private to net/. */
#pragma once

#include "net/memory/memory.h"

/* Sets s->residency without rebuilding the order; order and separate_scratch as for
 * sw_net_memory_plan, budget, rates and fit as for sw_net_fit. Errors: SW_ERR_NOMEM. */
int sw_net_find_residency(struct sw_exec_order *s, const struct sw_branch_order *order,
                          bool separate_scratch, size_t budget_bytes,
                          const struct sw_device_throughput *throughput, struct sw_net_fit *fit,
                          struct sw_err *err) SW_MUST_CHECK;
