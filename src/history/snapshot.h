/* Live state of one running job: a small memory-mapped file that the trainer writes and the
 * watchdog, `singa-ws top` and tests read, in $XDG_RUNTIME_DIR/singa-ws or else STATE/live (0700,
 * files 0600). A header and one 256-byte slot per worker, server and prefetch thread. Each slot is
 * a seqlock of 64-bit atomic words: its one writing thread never waits, a reader retries when it
 * met a write. Stores are release and loads acquire (plain moves on x86), which orders words
 * against the sequence without fences, so that the thread sanitizer understands it. Writers are
 * wait-free and cost tens of nanoseconds. The file is removed at the end; one left by a crash is
 * removed by the next job. */
#pragma once

#include "base/err.h"
#include "history/history.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    SW_SNAPSHOT_NAME = 32,
    SW_SNAPSHOT_TEXT = 64,
    SW_SNAPSHOT_SLOT_BYTES = 256,
    SW_SNAPSHOT_MAX_SLOTS = 4096
};

enum sw_phase {
    SW_PHASE_IDLE,
    SW_PHASE_READ,
    SW_PHASE_FORWARD,
    SW_PHASE_BACKWARD,
    SW_PHASE_UPDATE,
    SW_PHASE_COLLECT,
    SW_PHASE_EVALUATE,
    SW_PHASE_CHECKPOINT,
    SW_PHASE_START,  /* first values, or those of a checkpoint */
    SW_PHASE_PAUSED, /* by request, between two steps */
    SW_PHASES,
};
const char *sw_phase_name(enum sw_phase p); /* "idle", "read", ...; "?" outside */

/* What a unit waits for, so that a watchdog can find out on whom: whose turn it is follows from
 * where all units are. */
enum sw_wait_kind {
    SW_WAIT_NONE,
    SW_WAIT_OTHER,   /* as the text says */
    SW_WAIT_VERSION, /* index: a parameter; number: its version */
    SW_WAIT_GROUP,   /* a meeting of workers */
    SW_WAIT_BATCH,   /* index: the split */
    SW_WAIT_DEVICE,  /* its own device */
    SW_WAIT_TURN,    /* it rests until others call it: nobody is late */
};
struct sw_wait {
    enum sw_wait_kind kind;
    int index;
    int64_t number;
};

struct sw_snapshot; /* the writer's side; shared by the threads that own slots */
struct sw_slot;     /* 256 bytes inside the mapped file; one writing thread */

/* Makes the file with `slots` idle slots. run_name may be NULL. Errors: SW_ERR_IO, SW_ERR_NOMEM,
 * SW_ERR_INVALID. A caller for whom a missing snapshot is no reason to stop passes path NULL: then
 * the state lives in memory only (the watchdog still reads it) and only SW_ERR_NOMEM is left.
 * sw_snapshot_path gives the usual path. */
int sw_snapshot_new(struct sw_snapshot **out, const char *path, int64_t run_id, const char *run_uid,
                    const char *run_name, int64_t steps_total, int slots,
                    struct sw_err *err) SW_MUST_CHECK;
const char *sw_snapshot_file(const struct sw_snapshot *s); /* NULL: in memory only */
/* Whether other processes can still read the file. What the job itself reads of the snapshot is not
 * touched. Errors: SW_ERR_FORMAT when the file was truncated, a sentence for people. */
int sw_snapshot_check(const struct sw_snapshot *s, struct sw_err *err) SW_MUST_CHECK;
/* Unmaps and removes the file. NULL is fine. */
void sw_snapshot_free(struct sw_snapshot *s);

/* DIR/UID.live in the live directory, which is created 0700. New text for sw_free. Also removes
 * files that dead processes left there. A directory that is not ours alone is not used: log (may be
 * NULL) says why XDG_RUNTIME_DIR is passed over, the error why STATE is refused. Errors: SW_ERR_IO,
 * SW_ERR_NOTFOUND (no HOME), SW_ERR_NOMEM. */
int sw_snapshot_path(const char *run_uid, struct sw_log *log, char **path,
                     struct sw_err *err) SW_MUST_CHECK;
/* The snapshot of a run, for a reader: looks in those of both places that are ours alone, and
 * creates nothing. New text for sw_free. Errors: SW_ERR_NOTFOUND (the run is not live on this
 * host), SW_ERR_NOMEM. */
int sw_snapshot_find(const char *run_uid, char **path, struct sw_err *err) SW_MUST_CHECK;

/* By the job's thread only. */
void sw_snapshot_set_status(struct sw_snapshot *s, enum sw_run_status status);

/* The slot of a unit; name it (worker0.0, server0.0) before its thread starts. index < slots. */
struct sw_slot *sw_snapshot_slot(struct sw_snapshot *s, int index);
void sw_slot_set_name(struct sw_slot *slot, const char *name);

/* --- Wait-free, by the slot's owner. Each also sets the heartbeat; texts are cut at 63 bytes. ---
 */

/* What the unit does now, since now_ns (sw_os()->monotonic_ns). layer < 0 with layer_name NULL: no
 * layer. */
void sw_slot_phase(struct sw_slot *slot, enum sw_phase phase, int64_t step, int layer,
                   const char *layer_name, int64_t now_ns);
/* What it waits for ("version 12 of conv1.weight from server0.0"); NULL: not waiting. */
void sw_slot_wait(struct sw_slot *slot, const char *waiting_for, int64_t now_ns);
void sw_slot_wait_on(struct sw_slot *slot, struct sw_wait wait, const char *waiting_for,
                     int64_t now_ns);
/* Results of a step that ended. */
void sw_slot_result(struct sw_slot *slot, int64_t step, double loss, int64_t samples_done,
                    int64_t now_ns);
void sw_slot_heartbeat(struct sw_slot *slot, int64_t now_ns);
/* The system's id of the owner's thread (sw_task_self), which no call above changes. */
void sw_slot_set_thread(struct sw_slot *slot, int id);

/* --- Reading --- */

struct sw_slot_state {
    char name[SW_SNAPSHOT_NAME];
    char layer_name[SW_SNAPSHOT_TEXT];
    char waiting_for[SW_SNAPSHOT_TEXT]; /* empty: not waiting */
    struct sw_wait wait;
    enum sw_phase phase;
    int thread;           /* its thread's id in the system; 0: unknown */
    int layer;            /* -1: none */
    int64_t step;         /* being worked on; -1 before the first */
    int64_t since_ns;     /* monotonic; when the phase, or the wait, began */
    int64_t heartbeat_ns; /* monotonic; last sign of life; 0: none */
    int64_t done_step;    /* the last that gave a result; -1: none */
    double loss;          /* NaN before the first */
    int64_t samples_done;
};

struct sw_snapshot_state {
    int64_t pid, pid_start, run_id, steps_total;
    double started_at; /* Unix seconds */
    char run_uid[17];
    char run_name[SW_SNAPSHOT_TEXT];
    char boot_id[40];
    enum sw_run_status status; /* running of a dead process reads crashed */
    bool gone; /* its file was removed: a run that goes on (the next stage) has another */
    int slots;
};

/* In the job itself. False when the slot was being written at each of 1000 tries. */
bool sw_snapshot_read_slot(const struct sw_snapshot *s, int index, struct sw_slot_state *out);

/* From another process: opens read-only and checks magic, version, byte order and size before
 * anything else is believed. Errors: SW_ERR_NOTFOUND, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_IO.
 */
struct sw_snapshot_reader;
int sw_snapshot_reader_open(struct sw_snapshot_reader **out, const char *path,
                            struct sw_err *err) SW_MUST_CHECK;
/* Whether what was read so far was true: a file that is truncated reads as zeros. Errors:
 * SW_ERR_FORMAT, SW_ERR_IO. */
int sw_snapshot_reader_check(const struct sw_snapshot_reader *r, struct sw_err *err) SW_MUST_CHECK;
void sw_snapshot_reader_close(struct sw_snapshot_reader *r);
bool sw_snapshot_reader_state(const struct sw_snapshot_reader *r, struct sw_snapshot_state *out);
bool sw_snapshot_reader_slot(const struct sw_snapshot_reader *r, int index,
                             struct sw_slot_state *out);
