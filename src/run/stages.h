/* Stages of a recipe, which one run trains one after the other: choosing the stage of a job, and
 * where it begins and ends. */
#pragma once

#include "run/job.h"
#include "tensor/safetensors.h"
#include "worker/span.h"

/* The stage that a job is. */
struct sw_job_stage {
    int index, count; /* index and number of the recipe's stages; -1, 0: none */
    const char *name; /* borrowed from the recipe */
    bool begins;      /* the resumed checkpoint is of the previous stage */
    bool over;        /* it has ended; written by the leader */
    int64_t later;    /* steps of the later stages */
    int64_t
        *steps; /* owned [count]: steps of this stage and the later ones, after all were checked */
    struct sw_bytes text;  /* this stage and the later ones: "pre (30 steps), fine (50 steps)" */
    struct sw_job *failed; /* owned: another stage that could not be opened, with its messages */
};

/* Reads the recipe for the stage that the options select. */
int sw_stage_choose(struct sw_job *job, const struct sw_job_options *o,
                    struct sw_err *err) SW_MUST_CHECK;
/* Sets *end to the last step of the stage that begins after step `from`. Errors: SW_ERR_INVALID
 * when its samples cannot be numbered. */
int sw_stage_steps_end(struct sw_job *job, int64_t from, int64_t *end,
                       struct sw_err *err) SW_MUST_CHECK;
/* Computes where the job and the run end. Errors: SW_ERR_INVALID when that exceeds what can be
 * counted. */
int sw_stage_find_end(struct sw_job *job, const struct sw_job_options *o,
                      struct sw_err *err) SW_MUST_CHECK;
/* Records that step t is the job's last one: by the leader. */
void sw_stage_record_end(struct sw_job *job, int64_t t);
/* Records the begin of the stage in the history. */
void sw_stage_report(struct sw_job *job);
