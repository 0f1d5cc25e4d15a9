/* Finding all errors of a recipe in one pass. */
#pragma once

#include "base/err.h"

struct sw_job;

/* Call after a phase of opening a job has failed because of the recipe or its data: checks the
 * parts that do not depend on what is wrong (data sections without errors that have not been
 * opened, then the shapes of the nets), and adds their errors to the recipe. */
void sw_job_find_errors(struct sw_job *job);
