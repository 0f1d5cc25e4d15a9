/* The SQL of the schema; schema.c applies it. Internal to this folder. */
#pragma once

#include "history/schema.h"

/* Text i migrates the tables of a file from version i to i + 1. A new version adds a text; existing
 * texts are never changed. */
extern const char *const sw_schema_tables[SW_SCHEMA_VERSION];
/* The views of the newest version. Views hold no data, so those of an older file are dropped and
 * these are created. */
extern const char sw_schema_views[];
