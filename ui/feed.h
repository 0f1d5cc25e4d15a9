/* Fills the dashboard's model: from the live snapshot (a mapped file that the trainer writes
 * anyway), from the history (a read-only connection) and from the machine. Only what is new is
 * read, so a refresh of a run of any length costs the same. Nothing here can make the trainer wait;
 * its life and death are seen from outside. One owner. */
#pragma once

#include "history/reader.h"
#include "ui/model.h"

struct sw_feed;

/* db_path is copied. Opens nothing yet. Errors: SW_ERR_NOMEM. */
int sw_feed_new(struct sw_feed **out, const char *db_path, struct sw_err *err) SW_MUST_CHECK;
void sw_feed_free(struct sw_feed *f); /* NULL is accepted */

/* Turns to a run: what sw_history_find takes, or NULL for the newest that is running, else the
 * newest. The model is emptied. Errors: those of sw_history_reader_open and sw_history_find. */
int sw_feed_choose(struct sw_feed *f, const char *run, struct sw_ui_model *m,
                   struct sw_err *err) SW_MUST_CHECK;

enum sw_feed_what {
    SW_FEED_ROWS = 1,    /* the list of runs, too */
    SW_FEED_MACHINE = 2, /* the machine, too */
    SW_FEED_ALL = 3,
};
/* Brings the model up to date; call it a few times a second. Errors leave it as it is: what cannot
 * be read now is old then, and says so. */
void sw_feed_refresh(struct sw_feed *f, struct sw_ui_model *m, unsigned what);

/* Lays the curves of another run over those of the model; run 0 removes them. */
int sw_feed_overlay(struct sw_feed *f, int64_t run, struct sw_ui_model *m,
                    struct sw_err *err) SW_MUST_CHECK;

/* Sends a line to the run's control socket; answer (at least SW_CONTROL_LINE bytes) gets "ok: ..."
 * or "error: ...". Errors: SW_ERR_NOTFOUND (the run is not live here), those of sw_control_ask. */
int sw_feed_ask(struct sw_feed *f, const char *line, char *answer, size_t bytes,
                struct sw_err *err) SW_MUST_CHECK;

/* Where a trainer with a dashboard of its own leaves what it and its libraries print. */
#define SW_UI_OUTPUT "output.log"
