/* The parallel plan of a run (recipes/planning.md), and what was measured of the times that it
 * predicts. Like is compared with like: a plan predicts the parts of a step of its critical worker,
 * and each layer on its slowest worker, so the same workers' times are taken here. Pure functions
 * of their arguments. One owner. */
#pragma once

#include "history/reader_rows.h"
#include "ui/verdict.h"

enum sw_ui_plan_part {
    SW_UI_PLAN_COMPUTE,
    SW_UI_PLAN_PARAMS,
    SW_UI_PLAN_ACTIVATIONS,
    SW_UI_PLAN_WAIT,
    SW_UI_PLAN_REST,
    SW_UI_PLAN_PARTS,
};
/* "compute", "parameters", "activations", "wait", "rest". */
const char *sw_ui_plan_part_name(enum sw_ui_plan_part p);

struct sw_ui_plan_layer {
    char name[64];
    char partition[16]; /* "0", "1", "1in", "none @1": on worker 1 alone; "--": unknown */
    char comm[8];       /* "ps", "sfb", "adam"; "": no gradient is exchanged */
    double compute_ms;  /* forward and backward */
};

/* A plan that the run followed before. */
struct sw_ui_plan_past {
    char name[32]; /* "until step 200" */
    double predicted_ms, measured_ms;
};
enum { SW_UI_PLAN_PASTS = 8 };

/* NaN: unknown. */
struct sw_ui_plan {
    bool known;     /* the run has a plan */
    char shape[96]; /* "allreduce, 1 group of 4 workers" */
    bool is_async;  /* its groups do not update together */
    double step_ms, part_ms[SW_UI_PLAN_PARTS];
    double mean_ms; /* the measured mean over all steps; NaN while the run trains */
    struct sw_ui_plan_layer *layers; /* owned [layer_count], in the order of the net */
    int layer_count;
    struct sw_ui_plan_past past[SW_UI_PLAN_PASTS]; /* the oldest ones, in order */
    int past_count;
};

/* Frees what *p holds and fills it from a row of the history. Unknown keys are ignored, and what is
 * missing or has another type is unknown. At most most_layers layers are kept. Errors:
 * SW_ERR_FORMAT (then only the times of the row are known), SW_ERR_NOMEM (then nothing is known).
 */
int sw_ui_plan_read(struct sw_ui_plan *p, const struct sw_run_plan_text *row, int most_layers,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_ui_plan_fini(struct sw_ui_plan *p); /* a zeroed one is accepted */

/* What a step took, in the parts of a plan; NaN: unknown. */
struct sw_ui_plan_measured {
    double step_ms; /* median over the newest steps, of the slowest worker of each */
    /* Medians over the newest steps, of one worker: the slowest one of asynchronous groups, else
     * the busiest one.
     *   compute      forward and backward, without the activations
     *   parameters   updates, and waits for new values, also those that slower workers cause
     *   activations  connections between layers that are split differently: the share of forward
     *                and backward that the times of layers give
     *   wait         waits for other workers within a step
     *   rest         reading, decoding and copying of batches (input), and all else */
    double part_ms[SW_UI_PLAN_PARTS], input_ms;
};

struct sw_ui_plan_measured sw_ui_plan_measure(const struct sw_ui_plan *p,
                                              const struct sw_ledger *ledger,
                                              const struct sw_run_layer *layers, int count);
/* The measured time of a layer on its slowest worker, a mean over all steps; NaN: unknown. */
double sw_ui_plan_layer_ms(const char *name, const struct sw_run_layer *layers, int count);

/* Whether a measured time is far from a prediction: by more than a fifth of it, and by more than a
 * hundredth of the predicted step. Unknown times are not. */
bool sw_ui_plan_differs(const struct sw_ui_plan *p, double predicted_ms, double measured_ms);
/* "12 % slower than planned", "as planned", "3.1 times as long as planned"; "" if unknown. */
void sw_ui_plan_verdict(char out[48], const struct sw_ui_plan *p, double step_ms);
