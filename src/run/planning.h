/* Connects the planner (planner/) with real jobs: the model of a job's net, times of its layers
 * that were measured, what a plan would need on real devices, and the settings by which a job
 * follows a plan.
 *
 * Thread rule: as run/job.h; all functions by one thread. */
#pragma once

#include "planner/parallel_plan.h"
#include "run/job.h"

struct sw_history_reader;
struct sw_run;

/* ---- The model of a net (planning_open.c, planning_net.c) ---- */

/* Opens a job as a model: with the options, but one worker, whatever [cluster] and the locations of
 * layers say, and without memory = fit. It cannot run. Errors: those of sw_job_open. */
int sw_planning_open(const struct sw_job_options *options, struct sw_log *log, struct sw_job **out,
                     struct sw_bytes *messages, struct sw_err *err) SW_MUST_CHECK;

/* Makes the model of the training net of such a job: its layers are the rows of sw_job_plan that
 * the training net has, so an unrolled layer is one, and can only be split by rows, or be where its
 * section says. Flops and
 * memory are those of `check`. The bytes that a pass reads and writes are an estimate in which each
 * array counts once: forward reads sources and parameters and writes the output and what it saves;
 * backward reads the gradient of the output, parameters, what was saved and the old values that it
 * needs, and writes the gradients of sources and parameters. The job must outlive the model.
 * Errors: SW_ERR_INVALID (a job with several workers), SW_ERR_UNSUPPORTED (a layer reads too many
 * others), SW_ERR_NOMEM. */
int sw_planning_net(const struct sw_job *job, struct sw_net_model **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_planning_net_free(struct sw_net_model *m); /* NULL is accepted */

/* What the keys of the recipe decide for each layer, as struct sw_search_limits has it. */
struct sw_planning_keys {
    int *partition, *location, *comm; /* owned [layers]; -1: the layer has no such key, or it is
                                         unrolled without a location and split by rows */
};
int sw_planning_keys(const struct sw_net_model *m, struct sw_planning_keys *out,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_planning_keys_fini(struct sw_planning_keys *k); /* a zeroed one is accepted */

/* ---- Measured times (planning_run.c, planning_measure.c, planning_rest.c) ---- */

/* Adds what a run recorded of its layers and updates as samples to the model, which is that of the
 * same recipe and settings. source gets where they come from: "run 12 of 2026-11-28"; *workers and
 * *step_s: the run's workers, and a whole step of theirs, 0 if unknown. Errors: SW_ERR_UNSUPPORTED
 * (the run has no times of layers, or its layers were not all split by rows), those of the history.
 */
int sw_planning_times_of_run(struct sw_net_model *m, struct sw_history_reader *r,
                             const struct sw_run *run, char source[64], int *workers,
                             double *step_s, struct sw_err *err) SW_MUST_CHECK;

/* Adds samples of `workers` workers: of all layers by rows with whole gradients, of what such steps
 * take beside their layers when they exchange factors where possible, or of the layers that can be
 * split by columns; from the file calibration.json of the state directory, which has those of this
 * host with the same net, batch, device, threads and split, or else by training a few steps with a
 * history of their own, which is removed; the result is then stored. `again`: measures in any case.
 * source: "measured 2026-11-28", or "" if nothing was measured: nothing is stored, no layer can be
 * split or exchanged like that, or a job with such layers cannot run here. Errors: those of
 * sw_job_open and sw_job_run. */
struct sw_planning_measurement {
    const struct sw_job_options *options; /* those of the model's job */
    struct sw_log *log;
    int workers, threads; /* math threads of each worker on cores; 0: as many as there are cores */
    enum sw_step_kind kind;
    bool again;
    bool stored_only; /* nothing is trained */
    /* What a step takes beside its layers is the measured step less the simulated one. */
    const struct sw_machine_model *machine; /* borrowed: that of the workers; NULL: not found out */
    bool no_overlap;
    double bandwidth; /* as in struct sw_simulation_args */
};
int sw_planning_measure(struct sw_net_model *m, const struct sw_planning_measurement *how,
                        char source[64], struct sw_err *err) SW_MUST_CHECK;
/* Adds what a step of a run takes beside its layers, as sw_planning_measure does of its own;
 * how->machine is set. Errors: those of sw_simulate. */
int sw_planning_add_rest(struct sw_net_model *m, const struct sw_planning_measurement *how,
                         double step_s, struct sw_err *err) SW_MUST_CHECK;

/* ---- What a run under a plan measured (planning_correct.c) ---- */

/* Corrects the times of layers for one number of workers and threads. */
struct sw_planning_correction {
    int workers, threads; /* of the samples that change, as in struct sw_layer_sample */
    double compute;       /* factor of the times of passes */
    double params;        /* of those of updates */
    double rest_s;        /* how much longer a step takes beside its layers */
    /* What the model says without samples of that kind: by layer, borrowed for the call; and beside
     * the layers. */
    const struct sw_layer_sample *predicted;
    double predicted_rest_s;
};
/* Errors: SW_ERR_NOMEM. */
int sw_planning_correct(struct sw_net_model *m, const struct sw_planning_correction *c,
                        struct sw_err *err) SW_MUST_CHECK;

/* ---- Following a plan (planning_texts.c) ---- */

/* The settings of a plan that the recipe does not have yet. */
struct sw_planning_texts {
    char **sets; /* owned [count]: texts of --set, "layer.fc6.comm=sfb" */
    int count;
    char *ini; /* owned: the same as lines of a recipe, with the headers of sections */
};
/* m is the model that the plan is for; the counts of the plan are those of each of `hosts` hosts.
 * Errors: SW_ERR_INVALID (the location that the recipe gives a
 * layer is not that of the plan), SW_ERR_NOMEM. Free with sw_planning_texts_fini in every case. */
int sw_planning_texts(const struct sw_net_model *m, const struct sw_parallel_plan *p, int hosts,
                      struct sw_planning_texts *out, struct sw_err *err) SW_MUST_CHECK;
void sw_planning_texts_fini(struct sw_planning_texts *t); /* a zeroed one is accepted */

/* What `check` says that a job needs on its devices. */
struct sw_planning_memory {
    int64_t *device_bytes; /* owned, one per worker: of its device, with what others have on it; 0:
                              it computes in host memory */
    int workers;
    int64_t host_bytes;     /* of the whole job */
    struct sw_plan_fit fit; /* without its seconds */
};
/* Opens the job with the settings of a plan and those of `device` ("cuda:0,1", "sim:gpus=8",
 * "cpu"; NULL: as in the options). rates: of the machine for which is planned, by which memory =
 * fit chooses; NULL: those of the devices. Errors: SW_ERR_NOMEM (it does not fit; the text says how
 * much is missing), those of sw_job_open with all messages as the text. */
int sw_planning_memory(const struct sw_job_options *options, const struct sw_planning_texts *plan,
                       const char *device, const struct sw_device_throughput *rates,
                       struct sw_planning_memory *out, struct sw_err *err) SW_MUST_CHECK;
void sw_planning_memory_fini(struct sw_planning_memory *m); /* a zeroed one is accepted */
