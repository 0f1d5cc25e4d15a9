/* What the files of cli/plan/model.h share. */
#pragma once

#include "cli/plan/model.h"

/* Are the hosts not like this machine? */
bool sw_plan_is_foreign(const struct sw_plan_target *t);
/* Is it not this machine as it is? */
bool sw_plan_is_imagined(const struct sw_plan_target *t);

/* Makes the models of the machine, and narrows the search to what it allows. The job and the net of
 * the model are open. Errors: SW_ERR_INVALID (figures without effect, impossible wishes: with the
 * nearest plan), SW_ERR_NOTFOUND (nothing is stored), those of sw_machine_from, sw_machine_build
 * and sw_preflight_run. */
int sw_plan_open_machines(struct sw_plan_model *m, const char *device,
                          const struct sw_plan_target *t, struct sw_err *err) SW_MUST_CHECK;

/* Adds measured times to the net, for as many workers as will be considered. Errors: those of
 * sw_planning_measure and sw_planning_times_of_run. */
int sw_plan_add_times(struct sw_plan_model *m, const struct sw_plan_target *t,
                      struct sw_err *err) SW_MUST_CHECK;
