/* The errors of predicted values, as in regression: the records with the largest error, and pairs
 * of target and prediction for a scatter plot, in the units of the data. sw_job_evaluate_with fills
 * it.
 *
 * One owner: the job's main thread. */
#pragma once

#include "layers/layer.h"

struct sw_net;
struct sw_source;

/* A record with a large error. */
struct sw_value_sample {
    int64_t record; /* of the data set, or sample of the section before that is known */
    double error;   /* infinite if it is not a number */
    char *where;    /* owned: the file, or what the format says; "": nothing */
    float *values;  /* memory of the report: [2][columns], targets and predictions */
};

/* Zero-initialize with worst_most and with_points set; free with sw_value_report_fini. */
struct sw_value_report {
    const char *layer;                /* that compares values with targets; borrowed from the net */
    int64_t columns;                  /* values of a row */
    bool integers;                    /* of targets */
    const struct sw_scaling *scaling; /* borrowed: of both; NULL: none */
    int64_t rows;                     /* so far */
    int worst_most, worst_count;      /* how many are wanted and were found */
    struct sw_value_sample *worst;    /* owned [worst_most + 1], the largest error first */
    float *values;                    /* owned: of the worst */
    bool with_points;                 /* wanted: the values of all rows, */
    float *points;                    /* owned [rows][2][columns] */
    int64_t room;                     /* of points, in rows */
};

/* The layer of an evaluation net that compares predicted values with a field of the data: the last
 * euclidean_loss, else the last mae, rmse or r2; -1: none. */
int sw_value_report_layer(const struct sw_net *net);
/* Errors: SW_ERR_INVALID without such a layer, SW_ERR_NOMEM. */
int sw_value_report_begin(struct sw_value_report *r, const struct sw_net *net, int *layer,
                          struct sw_err *err) SW_MUST_CHECK;
/* Adds plain rows: values [count, columns], and targets of the same shape, floats or integers. The
 * error of a row is the absolute difference; of several values, whose units may differ, it is the
 * Euclidean distance that the loss sees. Errors: SW_ERR_NOMEM. */
int sw_value_report_rows(struct sw_value_report *r, const float *values, const void *targets,
                         int64_t count, struct sw_err *err) SW_MUST_CHECK;
/* Fetches the places of the worst records. Errors: SW_ERR_NOMEM. */
int sw_value_report_finish(struct sw_value_report *r, const struct sw_source *source,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_value_report_fini(struct sw_value_report *r);
