/* What feed.c (the run, its snapshot, its output, the machine) and feed_rows.c (the history) share.
 * Internal to the feed. */
#pragma once

#include "history/reader_rows.h"
#include "ui/feed.h"
#include "ui/sampler.h"

enum { SW_FEED_STEP_ROWS = 2048 }; /* rows of step_time that are read at once */

struct sw_feed {
    char *db_path;                       /* owned */
    struct sw_history_reader *reader;    /* owned; NULL: no history could be opened */
    struct sw_snapshot_reader *snapshot; /* owned; NULL: not live */
    struct sw_sampler *sampler;          /* owned */
    char *live_path;                     /* owned; path of the snapshot */
    bool reported_problem;               /* a damaged snapshot was reported */
    bool reported_end;                   /* the end of a run that can be resumed was reported */
    int64_t run_id;
    int64_t slow_ns, list_ns, new_ns; /* times of the last slow refresh, of the last list refresh,
                                         and of the last new row */
    int64_t last_checkpoint;          /* step */
    int64_t last_event;               /* row */
    int64_t segments;
    uint64_t plan_hash; /* of the JSON of the plan that the model has; 0: none */
    int64_t tail_at;    /* number of bytes of the output that were read */
    char part[256];     /* its incomplete last line */
    struct sw_step_time rows[SW_FEED_STEP_ROWS];
    int row_count;
};

/* Copies a text, truncated to its buffer; NULL gives "". */
void sw_feed_copy(char *to, size_t bytes, const char *from);

/* On an error these functions leave the model as it is. Reads the curves and events that are newer
 * than the last ones read. */
void sw_feed_read_new(struct sw_feed *f, struct sw_ui_model *m);
/* Reads segments, times, layers, links, placements, checkpoints and devices. */
void sw_feed_read_slow(struct sw_feed *f, struct sw_ui_model *m);
void sw_feed_read_list(struct sw_feed *f, struct sw_ui_model *m);
