/* The keys of [job], the section that describes a training job. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"
#include "recipe/recipe.h"
#include <stdint.h>

/* What to do with a record that cannot be read. */
enum sw_on_bad_record { SW_BAD_RECORD_STOP, SW_BAD_RECORD_SKIP };

/* Limits of gradients; 0: none. */
struct sw_clip_limits {
    double value, norm; /* of each element; of all gradients together */
};

struct sw_job_conf {
    const char *name; /* the recipe file's stem unless set */
    int64_t seed;
    int64_t steps;            /* 0 when epochs is given instead */
    double epochs;            /* 0 when steps is given; steps = ceil(epochs x records / batch) */
    int64_t batch;            /* samples behind one update */
    int64_t eval_batch;       /* = batch unless set */
    int64_t eval_every;       /* steps; 0: only at the end */
    int64_t checkpoint_every; /* steps; 0: only at step 0 and at the end */
    int64_t display_every;    /* steps; 0: by time */
    int64_t keep_checkpoints; /* how many of the newest to keep, beside the best; 0: all */
    bool checkpoint_ends;     /* also write one at step 0 and at the end */
    bool checkpoint_best;     /* also write one when an evaluation is the best so far */
    const char *best_by; /* value of an evaluation; NULL: accuracy where there is one, else loss */
    int64_t patience;    /* evaluations in a row without a better one that end the run; 0: never */
    int algorithm;       /* enum sw_algorithm */
    int on_bad_record;   /* enum sw_on_bad_record */
    int on_nan;          /* enum sw_on_nan */
    const char *grad_clip;        /* as written, or NULL */
    struct sw_clip_limits clip;   /* parsed from grad_clip. Not a key itself */
    struct sw_strings reset;      /* patterns of parameters that init_from does not set */
    struct sw_strings freeze;     /* patterns of parameters that are not trained */
    struct sw_strings stop_at;    /* conditions: accuracy>=0.99 */
    const char *memory;           /* as written: default, fit:SIZE */
    int64_t memory_bytes;         /* parsed from memory; 0: no limit. Not a key itself */
    bool tune;                    /* choose algorithms by measurement, not by rules */
    bool winograd;                /* convolutions may use Winograd's algorithm */
    bool graphs;                  /* steps are captured as graphs on devices that can */
    int64_t streams;              /* on which independent layers may run at the same time */
    const char *device;           /* auto, cpu, cuda:0,2, sim:gpus=N */
    int64_t cores;                /* of the machine, that the run uses; 0: all that are free */
    struct sw_strings init_from;  /* files, each with rules TENSOR -> PARAMETER behind it */
    int precision;                /* of matrix products: enum sw_precision (kernels/precision.h) */
    double loss_scale;            /* initial value; 0: none, precision is not fp16 */
    int64_t loss_scale_every;     /* good updates after which it doubles; 0: never */
    int partition;                /* for layers that do not choose: enum sw_partition */
    bool auto_partition;          /* partition = auto: a plan is to choose. Not a key itself */
    bool replan;                  /* the plan may be changed while the run trains */
    const char *db;               /* history database; NULL: the usual place */
    bool repeat_exact;       /* the same bits with any number of workers, servers and threads */
    int64_t virtual_workers; /* with repeat_exact: the number of fixed microbatches of a batch */
};

/* How a step is computed. BP and BPTT run forward and backward passes; BPTT runs them through time
 * over recurrent layers. */
enum sw_algorithm { SW_ALGORITHM_BP, SW_ALGORITHM_BPTT, SW_ALGORITHM_CD };

enum sw_on_nan { SW_ON_NAN_STOP, SW_ON_NAN_SKIP, SW_ON_NAN_ROLLBACK };

extern const struct sw_opt sw_job_opts[];

/* The schema row of [job]. */
#define SW_JOB_SCHEMA_KIND                                                                         \
    {                                                                                              \
        .kind = "job", .form = SW_SECTION_ONE, .required = true, .opts = sw_job_opts,              \
        .conf_bytes = sizeof(struct sw_job_conf),                                                  \
    }

/* Whether a name has digits only: commands would take it for the number of a run. */
bool sw_job_name_is_number(const char *name);
/* Refuses such a name, for jobs that begin: a stored run keeps its own. Errors: SW_ERR_INVALID, in
 * the recipe's diags. */
int sw_job_check_name(struct sw_recipe *recipe, const struct sw_job_conf *job,
                      struct sw_err *err) SW_MUST_CHECK;
/* Rules between keys (steps or epochs, not both: of two levels of precedence the higher counts) and
 * defaults that depend on others. Call once after sw_recipe_load; *job is owned by the recipe and
 * set also on SW_ERR_INVALID. Errors go to the recipe's diags. */
int sw_job_apply_rules(struct sw_recipe *recipe, const struct sw_job_conf **job,
                       struct sw_err *err) SW_MUST_CHECK;
