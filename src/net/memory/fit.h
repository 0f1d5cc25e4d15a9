/* Lives of features with which a step's arena meets a budget. Private to net/. */
#ifndef SW_NET_MEMORY_FIT_H
#define SW_NET_MEMORY_FIT_H

#include "net/memory/memory.h"

/* Searches lives for the schedule, which is not made anew here; order and scratch_apart as for
 * sw_net_memory_plan, budget, rates and fit as for sw_net_fit. Errors: SW_ERR_NOMEM. */
int sw_net_find_lives(struct sw_net_schedule *s, const struct sw_branch_order *order,
                      bool scratch_apart, size_t budget_bytes, const struct sw_net_rates *rates,
                      struct sw_net_fit *fit, struct sw_err *err) SW_MUST_CHECK;

#endif
