/* Fills the dashboard's model from the live snapshot (a mapped file that the trainer writes
 * anyway), from the history (a read-only connection) and from the machine. Only new data is read,
 * so the cost of a refresh does not depend on the length of a run. Nothing here can block the
 * trainer; whether the trainer lives is derived from its process. One owner. */
#pragma once

#include "history/reader.h"
#include "ui/model.h"

struct sw_feed;

/* Makes a feed that has nothing open yet. db_path is copied. Errors: SW_ERR_NOMEM. */
int sw_feed_new(struct sw_feed **out, const char *db_path, struct sw_err *err) SW_MUST_CHECK;
void sw_feed_free(struct sw_feed *f); /* NULL is accepted */

/* Selects a run: an argument of sw_history_find, or NULL for the newest running run, else the
 * newest. The model is cleared. Errors: those of sw_history_reader_open and sw_history_find. */
int sw_feed_choose(struct sw_feed *f, const char *run, struct sw_ui_model *m,
                   struct sw_err *err) SW_MUST_CHECK;

enum sw_feed_what {
    SW_FEED_ROWS = 1,    /* also read the list of runs */
    SW_FEED_MACHINE = 2, /* also sample the machine */
    SW_FEED_ALL = 3,
};
/* Updates the model; call it a few times a second. On an error the old data stays, and its age is
 * shown. */
void sw_feed_refresh(struct sw_feed *f, struct sw_ui_model *m, unsigned what);

/* Adds the curves of another run to the model for comparison; run 0 removes them. */
int sw_feed_overlay(struct sw_feed *f, int64_t run, struct sw_ui_model *m,
                    struct sw_err *err) SW_MUST_CHECK;

/* Sends a line to the run's control socket; answer (at least SW_CONTROL_LINE bytes) gets "ok: ..."
 * or "error: ...". Errors: SW_ERR_NOTFOUND (the run is not live here), those of sw_control_ask. */
int sw_feed_request(struct sw_feed *f, const char *line, char *answer, size_t bytes,
                    struct sw_err *err) SW_MUST_CHECK;

/* The file in the folder of a run that receives the output of a detached trainer and its libraries.
 */
#define SW_UI_OUTPUT "output.log"
