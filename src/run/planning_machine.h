/* What a job knows of its machine, for the planner's models of machines. */
#pragma once

#include "planner/machine_build.h"

struct sw_job;

/* Fills in the map and devices of a job that sw_planning_open has opened, and its throughputs on
 * this machine, all borrowed from the job. If none are stored, measures and stores them, or, with
 * stored_only, returns false. `source` gets when: "measured 2026-11-28", of which *out borrows.
 * Main thread. */
bool sw_planning_machine(struct sw_job *job, bool stored_only, char source[64],
                         struct sw_machine_args *out);
