/* Rows of one run, for readers that come again and again for what is new (the dashboard): every
 * walk begins behind a step or an event that the caller has seen. Callbacks as in reader.h: 0 goes
 * on, anything else ends the walk and is returned; what they are given is borrowed during the call.
 * A NULL of the database is NaN or an empty text. Errors of all: SW_ERR_IO, SW_ERR_FORMAT,
 * SW_ERR_BUSY, SW_ERR_NOMEM. */
#ifndef SW_HISTORY_READER_ROWS_H
#define SW_HISTORY_READER_ROWS_H

#include "history/reader.h"

struct sw_run_series {
    int64_t id;
    const char *split, *name;
};
/* Train first, then by split and name. */
int sw_history_each_series(struct sw_history_reader *r, int64_t run_id,
                           int (*each)(void *user, const struct sw_run_series *s), void *user,
                           struct sw_err *err) SW_MUST_CHECK;

struct sw_run_point {
    int64_t step;
    double time, value;
};
/* Points of a series with after < step <= upto, in order. */
int sw_history_each_point(struct sw_history_reader *r, int64_t series, int64_t after, int64_t upto,
                          int (*each)(void *user, const struct sw_run_point *p), void *user,
                          struct sw_err *err) SW_MUST_CHECK;

/* Rows of step_time with step > after, by step and worker. */
int sw_history_each_step_time(struct sw_history_reader *r, int64_t run_id, int64_t after,
                              int (*each)(void *user, const struct sw_step_time *row), void *user,
                              struct sw_err *err) SW_MUST_CHECK;
/* The newest step of step_time, -1 where there is none. */
int sw_history_newest_step_time(struct sw_history_reader *r, int64_t run_id, int64_t *step,
                                struct sw_err *err) SW_MUST_CHECK;

/* Means of the layers over workers, weighted by what each measured; the slowest first. */
struct sw_run_layer {
    const char *name;
    double forward_ms, backward_ms;
};
int sw_history_each_layer(struct sw_history_reader *r, int64_t run_id,
                          int (*each)(void *user, const struct sw_run_layer *l), void *user,
                          struct sw_err *err) SW_MUST_CHECK;

/* Sums over the steps behind `after`, per link; the most bytes first. */
struct sw_run_traffic {
    const char *from, *to, *kind;
    int64_t steps, bytes;
    double ms;
};
int sw_history_each_traffic(struct sw_history_reader *r, int64_t run_id, int64_t after,
                            int (*each)(void *user, const struct sw_run_traffic *t), void *user,
                            struct sw_err *err) SW_MUST_CHECK;

struct sw_run_unit {
    const char *unit, *device, *cores, *reason;
    int numa; /* -1: unknown */
};
int sw_history_each_unit(struct sw_history_reader *r, int64_t run_id,
                         int (*each)(void *user, const struct sw_run_unit *u), void *user,
                         struct sw_err *err) SW_MUST_CHECK;

struct sw_run_event {
    int64_t row; /* ascends */
    double time;
    const char *level, *source, *text;
};
/* Events with row > after, but no more than the newest `most`, in order. */
int sw_history_each_event(struct sw_history_reader *r, int64_t run_id, int64_t after, int64_t most,
                          int (*each)(void *user, const struct sw_run_event *e), void *user,
                          struct sw_err *err) SW_MUST_CHECK;

struct sw_run_segment {
    int64_t segment, from_step;
    double started_at, ended_at; /* NaN: goes on */
};
int sw_history_each_segment(struct sw_history_reader *r, int64_t run_id,
                            int (*each)(void *user, const struct sw_run_segment *s), void *user,
                            struct sw_err *err) SW_MUST_CHECK;

/* See struct sw_history_stage; of a file older than stages there is one, the run's. */
struct sw_run_stage {
    const char *name;                                /* or NULL */
    int64_t from_step, batch, epoch_records, params; /* 0: unknown */
    double flops_per_sample, epochs_before;
};
/* By step. */
int sw_history_each_stage(struct sw_history_reader *r, int64_t run_id,
                          int (*each)(void *user, const struct sw_run_stage *s), void *user,
                          struct sw_err *err) SW_MUST_CHECK;

struct sw_run_hardware {
    const char *device;
    double time, util, mem_used, power_w, temp_c, clock_mhz;
};
/* The newest row of each device. */
int sw_history_each_hardware(struct sw_history_reader *r, int64_t run_id,
                             int (*each)(void *user, const struct sw_run_hardware *h), void *user,
                             struct sw_err *err) SW_MUST_CHECK;

#endif
