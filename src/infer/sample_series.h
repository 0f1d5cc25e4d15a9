/* Continuing a series with a trained net that predicts the next frame from past frames
 * (data/formats/series.c): it reads a window of frames, and then repeatedly its own prediction as
 * the newest frame. A Boltzmann machine whose chain is sampled (gibbs_chain) thus generates a
 * series.
 *
 * One owner: the job's main thread. */
#pragma once

#include "run/job.h"

struct sw_series_args {
    const char *weights; /* a safetensors file */
    const char *layer;   /* whose output is the next frame; NULL: as for sw_job_predict */
    int64_t start;       /* record of the test or, without one, training section: the first past */
    int64_t frames;      /* number of frames to generate */
    uint64_t seed;       /* of samples */
};

/* Receives the frames in order, in the units of the data. An error ends the series. */
typedef int sw_frame_sink(void *user, const float *frame, int64_t width, struct sw_err *err);

/* The job must be opened with `predict`. *step gets the step of the checkpoint, 0: unknown. Errors:
 * SW_ERR_INVALID for a layer that depends on other fields than past and last, an output of another
 * width, or a record that does not exist; those of sw_job_predict and the sink. */
int sw_job_sample_series(struct sw_job *job, const struct sw_series_args *args, sw_frame_sink *sink,
                         void *user, int64_t *step, struct sw_err *err) SW_MUST_CHECK;

/* Whether the layer (NULL: as for sw_job_predict) depends on the past frames of a series and
 * nothing else. */
bool sw_job_reads_series(const struct sw_job *job, const char *layer);
