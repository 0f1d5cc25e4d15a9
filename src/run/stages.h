/* Stages of a recipe, which one run trains one after the other: the one that a job is, and where it
 * begins and ends. */
#pragma once

#include "run/job.h"
#include "tensor/safetensors.h"
#include "worker/span.h"

/* Which part of a run this is is under way. */
struct sw_job_stage {
    int index, count;      /* of the recipe's; -1, 0: it has none */
    const char *name;      /* borrowed from the recipe */
    bool begins;           /* the checkpoint to go on from is of the stage before */
    bool over;             /* it has come to its end; the leader's */
    int64_t later;         /* steps of the stages behind it */
    int64_t *steps;        /* owned [count]: of it and those behind it, when all were looked at */
    struct sw_buf text;    /* all that are to come: "pre (30 steps), fine (50 steps)" */
    struct sw_job *failed; /* owned: another stage that could not be opened, with its messages */
};

/* Reads the recipe for the stage that the options ask for. */
int sw_stage_choose(struct sw_job *job, const struct sw_job_options *o,
                    struct sw_err *err) SW_MUST_CHECK;
/* Where the stage ends that begins behind step `from`. Errors: SW_ERR_INVALID when its samples
 * cannot be numbered. */
int sw_stage_steps_end(struct sw_job *job, int64_t from, int64_t *end,
                       struct sw_err *err) SW_MUST_CHECK;
/* Where the job and the run end. Errors: SW_ERR_INVALID when that is beyond what can be counted. */
int sw_stage_find_end(struct sw_job *job, const struct sw_job_options *o,
                      struct sw_err *err) SW_MUST_CHECK;
/* Step t is the job's last one: by the leader. */
void sw_stage_note_end(struct sw_job *job, int64_t t);
void sw_stage_tell(struct sw_job *job);
