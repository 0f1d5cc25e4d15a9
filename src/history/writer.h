/* The struct of a history, shared by producer.c (hot path), history.c (setup), cold.c (cold path),
 * begin.c (runs), writer.c (the thread) and commit.c (rows to database or spool), part.c (rows to
 * another host). Internal to this folder.
 *
 * Before the writer thread starts, the thread that sets the run up owns everything; afterwards the
 * writer thread owns the fields below "Owned by the writer thread", and other threads communicate
 * with it only through rings, the list of cold rows, the counters and the flush numbers. */
#pragma once

#include "history/claim.h"
#include "history/process.h"
#include "history/ring.h"
#include "history/spool.h"
#include "history/store.h"
#include "thread/thread.h"

enum {
    SW_HISTORY_TICK_MS = 200,
    SW_HISTORY_BUSY_MS =
        2000, /* rows wait this long for a locked database before they are spooled */
    SW_HISTORY_SETUP_MS = 5000, /* begin, resume, close */
    SW_HISTORY_RING_MS = 1000,  /* a producer with a full ring waits this long for the writer */
    SW_HISTORY_PENDING_ROWS = 65536, /* ... or are spooled when this many wait */
    SW_HISTORY_PENDING_MAX =
        262144, /* 16 MiB: without database and spool only the oldest records are kept */
    SW_HISTORY_COLD_MAX = 65536,
    SW_HISTORY_HANDLES = SW_STORE_SERIES,
};

/* Timeouts for a locked database and a full ring. Tests use shorter ones for the database and a
 * longer one for the ring, so that they lose nothing on a busy machine. */
struct sw_history_timeouts {
    int setup_ms, busy_ms, ring_ms; /* SW_HISTORY_SETUP_MS, _BUSY_MS and _RING_MS */
};

/* The counters of struct sw_history_stats. Any thread adds to them. */
struct sw_history_counts {
    atomic_ullong rows, spooled, merged, lost, ring_waits;
};

/* The series or the links of handles. An entry is frozen once its handle was returned. */
struct sw_history_handles {
    char *text[SW_HISTORY_HANDLES][3]; /* split and name, or units and kind; owned */
    int count;
};

/* Cold rows, oldest first. */
struct sw_history_rows {
    struct sw_row *first, *last; /* owned */
    size_t count;
};

/* Rows and records that wait for the database or the spool. Owned by the writer thread. */
struct sw_history_backlog {
    struct sw_record *records;   /* owned; taken from rings, oldest first */
    size_t count, capacity;      /* of records */
    struct sw_history_rows rows; /* cold rows that were taken */
};

/* The state of a database outage. Owned by the writer thread. */
struct sw_history_outage {
    bool degraded;         /* rows go to the spool */
    uint64_t spooled;      /* rows spooled since then */
    int64_t busy_since_ns; /* 0: the last commit succeeded */
    int64_t retry_at_ns;   /* earliest retry of a broken database */
    int64_t retry_pause_ms;
};

/* Spools of other runs, merged one chunk at a time. Owned by the writer thread. */
struct sw_history_other_spools {
    struct sw_spool_list list;
    size_t next; /* index of the next spool to merge */
    bool listed; /* the list was read */
};

struct sw_part;

struct sw_history {
    char *path;         /* owned */
    struct sw_log *log; /* borrowed, or NULL */
    struct sw_process self;
    struct sw_history_timeouts timeouts;
    atomic_llong run_id;
    struct sw_row *run,
        *segment;          /* owned; frozen when the writer starts; segment's texts may be NULL */
    char uid[SW_UID_TEXT]; /* frozen when the writer starts */
    char *out_dir;         /* owned; frozen when the writer starts */
    struct sw_claim claim; /* of out_dir */

    struct sw_mutex
        lock; /* guards the fields up to the next blank line; held briefly, never during I/O */
    struct sw_cond flushed;
    struct sw_history_producer *producers; /* owned list; grows at its front */
    struct sw_history_handles series, links;
    struct sw_history_rows cold;
    uint64_t flush_wanted, flush_done; /* flush number n is done when flush_done >= n */

    int wake_fd; /* an eventfd, so waking takes no lock */
    struct sw_thread thread;
    atomic_bool alive, stop;
    struct sw_history_counts counts;
    atomic_size_t taken_bytes; /* of rows of other hosts that are not stored yet */
    struct sw_part *part;      /* owned; frozen when the writer starts; NULL: this is a whole run */

    /* Owned by the writer thread. */
    struct sw_store store;
    struct sw_spool spool;
    struct sw_history_backlog backlog;
    struct sw_history_outage outage;
    struct sw_history_other_spools other_spools;
    bool segment_stored; /* the segment is in the database or in the spool */
    bool merging;        /* our own spool has further chunks to merge, and rows wait for that */
    uint64_t lost_reported;
};

/* producer.c */
void sw_history_wake(struct sw_history *h);
/* cold.c: queues a copy of row for the writer thread; counts the row as lost if memory is
 * exhausted. */
void sw_history_queue_row(struct sw_history *h, const struct sw_row *row);
/* Queues a row of sw_row_parse, which takes that much memory and is the history's from now on. */
void sw_history_queue_taken(struct sw_history *h, struct sw_row *row, size_t bytes);
void sw_history_count_lost(struct sw_history *h, uint64_t rows);
/* begin.c, also for parts: makes h->run; creates a folder, whose absolute path the caller owns; and
 * stores the path, which then is h's, in the row of the run. */
int sw_history_make_run(struct sw_history *h, const struct sw_run_info *info, double now,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_history_make_dir(const char *dir, char **path, struct sw_err *err) SW_MUST_CHECK;
int sw_history_set_out_dir(struct sw_history *h, char *path, struct sw_err *err) SW_MUST_CHECK;
/* part.c: what sw_history_store_pending does for a part. */
bool sw_history_part_store(struct sw_history *h, bool last);
void sw_history_part_free(struct sw_history *h);
/* writer.c */
int sw_history_start_writer(struct sw_history *h, struct sw_err *err) SW_MUST_CHECK;
void sw_history_stop_writer(struct sw_history *h);

/* commit.c: stores the backlog in the database or the spool. wait_ms: timeout for a lock; last:
 * there is no later attempt. True if all rows are stored. */
bool sw_history_store_pending(struct sw_history *h, int wait_ms, bool last);
/* Merges one chunk of the spool of another run; false if there is none or the database is not
 * available. */
bool sw_history_merge_other(struct sw_history *h);
/* Converts a record to a row; its texts are borrowed from the tables of handles. */
struct sw_row sw_history_row_of(const struct sw_history *h, const struct sw_record *r);
/* Drops the first n pending rows, or all pending rows and records. */
void sw_history_drop_rows(struct sw_history *h, size_t n);
void sw_history_drop_all(struct sw_history *h);
/* Appends the run and segment rows, if needed, and the lines to the spool. */
int sw_history_spool_lines(struct sw_history *h, const char *lines, size_t bytes, size_t *taken,
                           struct sw_err *err) SW_MUST_CHECK;
/* Merges a spool up to its present end in several transactions: its owner may append without end.
 * *sum is increased by the numbers of lines. */
int sw_history_merge_spool(struct sw_store *store, const char *path, int wait_ms,
                           struct sw_merge *sum, struct sw_err *err) SW_MUST_CHECK;
