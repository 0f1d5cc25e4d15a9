/* The writing side of the history: one SQLite file for all runs of a user, one struct sw_history
 * with one writer thread and one connection per process, one run per struct. Threads of a job put
 * fixed-size records into lock-free rings; the writer thread commits them in batches about every
 * 200 ms. The history never stops training: while the database is locked, full, damaged, of a newer
 * schema or on a file system without WAL, rows are spooled to OUT/metrics.jsonl and merged later,
 * at the next success or when any job next opens the database. A run is refused, at setup, only if
 * neither database nor spool can be written. Rows that are lost (no database, no spool, memory
 * limit reached) are counted and logged.
 *
 * Order of calls: open, begin_run or resume_run, series and producers, records, finish_run, close.
 * Call close after every producing thread has ended, since it drains the rings. Reading is in
 * reader.h. */
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

/* The path of the history: the first of option (--db), SINGA_DB and job_db ([job] db) that is set
 * and not empty, else STATE/history.db. The caller frees *path with sw_free. Errors: those of
 * sw_history_state_dir. */
int sw_history_default_path(const char *option, const char *job_db, char **path,
                            struct sw_err *err) SW_MUST_CHECK;
/* The state directory: $XDG_STATE_HOME/singa-ws, else ~/.local/state/singa-ws. Creates nothing; an
 * existing one must belong to our user and must not be writable by others. The caller frees *path
 * with sw_free. Errors: SW_ERR_NOTFOUND (no HOME), SW_ERR_IO (not ours), SW_ERR_NOMEM. */
int sw_history_state_dir(char **path, struct sw_err *err) SW_MUST_CHECK;

struct sw_history;
struct sw_history_producer;

/* The description of a run at its start. Texts are borrowed during the call; NULL is stored as
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
    bool overwrite;      /* replace checkpoints of another run in out_dir */
    int64_t segments;    /* resume_run only: the number of segments of the run when its checkpoints
                            were chosen; 0: not compared */
    int64_t first_step;  /* begin_run only: the step of the checkpoint that it continues; else 0 */
    int workers;
    int64_t seed;
    int64_t batch;
    int64_t steps;         /* the total number of steps */
    int64_t epoch_records; /* training records per epoch; 0 when unknown: the epoch is then NULL */
    int64_t params;
    double flops_per_sample;
};

/* Prepares a history. It touches no file before a run begins, which also starts the writer thread.
 * Messages about spooling, merging and lost rows go to log (borrowed until close, may be NULL) and,
 * as events, to the run. path is copied. Errors: SW_ERR_NOMEM. */
int sw_history_open(struct sw_history **out, const char *path, struct sw_log *log,
                    struct sw_err *err) SW_MUST_CHECK;

/* Merges all spools of this database, so that a spooled run can be found and resumed; opens nothing
 * if there are none. rows (may be NULL) gets the number of merged rows. Errors: SW_ERR_BUSY (locked
 * for 5 s), SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (newer schema). */
int sw_history_merge(const char *path, struct sw_log *log, uint64_t *rows,
                     struct sw_err *err) SW_MUST_CHECK;

/* The number of runs with an unmerged spool, which may include running ones. */
int sw_history_waiting(const char *path);

/* Inserts the run (waits at most 5 s for a locked database), makes and claims (claim.h) its output
 * directory, and opens segment 0. Afterwards run_id and out_dir are set. If the database cannot be
 * written, the run is spooled: run_id is 0 until the merge, and the default directory is
 * STATE/runs/UID. Errors: SW_ERR_INVALID when another run is trained in out_dir, or has left
 * checkpoints there; SW_ERR_IO when the directory, or both database and spool, cannot be made;
 * SW_ERR_NOMEM (also when the thread cannot start). A database that cannot be used is not an error;
 * the reason is logged. */
int sw_history_begin_run(struct sw_history *h, const struct sw_run_info *info,
                         struct sw_err *err) SW_MUST_CHECK;
/* Resumes a stored run with a new segment: status running, this process, and workers, device,
 * framework and steps of info (0 and NULL keep the stored value); the segment gets the command of
 * info, the run keeps its own; other fields are not read. Points, step rows, traffic and checkpoint
 * rows after from_step are superseded. Spooled rows of the run are merged first. The run's folder
 * is claimed (claim.h), and the transaction that stores the segment compares info->segments, so
 * that only one of several processes can resume a run at the same time. Errors: SW_ERR_INVALID
 * (another process has or had the run since), SW_ERR_NOTFOUND (no such run), SW_ERR_IO (the
 * database cannot be read), SW_ERR_NOMEM. */
int sw_history_resume_run(struct sw_history *h, int64_t run_id, int64_t from_step,
                          const struct sw_run_info *info, struct sw_err *err) SW_MUST_CHECK;

int64_t sw_history_run_id(const struct sw_history *h); /* 0: not in the database (yet) */
const char *
sw_history_run_uid(const struct sw_history *h); /* 16 hex digits, unique, never NULL in a run */
const char *sw_history_out_dir(const struct sw_history *h); /* absolute; borrowed until close */
const char *sw_history_path(const struct sw_history *h);
/* Moves the claim of the run's folder to the caller, who may write there after the history is
 * closed. Without this call, close releases the claim. */
void sw_history_move_claim(struct sw_history *h, struct sw_claim *claim);

/* --- Hot path: producers. A producer belongs to one thread at a time; its calls neither lock nor
 * allocate and cost tens of nanoseconds. The writer thread empties the rings (8192 records each)
 * every 200 ms or when one is half full; while the database is slow it holds the records in memory.
 * A call that finds its ring full waits for the writer, at most a second; if the writer has ended
 * or is stuck for longer, records are dropped and counted, without further waiting, until the
 * writer continues. --- */

/* A new ring, owned by h until close. Any thread may call. Errors: SW_ERR_NOMEM. */
size_t sw_history_producer_bytes(void); /* of each */
int sw_history_producer_new(struct sw_history *h, struct sw_history_producer **out,
                            struct sw_err *err) SW_MUST_CHECK;
/* Makes a handle (0, 1, ...) for (split, name), at setup; the same pair gives the same handle. Any
 * thread may call. Errors: SW_ERR_NOMEM, also at 1024 series. */
int sw_history_series(struct sw_history *h, const char *split, const char *name, int *series,
                      struct sw_err *err) SW_MUST_CHECK;
/* Makes a handle for traffic between two roles (workerG.I, serverG.I, a device); kind is one of
 * param, shared (passed by reference, nothing moved), feature, sync, h2d, d2h. Any thread may call.
 * Errors: SW_ERR_NOMEM, also at 1024 links. */
int sw_history_link(struct sw_history *h, const char *from_unit, const char *to_unit,
                    const char *kind, int *link, struct sw_err *err) SW_MUST_CHECK;

/* Records a value of a series at a step, with the time of the call. A second point at the same step
 * replaces the first. NaN is stored as NULL. */
void sw_history_point(struct sw_history_producer *p, int series, int64_t step, double value);

/* The time breakdown of one step of one worker. worker is the global rank g*W+i. */
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

/* --- Cold path: any thread may call; the functions take a lock for a moment and allocate. A call
 * that cannot allocate counts one lost row. --- */

/* A stage: the net and data of the steps after from_step. A run has at least one stage, from step
 * 0; a stage of the recipe has its name. The run's batch, epoch_records, params and
 * flops_per_sample are set to those of the stage. Counts of 0 (unknown) are stored as NULL. */
struct sw_history_stage {
    const char *name; /* or NULL */
    int64_t from_step, batch, epoch_records, params;
    double flops_per_sample;
};
void sw_history_stage(struct sw_history *h, const struct sw_history_stage *s);
/* Records mean times of a layer on a worker over `samples` measured steps. Calls for the same layer
 * are averaged, weighted by samples, so a caller passes what it measured since its last call. */
void sw_history_layer_time(struct sw_history *h, const char *layer, int worker, double forward_ms,
                           double backward_ms, int64_t samples);
/* Records the placement of a role (worker, server or thread). numa < 0 is stored as NULL. cores are
 * hwloc logical indices such as "0-3,8". */
void sw_history_placement(struct sw_history *h, const char *unit, const char *device, int numa,
                          const char *cores, const char *reason);
/* Deletes all placements of the run; a stage or a resume may have others. */
void sw_history_placement_removed(struct sw_history *h);
/* The current state of a device; NaN is stored as NULL. */
struct sw_hardware {
    const char *device; /* cpu (of this process), cuda:0 */
    double util;        /* utilization, 0..1 */
    double mem_used;    /* bytes */
    double power_w, temp_c, clock_mhz;
};
void sw_history_hardware(struct sw_history *h, const struct sw_hardware *row);
/* Records a checkpoint that is durable on disk. path is stored as given (pass an absolute one). A
 * run has at most one best checkpoint: the last one recorded with is_best. */
void sw_history_checkpoint(struct sw_history *h, int64_t step, const char *path, int64_t bytes,
                           const char *checksum, bool is_best);
/* Marks the checkpoint of this step as the only best one of the run (-1: none is best). */
void sw_history_checkpoint_best(struct sw_history *h, int64_t step);
/* Deletes the row of a checkpoint whose file will be removed (keep_checkpoints). */
void sw_history_checkpoint_removed(struct sw_history *h, int64_t step);
void sw_history_event(struct sw_history *h, enum sw_log_level level, const char *source,
                      const char *fmt, ...) SW_PRINTF(4, 5);
void sw_history_tag(struct sw_history *h, const char *key, const char *value);
/* Begins another segment of the run in the same process, after step from_step, with the framework,
 * workers and device of info. */
void sw_history_changed(struct sw_history *h, int64_t from_step, const struct sw_run_info *info);
/* Records the parallel plan that the run follows (recipes/planning.md) and the time of a step that
 * it predicts, with the overrides that the run has now (NULL: those it had); and the mean time of a
 * step, which is stored only for a run that has a plan. */
void sw_history_plan(struct sw_history *h, const char *json, double predicted_ms,
                     const char *overrides);
void sw_history_plan_measured(struct sw_history *h, double measured_ms);

/* Waits until all rows queued before the call are committed or spooled, at most timeout_ms. False
 * on timeout. Call it after a checkpoint, so that the row survives a crash. */
bool sw_history_flush(struct sw_history *h, int timeout_ms);

struct sw_history_stats {
    uint64_t rows;       /* committed to the database by this process */
    uint64_t spooled;    /* written to metrics.jsonl */
    uint64_t merged;     /* merged into the database from spools of any run */
    uint64_t lost;       /* dropped for good */
    uint64_t ring_waits; /* calls that found their ring full */
};
void sw_history_stats(struct sw_history *h, struct sw_history_stats *out);

/* Stores status and ended_at of the run, after all producers have stopped. */
void sw_history_finish_run(struct sw_history *h, enum sw_run_status status);

/* Drains the rings, stops the writer thread (a locked database is tried for at most about 5 s, then
 * the remaining rows are spooled), and frees. NULL is accepted. */
void sw_history_close(struct sw_history *h);
