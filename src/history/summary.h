/* What a run's rows come to, kept beside them: per series how many points, their smallest, largest
 * and sum; per worker where its time went; per link what went over it. They cover all steps up to
 * runs.summed_to, so whoever wants a figure adds the rows behind that step (the views do), however
 * many there are before it, and gc may thin those. The writer brings them up to date now and then;
 * a row that comes for a step which they cover makes them void. All of it happens inside the
 * caller's transaction. Internal to this folder.
 *
 * Queries for a minimum, a mean or a total use the views series_stats, where_time_went and traffic,
 * which add both. Summaries stay SUMMARY_LAG steps (store.c) behind the newest row while a run is
 * live, and cover all of it when it has finished. */
#pragma once

#include "base/err.h"
#include <sqlite3.h>
#include <stdint.h>

/* Adds the rows after summed_to up to upto_step; nothing when that is not ahead. */
int sw_summary_add(sqlite3 *db, const char *path, int64_t run_id, int64_t upto_step,
                   struct sw_err *err) SW_MUST_CHECK;
/* Covers all rows that are there. */
int sw_summary_add_all(sqlite3 *db, const char *path, int64_t run_id,
                       struct sw_err *err) SW_MUST_CHECK;
/* Forgets what was summed. */
int sw_summary_drop(sqlite3 *db, const char *path, int64_t run_id,
                    struct sw_err *err) SW_MUST_CHECK;
