/* Simulates the training of a net on a growing number of workers (plan --simulate): how many
 * samples per second they train, how well they are used, and from where on more of them do not
 * pay. One owner. */
#pragma once

#include "cli/plan/model.h"

/* From `first` to `last` workers or hosts: both, and all powers of two between. */
struct sw_sweep_range {
    int first, last;
};
enum { SW_SWEEP_MOST = 1024 };
/* "1..1024". Errors: SW_ERR_INVALID, with the column. */
int sw_sweep_range_parse(const char *text, struct sw_sweep_range *out,
                         struct sw_err *err) SW_MUST_CHECK;

struct sw_sweep_point {
    int count;   /* hosts, or GPUs */
    int workers; /* of the best plan, at most all devices */
    int64_t batch;
    double step_s, samples_per_s;
    double speed_up;   /* in samples per second, over one worker */
    double efficiency; /* speed-up per worker */
    double wait_share, mean_staleness;
};

/* Zero-initialise and set the first two; free with sw_sweep_fini. */
struct sw_sweep {
    struct sw_sweep_range range;
    bool scale_batch;             /* the batch grows with the workers that share it */
    char unit[16];                /* "hosts" or "GPUs" */
    const char *name;             /* borrowed from the model: of the job */
    struct sw_sweep_point *point; /* owned */
    int count;
    int server_hosts; /* of the machine */
    int best;         /* index of the point with the most samples per second */
    int pays; /* index of the last point that is worth its workers: up to there twice as many train
                 at least 1.2 times as many samples per second */
    char skipped[SW_ERR_TEXT]; /* why the first counts have no plan; "": they have */
    char stopped[SW_ERR_TEXT]; /* why it ended before the last count; "": it did not */
};

/* Simulates the best plan at every count. Errors: those of sw_planned_make, if no count has a
 * plan. */
int sw_sweep_make(struct sw_plan_model *m, struct sw_sweep *s, struct sw_err *err) SW_MUST_CHECK;
void sw_sweep_fini(struct sw_sweep *s);

/* A table, a chart, and a sentence. Errors: SW_ERR_NOMEM. */
int sw_sweep_print(struct sw_bytes *out, const struct sw_sweep *s,
                   struct sw_err *err) SW_MUST_CHECK;
/* Fields of an open object. */
void sw_sweep_json(struct sw_json_writer *w, const struct sw_sweep *s);
/* Draws samples per second to a file. Errors: those of sw_plot_begin and sw_plot_end. */
int sw_sweep_plot(const struct sw_sweep *s, const char *path, struct sw_err *err) SW_MUST_CHECK;
