/* Changes to finished runs on behalf of users: tags, notes, removal, downsampling. Each call is one
 * transaction (downsampling: several) under the writers' lock, so it may be made while other runs
 * write: their rows wait, or are spooled and merged later. Rows of a run whose process lives belong
 * to that process; only its tags and notes may be changed. One owner per struct sw_history_edit. */
#pragma once

#include "history/reader.h"

struct sw_history_edit;

/* Opens an existing history for writing and migrates its schema. Errors: SW_ERR_NOTFOUND (no
 * file), SW_ERR_BUSY (locked for 5 s), SW_ERR_IO (read-only), SW_ERR_FORMAT, SW_ERR_UNSUPPORTED. */
int sw_history_edit_open(struct sw_history_edit **out, const char *path,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_history_edit_close(struct sw_history_edit *e); /* NULL is accepted */

/* Sets a tag; value NULL removes it. */
int sw_history_edit_tag(struct sw_history_edit *e, int64_t run_id, const char *key,
                        const char *value, struct sw_err *err) SW_MUST_CHECK;
/* Sets the note; NULL removes it. */
int sw_history_edit_note(struct sw_history_edit *e, int64_t run_id, const char *note,
                         struct sw_err *err) SW_MUST_CHECK;
/* Removes the run and all rows that belong to it; files stay. */
int sw_history_edit_rm(struct sw_history_edit *e, int64_t run_id, struct sw_err *err) SW_MUST_CHECK;

/* Numbers of rows that downsampling deletes. */
struct sw_history_thinned {
    int64_t points, step_times, traffic; /* rows */
};
/* Downsamples the rows that a run recorded at every step: the steps are divided into about `keep`
 * buckets; in each, a training curve retains its first, lowest and highest point, and step times
 * and traffic keep one step. Curves of evaluations, the last points and the summaries (summary.h)
 * are unchanged. dry: rows are counted, not deleted. Adds to *sum. */
int sw_history_edit_thin(struct sw_history_edit *e, int64_t run_id, int64_t keep, bool dry,
                         struct sw_history_thinned *sum, struct sw_err *err) SW_MUST_CHECK;
/* Returns the space of deleted rows to the file system. Needs free disk space of the size of the
 * file while it runs. */
int sw_history_edit_vacuum(struct sw_history_edit *e, struct sw_err *err) SW_MUST_CHECK;
