/* Summaries of the rows of a run: per series the number, minimum, maximum and sum of its points;
 * per worker its time breakdown; per link its traffic. They cover all steps up to runs.summed_to; a
 * query adds the rows after that step (the views do), so gc may downsample the rows before it. The
 * writer updates the summaries from time to time; a row that arrives for a covered step invalidates
 * them. All functions run inside the caller's transaction. Internal to this folder.
 *
 * Queries for a minimum, a mean or a total use the views series_stats, where_time_went and traffic,
 * which add both. Summaries lag SUMMARY_LAG steps (store.c) behind the newest row while a run is
 * live, and cover all rows when it has finished. */
#pragma once

#include "base/err.h"
#include <sqlite3.h>
#include <stdint.h>

/* Adds the rows after summed_to up to upto_step; does nothing if upto_step <= summed_to. */
int sw_summary_add(sqlite3 *db, const char *path, int64_t run_id, int64_t upto_step,
                   struct sw_err *err) SW_MUST_CHECK;
/* Adds all remaining rows. */
int sw_summary_add_all(sqlite3 *db, const char *path, int64_t run_id,
                       struct sw_err *err) SW_MUST_CHECK;
/* Deletes the summaries. */
int sw_summary_drop(sqlite3 *db, const char *path, int64_t run_id,
                    struct sw_err *err) SW_MUST_CHECK;
