/* Iterates over rows of one run. For readers that poll for new rows (the dashboard) an iteration
 * may begin after a step or an event that the caller has seen. Texts of a row are borrowed until
 * the next row, or arrays of the struct, in which long ones are cut. NULL in the database becomes
 * NaN or an empty text. One owner. */
#pragma once

#include "history/reader.h"

/* A file of a checkpoint may have been removed; the caller checks. */
struct sw_run_checkpoint {
    int64_t step;
    const char *path;
    int64_t bytes;
    const char *checksum; /* or NULL */
    double time;
    int64_t is_best; /* 0 or 1 */
};
struct sw_run_metric {
    const char *split, *name;
    int64_t points, last_step;
    double last, min, max, mean; /* NaN: none */
};
/* A phase of a step (read, decode, ..., idle), summed over steps and workers. */
struct sw_run_time {
    const char *part;
    double total_ms;
    double share; /* of the visible time, 0..1; NaN for comm_hidden, which has none */
};
struct sw_run_tag {
    const char *key, *value; /* or NULL */
};
/* The time of a step that a plan of the run predicts, and the mean that was measured (of a plan
 * that was replaced, the median before that). */
struct sw_run_plan {
    const char *part; /* "step"; of a plan that was replaced, "until step 200" */
    double predicted_ms, measured_ms;
};
/* The newest plan of a run as it was stored; see struct sw_run_plan. */
struct sw_run_plan_text {
    const char *json; /* recipes/planning.md documents its keys; not checked */
    double predicted_ms, measured_ms;
};
struct sw_run_series {
    int64_t id;
    const char *split, *name;
};
struct sw_run_point {
    int64_t step;
    double time, value;
};
struct sw_run_layer {
    char name[64];
    double forward_ms, backward_ms; /* means over workers, weighted by what each measured */
    double slowest_ms;              /* of the worker that took longest, forward and backward */
};
struct sw_run_traffic {
    char from[32], to[32], kind[16];
    double bytes_per_step, ms_per_step; /* means */
    double link_bytes_per_s;            /* measured, of a link between hosts; NaN: unknown */
};
struct sw_run_placement {
    char unit[32], device[32], cores[64], reason[128];
    int numa; /* -1: unknown */
};
struct sw_run_event {
    int64_t row; /* ascends */
    double time;
    const char *level, *source, *text;
};
struct sw_run_segment {
    int64_t segment, from_step;
    double started_at, ended_at; /* ended_at is NaN while the segment runs */
    const char *command;         /* NULL: unknown, or the process went on with another plan */
};
/* See struct sw_history_stage. A file whose schema has no stages gives one stage with the values of
 * the run. */
struct sw_run_stage {
    const char *name;                                /* or NULL */
    int64_t from_step, batch, epoch_records, params; /* 0: unknown */
    double flops_per_sample, epochs_before;
};
/* A host of a run on several hosts. Texts may be NULL; NaN: unknown. */
struct sw_run_host {
    int64_t number;
    const char *name; /* what names of its roles begin with, unless it is host 0 */
    const char *address, *cpu, *gpus, *fabric;
    double clock_offset_ms, clock_error_ms; /* against the clock of host 0 */
    double joined_at, left_at;              /* left_at is NaN while it takes part */
    const char *why;                        /* it was lost; NULL: it left in order */
};
/* NaN: unknown. */
struct sw_run_hardware {
    char device[32];
    double time, util, mem_used, power_w, temp_c, clock_mhz;
};

/* The kinds of rows, named by their struct (its fields are in the order of the columns in
 * reader_rows.c). `id` is the run, or for points the series; the use of `after` and `upto` is given
 * here. */
enum sw_rows_kind {
    SW_ROWS_SERIES,    /* train first, then by split and name */
    SW_ROWS_POINT,     /* after < step <= upto, in order */
    SW_ROWS_STEP_TIME, /* struct sw_step_time: step > after, by step and worker */
    SW_ROWS_LAYER,     /* by the mean of forward and backward, the slowest first */
    SW_ROWS_TRAFFIC,   /* means per step over steps > after, per link; the most bytes first */
    SW_ROWS_NET, /* struct sw_run_traffic between hosts, means per row: bytes / ms is a rate */
    SW_ROWS_PLAN_TEXT, /* at most one */
    SW_ROWS_PLACEMENT,
    SW_ROWS_EVENT,      /* row > after, at most the newest upto rows, in order */
    SW_ROWS_LAST_EVENT, /* struct sw_run_event, texts or NULL: at most the newest upto rows, the
                           newest first */
    SW_ROWS_SEGMENT,
    SW_ROWS_STAGE,      /* by step */
    SW_ROWS_HARDWARE,   /* the newest row of each device */
    SW_ROWS_CHECKPOINT, /* the highest step first */
    SW_ROWS_METRIC,     /* one per series, in the order of SW_ROWS_SERIES */
    SW_ROWS_TIME,
    SW_ROWS_PLAN, /* that of the run, then those that it replaced; none of a run without a plan */
    SW_ROWS_TAG,  /* by key */
    SW_ROWS_HOST, /* by number; none of a run on one host */
    SW_ROWS_KINDS,
};

/* An iteration, on the caller's stack. The first error ends it and is returned by sw_rows_end. */
struct sw_rows {
    enum sw_rows_kind kind;
    const struct sw_history_reader *reader;
    void *statement;
    int code;
    struct sw_err *err;
};

struct sw_rows sw_rows_begin(const struct sw_history_reader *r, enum sw_rows_kind kind, int64_t id,
                             int64_t after, int64_t upto, struct sw_err *err);
/* Fills *row, the struct of the kind, with the next row; false at the end and after an error. */
#define sw_rows_next(rows, row) sw_rows_fill(rows, row, sizeof *(row))
bool sw_rows_fill(struct sw_rows *rows, void *row, size_t bytes);
/* Ends the query and returns its first error: SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_BUSY, SW_ERR_NOMEM.
 */
int sw_rows_end(struct sw_rows *rows) SW_MUST_CHECK;

/* The newest step of step_time; -1: none. */
int sw_history_newest_step_time(struct sw_history_reader *r, int64_t run_id, int64_t *step,
                                struct sw_err *err) SW_MUST_CHECK;
