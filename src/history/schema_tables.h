/* The SQL of the schema, apart from the mechanism that applies it (schema.c). Internal to this
 * folder. */
#pragma once

#include "history/schema.h"

/* Text i takes the tables of a file from version i to i + 1. A new version is a new text, never a
 * change of one. */
extern const char *const sw_schema_tables[SW_SCHEMA_VERSION];
/* Views hold nothing, so those of an older file are dropped and these made. */
extern const char sw_schema_views[];
