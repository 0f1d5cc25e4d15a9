/* The history as a writer sees it: one SQLite file for all runs of a user, one struct sw_history
 * with one writer thread and one connection per process, one run per struct. Threads of a job drop
 * fixed-size records into lock-free rings; the writer commits them in batches about every 200 ms.
 * History never harms training: while the database is locked, full, damaged, of a newer schema or
 * on a file system without WAL, rows go to OUT/metrics.jsonl and are merged later, on the next
 * success or when any job next opens the database. Only a run that can have neither is refused, at
 * set-up. What is lost in the end (no database, no spool, memory bound reached) is counted and
 * announced.
 *
 * Life: open, begin_run or resume_run, series and producers, records, finish_run, close. close
 * comes after every producing thread has ended: the writer drains last. Reading is reader.h. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "history/claim.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_run_status {
    SW_RUN_RUNNING,
    SW_RUN_DONE,
    SW_RUN_FAILED,
    SW_RUN_STOPPED,
    SW_RUN_CRASHED, /* never stored: readers compute it from pid, process start time and boot id */
};

/* "running", "done", "failed", "stopped", "crashed". */
const char *sw_run_status_name(enum sw_run_status s);

/* Where the history is: the first that is set and not empty of option (--db), SINGA_DB, job_db
 * ([job] db), else STATE/history.db. New text for sw_free. Errors: those of
 * sw_history_state_dir. */
int sw_history_default_path(const char *option, const char *job_db, char **path,
                            struct sw_err *err) SW_MUST_CHECK;
/* The state directory: $XDG_STATE_HOME/singa-ws, else ~/.local/state/singa-ws. Creates nothing; one
 * that exists must belong to our user, and others may not write there. New text for sw_free.
 * Errors: SW_ERR_NOTFOUND (no HOME), SW_ERR_IO (not ours), SW_ERR_NOMEM. */
int sw_history_state_dir(char **path, struct sw_err *err) SW_MUST_CHECK;

struct sw_history;
struct sw_history_producer;

/* What is known of a run when it starts. Texts are borrowed during the call; NULL is stored as
 * NULL. */
struct sw_run_info {
    const char *name;        /* job.name or --name */
    const char *recipe;      /* path as given */
    const char *recipe_text; /* the recipe with its includes resolved: resume runs this */
    const char *recipe_hash; /* 32 hex digits: the same recipe has the same hash */
    const char *overrides;   /* --set values, one SECTION.KEY=VALUE per line */
    const char *fallback;    /* lines of [fallback] that were applied, one per line; NULL: none */
    const char *command;     /* the command line */
    const char *framework;   /* sandblaster, allreduce, downpour, hogwild */
    const char *device;      /* cpu, sim:0, cuda:0, a list */
    const char *version;     /* of this program */
    const char *note;
    const char *out_dir; /* --out; NULL: STATE/runs/ID */
    bool overwrite;      /* out_dir may hold checkpoints of another run: they are replaced */
    int64_t segments;    /* resume_run only: how many the run had when its checkpoints were chosen;
                            0: not compared */
    int workers;
    int64_t seed;
    int64_t batch;
    int64_t steps;         /* the horizon */
    int64_t epoch_records; /* training records per epoch; 0 when unknown: the epoch is then NULL */
    int64_t params;
    double flops_per_sample;
};

/* Prepares a history; touches no file before a run begins, which also starts the writer. What it
 * has to say (spooling, merged, lost) goes to log (borrowed until close, may be NULL) and, as
 * events, to the run. path is copied. Errors: SW_ERR_NOMEM. */
int sw_history_open(struct sw_history **out, const char *path, struct sw_log *log,
                    struct sw_err *err) SW_MUST_CHECK;

/* Merges every spool that waits for this database, so that a run that was spooled can be found
 * and resumed; touches nothing when none waits. rows (may be NULL) is how many were merged.
 * Errors: SW_ERR_BUSY (locked for 5 s), SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (newer
 * schema). */
int sw_history_merge(const char *path, struct sw_log *log, uint64_t *rows,
                     struct sw_err *err) SW_MUST_CHECK;

/* How many runs have rows in a spool that is not merged yet (a running one may be among them). */
int sw_history_waiting(const char *path);

/* Inserts the run (waits at most 5 s for a locked database), makes and claims (claim.h) its output
 * directory, and opens segment 0. Afterwards run_id and out_dir are known. When the database cannot
 * be written the run is spooled: run_id is 0 until the merge and the default directory is
 * STATE/runs/UID. Errors: SW_ERR_INVALID when another run is trained in out_dir, or has left
 * checkpoints there; SW_ERR_IO when the directory, or both database and spool, cannot be made;
 * SW_ERR_NOMEM (also when the thread cannot start). A database that cannot be used is no error, log
 * says why. */
int sw_history_begin_run(struct sw_history *h, const struct sw_run_info *info,
                         struct sw_err *err) SW_MUST_CHECK;
/* Goes on with a stored run as a new segment: status running, this process, info's command,
 * workers, device, framework and steps (0 and NULL keep the stored value; the other fields are not
 * read). Points, step rows, traffic and checkpoint rows after from_step are superseded.
 * Spooled rows of the run are merged before. The run's folder is claimed first (claim.h), and the
 * transaction that stores the segment compares info's segments, so that of several processes that
 * resume a run at once one goes on. Errors: SW_ERR_INVALID (another process has the run, or had it
 * since), SW_ERR_NOTFOUND (no such run), SW_ERR_IO (the database cannot be read), SW_ERR_NOMEM. */
int sw_history_resume_run(struct sw_history *h, int64_t run_id, int64_t from_step,
                          const struct sw_run_info *info, struct sw_err *err) SW_MUST_CHECK;

int64_t sw_history_run_id(const struct sw_history *h); /* 0: not in the database (yet) */
const char *
sw_history_run_uid(const struct sw_history *h); /* 16 hex digits, unique, never NULL in a run */
const char *sw_history_out_dir(const struct sw_history *h); /* absolute; borrowed until close */
const char *sw_history_path(const struct sw_history *h);
/* Moves the claim of the run's folder to the caller, for what the run still has to tidy up after
 * the history is closed. Without this, close releases it. */
void sw_history_keep_claim(struct sw_history *h, struct sw_claim *claim);

/* --- Hot path: producers. A producer belongs to one thread at a time; its calls neither lock nor
 * allocate and cost tens of nanoseconds. The writer empties rings (8192 records) every 200 ms or
 * when one is half full, into memory while the database is slow. A call that finds its ring full
 * waits for the writer, at most a second; if the writer is gone or stuck for longer, records are
 * dropped and counted, without waiting again, until it moves. --- */

/* A new ring, owned by h until close. Any thread may call. Errors: SW_ERR_NOMEM. */
int sw_history_producer_new(struct sw_history *h, struct sw_history_producer **out,
                            struct sw_err *err) SW_MUST_CHECK;
/* A handle (0, 1, ...) for (split, name), to be made at set-up; the same pair gives the same
 * handle. Any thread may call. Errors: SW_ERR_NOMEM, also at 1024 series. */
int sw_history_series(struct sw_history *h, const char *split, const char *name, int *series,
                      struct sw_err *err) SW_MUST_CHECK;
/* A handle for a way that bytes go: units are workerG.I, serverG.I, a device; kind is one of param,
 * shared (handed over in place, nothing moved), feature, sync, h2d, d2h. Any thread may call.
 * Errors: SW_ERR_NOMEM, also at 1024 links. */
int sw_history_link(struct sw_history *h, const char *from_unit, const char *to_unit,
                    const char *kind, int *link, struct sw_err *err) SW_MUST_CHECK;

/* One value of a series at a step; stamped with the time of the call. A second point at the same
 * step replaces the first. NaN is stored as NULL. */
void sw_history_point(struct sw_history_producer *p, int series, int64_t step, double value);

/* Where the time of one step of one worker went. worker is the global number g*W+i. */
struct sw_step_time {
    int64_t step;
    int32_t worker;
    int32_t staleness;
    float read_ms, decode_ms, h2d_ms, forward_ms, backward_ms, update_ms;
    float comm_exposed_ms, comm_hidden_ms, wait_ms, idle_ms;
};
void sw_history_step_time(struct sw_history_producer *p, const struct sw_step_time *row);
void sw_history_traffic(struct sw_history_producer *p, int link, int64_t step, int64_t bytes,
                        double ms);

/* --- Cold path: any thread; takes a lock for a moment and allocates. A call that finds no memory
 * counts one lost row. --- */

/* What steps behind from_step are made of, where that differs from those before: a run has at least
 * one stage, from step 0. A stage of the recipe has its name. The run's batch, epoch_records,
 * params and flops_per_sample become these. Counts of 0 are stored as NULL: unknown. */
struct sw_history_stage {
    const char *name; /* or NULL */
    int64_t from_step, batch, epoch_records, params;
    double flops_per_sample;
};
void sw_history_stage(struct sw_history *h, const struct sw_history_stage *s);
/* Mean times of a layer on a worker over `samples` measured steps; calls for one layer are
 * averaged, weighted by samples, so a caller passes what it measured since its last call. */
void sw_history_layer_time(struct sw_history *h, const char *layer, int worker, double forward_ms,
                           double backward_ms, int64_t samples);
/* Where a unit is. numa < 0 is stored as NULL. cores: hwloc logical numbers, "0-3,8". */
void sw_history_placement(struct sw_history *h, const char *unit, const char *device, int numa,
                          const char *cores, const char *reason);
/* Forgets where units were: a stage, or a resume, may have others. */
void sw_history_placement_removed(struct sw_history *h);
/* How a device is doing now; what is NaN is stored as NULL. */
struct sw_hardware {
    const char *device; /* cpu (of this process), cuda:0 */
    double util;        /* share of what it could do, 0..1 */
    double mem_used;    /* bytes */
    double power_w, temp_c, clock_mhz;
};
void sw_history_hardware(struct sw_history *h, const struct sw_hardware *row);
/* A checkpoint that is durable on disk. path is stored as given (make it absolute). At most one of
 * a run is the best: the newest one of which that was said. */
void sw_history_checkpoint(struct sw_history *h, int64_t step, const char *path, int64_t bytes,
                           const char *checksum, bool is_best);
/* The best one of the run is that of this step (-1: none), and no other. */
void sw_history_checkpoint_best(struct sw_history *h, int64_t step);
/* Its file is to be removed (keep_checkpoints). */
void sw_history_checkpoint_removed(struct sw_history *h, int64_t step);
void sw_history_event(struct sw_history *h, enum sw_log_level level, const char *source,
                      const char *fmt, ...) SW_PRINTF(4, 5);
void sw_history_tag(struct sw_history *h, const char *key, const char *value);

/* Waits until everything handed over before the call is committed or spooled, at most timeout_ms.
 * False on timeout. Call after a checkpoint, so that the row survives a crash. */
bool sw_history_flush(struct sw_history *h, int timeout_ms);

struct sw_history_stats {
    uint64_t rows;       /* committed to the database by this process */
    uint64_t spooled;    /* written to metrics.jsonl */
    uint64_t merged;     /* of spools (of any run), now in the database */
    uint64_t lost;       /* dropped for good */
    uint64_t ring_waits; /* calls that found their ring full */
};
void sw_history_stats(struct sw_history *h, struct sw_history_stats *out);

/* The run's end, after all producers have stopped: status and ended_at. */
void sw_history_finish_run(struct sw_history *h, enum sw_run_status status);

/* Drains, ends the writer (at most about 5 s on a locked database, then the rest is spooled), and
 * frees. NULL is fine. */
void sw_history_close(struct sw_history *h);
