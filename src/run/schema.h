/* The schema of the recipe language: every kind of section, with the registries of the rooms that
 * define them. */
#pragma once

#include "recipe/schema.h"

/* The schema of a job. Constant; any thread. */
const struct sw_schema *sw_train_schema(void);
/* The part for a net without a job: layers and updaters. Constant; any thread. */
const struct sw_schema *sw_net_schema(void);
