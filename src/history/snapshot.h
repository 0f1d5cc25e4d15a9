/* The live state of one running job: a small memory-mapped file in $XDG_RUNTIME_DIR/singa-ws or
 * else STATE/live (0700, files 0600), which the trainer writes and the watchdog, `singa-ws top` and
 * tests read. A header and one 256-byte slot per worker, server and prefetch thread. Each slot is a
 * seqlock of 64-bit atomic words: its only writing thread never waits, and a reader retries if it
 * overlapped a write. Stores are release and loads acquire (plain moves on x86), which orders words
 * against the sequence without fences, so that the thread sanitizer can check it. Writers are
 * wait-free and cost tens of nanoseconds. The file is removed at the end; a file left by a crash is
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
    SW_PHASE_START,  /* initial values, or loading a checkpoint */
    SW_PHASE_PAUSED, /* by request, between two steps */
    SW_PHASES,
};
const char *sw_phase_name(enum sw_phase p); /* "idle", "read", ...; "?" outside */

/* What a thread waits for, so that the watchdog can find the thread that is responsible from the
 * states of all threads. */
enum sw_wait_kind {
    SW_WAIT_NONE,
    SW_WAIT_OTHER,   /* described by the text only */
    SW_WAIT_VERSION, /* index: a parameter; number: its version */
    SW_WAIT_GROUP,   /* a barrier of the worker group */
    SW_WAIT_BATCH,   /* index: the split */
    SW_WAIT_DEVICE,  /* its own device */
    SW_WAIT_TURN,    /* idle until another thread needs it; not a stall */
};
struct sw_wait {
    enum sw_wait_kind kind;
    int index;
    int64_t number;
};

struct sw_slot_state;
struct sw_snapshot; /* the writing side; shared by the threads that own slots */
struct sw_slot;     /* 256 bytes inside the mapped file; one writing thread */

struct sw_snapshot_run {
    int64_t id;
    const char *uid, *name; /* name: or NULL */
    int64_t steps_total;
    int slots;
};
/* Creates the file with idle slots. Errors: SW_ERR_IO, SW_ERR_NOMEM,
 * SW_ERR_INVALID (too many slots). With path NULL the state is in memory only (the watchdog can
 * still read it) and no SW_ERR_IO is possible, for a caller that can continue without a file.
 * sw_snapshot_path gives the usual path. */
int sw_snapshot_new(struct sw_snapshot **out, const char *path, const struct sw_snapshot_run *run,
                    struct sw_err *err) SW_MUST_CHECK;
const char *sw_snapshot_file(const struct sw_snapshot *s); /* NULL: in memory only */
/* Checks that other processes can still read the file. The state that the job itself reads is never
 * affected. Errors: SW_ERR_FORMAT (the file was truncated). */
int sw_snapshot_check(const struct sw_snapshot *s, struct sw_err *err) SW_MUST_CHECK;
/* Unmaps and removes the file. NULL is accepted. */
void sw_snapshot_free(struct sw_snapshot *s);

/* Returns the path DIR/UID.live in the live directory, which is created with mode 0700; the caller
 * frees *path with sw_free. Also removes files that dead processes left there. A directory that
 * other users can access is not used: XDG_RUNTIME_DIR is then skipped with a warning to log (may be
 * NULL), STATE is an error. Errors: SW_ERR_IO, SW_ERR_NOTFOUND (no HOME), SW_ERR_NOMEM. */
int sw_snapshot_path(const char *run_uid, struct sw_log *log, char **path,
                     struct sw_err *err) SW_MUST_CHECK;
/* Finds the snapshot of a run, for a reader, in those of both directories that only our user can
 * access; creates nothing. The caller frees *path with sw_free. Errors: SW_ERR_NOTFOUND (the run is
 * not live on this host), SW_ERR_NOMEM. */
int sw_snapshot_find(const char *run_uid, char **path, struct sw_err *err) SW_MUST_CHECK;

/* Called by the main thread of the job only. */
void sw_snapshot_set_status(struct sw_snapshot *s, enum sw_run_status status);

/* The slot of a thread. Name it (worker0.0, server0.0) before the thread starts. index < slots. */
struct sw_slot *sw_snapshot_slot(struct sw_snapshot *s, int index);
void sw_slot_set_name(struct sw_slot *slot, const char *name);

/* --- Wait-free functions for the owner of the slot. Each also sets the heartbeat; texts are
 * truncated to 63 bytes. --- */

/* Sets the current phase of the thread, since now_ns (sw_os()->monotonic_ns). layer < 0 with
 * layer_name NULL: no layer. */
void sw_slot_phase(struct sw_slot *slot, enum sw_phase phase, int64_t step, int layer,
                   const char *layer_name, int64_t now_ns);
/* Sets what the thread waits for ("version 12 of conv1.weight from server0.0"); NULL: not waiting.
 */
void sw_slot_wait(struct sw_slot *slot, const char *waiting_for, int64_t now_ns);
void sw_slot_wait_on(struct sw_slot *slot, struct sw_wait wait, const char *waiting_for,
                     int64_t now_ns);
/* Sets the results of a completed step. */
void sw_slot_result(struct sw_slot *slot, int64_t step, double loss, int64_t samples_done,
                    int64_t now_ns);
void sw_slot_heartbeat(struct sw_slot *slot, int64_t now_ns);
/* Sets everything but the name to the state of a thread of another process, whose times are on this
 * machine's clock. */
void sw_slot_mirror(struct sw_slot *slot, const struct sw_slot_state *state);
/* Sets the kernel thread id of the owner (sw_task_self); the calls above do not change it. */
void sw_slot_set_thread(struct sw_slot *slot, int id);

/* --- Reading --- */

struct sw_slot_state {
    char name[SW_SNAPSHOT_NAME];
    char layer_name[SW_SNAPSHOT_TEXT];
    char waiting_for[SW_SNAPSHOT_TEXT]; /* empty: not waiting */
    struct sw_wait wait;
    enum sw_phase phase;
    int thread;           /* kernel thread id; 0: unknown */
    int layer;            /* -1: none */
    int64_t step;         /* the current step; -1 before the first */
    int64_t since_ns;     /* monotonic; when the phase, or the wait, began */
    int64_t heartbeat_ns; /* monotonic; last heartbeat; 0: none */
    int64_t done_step;    /* last step with a result; -1: none */
    double loss;          /* NaN before the first */
    int64_t samples_done;
};

struct sw_snapshot_state {
    int64_t pid, pid_start, run_id, steps_total;
    double started_at; /* Unix seconds */
    char run_uid[17];
    char run_name[SW_SNAPSHOT_TEXT];
    char boot_id[40];
    enum sw_run_status status; /* SW_RUN_CRASHED if the process of a running run is dead */
    bool gone; /* the file was removed; a run that continues (the next stage) has another one */
    int slots;
};

/* Reads a slot within the job. False if each of 1000 tries overlapped a write. */
bool sw_snapshot_read_slot(const struct sw_snapshot *s, int index, struct sw_slot_state *out);

/* Opens a snapshot of another process read-only and checks magic, version, byte order and size
 * first. Errors: SW_ERR_NOTFOUND, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_IO.
 */
struct sw_snapshot_reader;
int sw_snapshot_reader_open(struct sw_snapshot_reader **out, const char *path,
                            struct sw_err *err) SW_MUST_CHECK;
/* Checks that the values read so far are valid: a truncated file reads as zeros. Errors:
 * SW_ERR_FORMAT, SW_ERR_IO. */
int sw_snapshot_reader_check(const struct sw_snapshot_reader *r, struct sw_err *err) SW_MUST_CHECK;
void sw_snapshot_reader_close(struct sw_snapshot_reader *r);
bool sw_snapshot_reader_state(const struct sw_snapshot_reader *r, struct sw_snapshot_state *out);
bool sw_snapshot_reader_slot(const struct sw_snapshot_reader *r, int index,
                             struct sw_slot_state *out);
