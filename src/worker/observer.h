/* Events that a running job reports to its observer, and requests to the job: data only. The
 * functions are in job.h; events.h and gate.h implement them. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "history/reader.h"
#include <stdbool.h>
#include <stdint.h>

/* When a display event is due: in the first steps, then every `every_steps` or, if that is 0, after
 * max(every_s seconds, every_share of the steps). */
struct sw_display_policy {
    int64_t first_steps, every_steps;
    double every_s, every_share;
};

enum sw_job_event_type {
    SW_JOB_START,
    SW_JOB_DISPLAY,
    SW_JOB_EVAL,
    SW_JOB_CHECKPOINT,
    SW_JOB_EVENT,
    SW_JOB_SUMMARY,
};

enum { SW_JOB_METRICS = 32, SW_JOB_METRIC_NAME = 128 };
struct sw_job_metric {
    char name[SW_JOB_METRIC_NAME]; /* loss, accuracy, accuracy.top5, precision_recall.recall */
    double value;
};

/* An event for the observer; texts are borrowed during the call. */
struct sw_job_event {
    enum sw_job_event_type type;
    int64_t step, steps;
    double elapsed_s;                /* of this run or segment */
    double lr, samples_per_s, eta_s; /* display; NaN where unknown */
    const char *split;               /* train, or the data section's name */
    int metric_count;
    struct sw_job_metric metric[SW_JOB_METRICS];
    /* start */
    int64_t run_id;
    const char *out_dir, *db_path;
    /* checkpoint */
    const char *path;
    int64_t bytes;
    bool best; /* of all so far */
    /* event */
    enum sw_log_level level;
    const char *source, *text;
    /* summary */
    enum sw_run_status status;
    const char *best_metric; /* NULL: nothing was evaluated */
    double best_value;       /* of the evaluations so far */
    int64_t best_step;
    double step_ms; /* mean, but for the first step where there are more */
    size_t peak_bytes, rss_bytes;
    /* summary, and the result of sw_job_evaluate */
    int64_t skipped_records; /* bad records that were replaced by others */
};
typedef void sw_job_observer(void *user, const struct sw_job_event *e);

enum sw_job_request_kind {
    SW_JOB_STOP = 1, /* finish the step, checkpoint, end with SW_ERR_CANCELLED */
    SW_JOB_CHECKPOINT_NOW = 2,
    SW_JOB_ABORT = 4, /* end as soon as possible, without a checkpoint */
    SW_JOB_PAUSE = 8, /* all workers wait after the same step, until CONTINUE or STOP */
    SW_JOB_CONTINUE = 16,
    /* All workers end after the same step with a checkpoint, and the run gives back its memory,
     * cores and GPUs until CONTINUE or STOP (sw_job_next). */
    SW_JOB_RELEASE = 32,
    /* All workers end after the next evaluation with a checkpoint, and the run goes on under
     * another plan (sw_job_next). */
    SW_JOB_REPLAN = 64,
};
