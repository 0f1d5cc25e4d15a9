/* The whole recipe language: every kind of section with the registries of the floors below. */
#pragma once

#include "recipe/schema.h"

/* Const; any thread. */
const struct sw_schema *sw_train_schema(void);
/* What a net without a job around it is written in: layers and updaters. */
const struct sw_schema *sw_net_schema(void);
