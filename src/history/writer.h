/* What the parts of a history's writer share: producer.c (hot path), history.c (set-up and cold
 * path), begin.c (runs), writer.c (the thread), commit.c (rows to database or spool). Internal to
 * this folder.
 *
 * Before the writer thread starts, the thread that sets the run up owns everything; afterwards the
 * writer owns what stands below "the writer's", and the others reach it only through rings, the
 * list of cold rows, the counters and the flush numbers. */
#pragma once

#include "history/claim.h"
#include "history/process.h"
#include "history/ring.h"
#include "history/spool.h"
#include "history/store.h"
#include "thread/thread.h"

enum {
    SW_HISTORY_TICK_MS = 200,
    SW_HISTORY_BUSY_MS = 2000,  /* rows wait so long for a locked database, then they are spooled */
    SW_HISTORY_SETUP_MS = 5000, /* begin, resume, close */
    SW_HISTORY_ROOM_MS = 1000,  /* who finds a full ring waits so long for the writer */
    SW_HISTORY_PENDING_ROWS = 65536, /* ... or until so many wait */
    SW_HISTORY_PENDING_MAX =
        262144, /* 16 MiB: with neither database nor spool the oldest are kept */
    SW_HISTORY_COLD_MAX = 65536,
    SW_HISTORY_HANDLES = SW_STORE_SERIES,
};

/* How long a locked database and a full ring are waited for. Tests are less patient with the
 * former, and lose nothing on a busy machine with the latter. */
struct sw_history_timeouts {
    int setup_ms, busy_ms, ring_ms; /* SW_HISTORY_SETUP_MS, _BUSY_MS and _ROOM_MS */
};

/* What struct sw_history_stats tells. Any thread adds. */
struct sw_history_counts {
    atomic_ullong rows, spooled, merged, lost, ring_waits;
};

/* What handles stand for. A slot is frozen once its handle was given out. */
struct sw_history_handles {
    struct {
        char *split, *name; /* owned */
    } series[SW_HISTORY_HANDLES];
    struct {
        char *from_unit, *to_unit, *kind; /* owned */
    } links[SW_HISTORY_HANDLES];
    int series_count, link_count;
};

/* Cold rows, oldest first. */
struct sw_history_rows {
    struct sw_row *first, *last; /* owned */
    size_t count;
};

/* What waits for the database or the spool. The writer's. */
struct sw_history_backlog {
    struct sw_record *records;   /* owned; taken from rings, oldest first */
    size_t count, capacity;      /* of them */
    struct sw_history_rows rows; /* taken over */
};

/* How the database does. The writer's. */
struct sw_history_outage {
    bool degraded;         /* rows go to the spool, */
    uint64_t spooled;      /* so many since */
    int64_t busy_since_ns; /* 0: the last commit went well */
    int64_t retry_at_ns;   /* a broken database is not tried before */
    int64_t retry_pause_ms;
};

/* Spools of earlier runs, merged one part at a time. The writer's. */
struct sw_history_other_spools {
    struct sw_spool_list list;
    size_t next;
    bool listed;
};

struct sw_history {
    char *path;         /* owned */
    struct sw_log *log; /* borrowed, or NULL */
    struct sw_process self;
    struct sw_history_timeouts timeouts;
    atomic_llong run_id;
    struct sw_row *run,
        *segment;          /* owned; frozen when the writer starts; segment's texts may be NULL */
    char uid[SW_UID_TEXT]; /* frozen likewise */
    char *out_dir;         /* owned; frozen likewise */
    struct sw_claim claim; /* of out_dir */

    struct sw_mutex lock; /* guards all to the next blank line; held for moments, never over I/O */
    struct sw_cond flushed;
    struct sw_history_producer *producers; /* owned list; grows at its front */
    struct sw_history_handles handles;
    struct sw_history_rows cold;
    uint64_t flush_wanted, flush_done; /* a flush is done when done has reached what it wanted */

    int wake_fd; /* an eventfd: waking takes no lock */
    struct sw_thread thread;
    atomic_bool alive, stop;
    struct sw_history_counts counts;

    /* The writer's. */
    struct sw_store store;
    struct sw_spool spool;
    struct sw_history_backlog backlog;
    struct sw_history_outage outage;
    struct sw_history_other_spools other_spools;
    bool segment_stored; /* the segment is in the database or in the spool */
    bool merging;        /* our own spool has further parts to merge, rows wait behind it */
    uint64_t lost_reported;
};

/* producer.c */
void sw_history_wake(struct sw_history *h);
/* history.c: takes a copy of row over to the writer; counts it lost when there is no memory. */
void sw_history_queue_row(struct sw_history *h, const struct sw_row *row);
/* writer.c */
int sw_history_start_writer(struct sw_history *h, struct sw_err *err) SW_MUST_CHECK;
void sw_history_stop_writer(struct sw_history *h);

/* commit.c: pending and cold rows into the database, or the spool. wait_ms: patience with a lock;
 * last: no later chance. True when all of them are stored. */
bool sw_history_store_pending(struct sw_history *h, int wait_ms, bool last);
/* Merges one part of an earlier run's spool; false when none is left or the database is not well.
 */
bool sw_history_merge_other(struct sw_history *h);
/* Appends the run's head rows, if needed, and lines to the spool. */
int sw_history_spool_lines(struct sw_history *h, const char *lines, size_t bytes, size_t *taken,
                           struct sw_err *err) SW_MUST_CHECK;
/* Merges the whole of one spool: begins and ends its own transactions. */
int sw_history_merge_spool(struct sw_store *store, const char *path, int wait_ms,
                           struct sw_merge *sum, struct sw_err *err) SW_MUST_CHECK;
