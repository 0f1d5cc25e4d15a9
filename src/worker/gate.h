/* Requests to a running job, and the gate where its workers pause. */
#pragma once

#include "thread/fault.h"
#include "thread/thread.h"
#include "worker/observer.h"

struct sw_events;

/* Where workers pause, and where they leave an evaluation together. */
struct sw_gate {
    struct sw_mutex lock; /* guards the others */
    struct sw_cond changed;
    bool closed;
    int64_t through; /* the last step whose pause has ended */
    bool stop;       /* a stop request ended the pause */
    /* The evaluation after step eval_step: how many of its rounds any worker has begun, and how
     * many rounds it has. */
    int64_t eval_step, eval_begun, eval_rounds;
};

/* Requests to a running job. */
struct sw_requests {
    /* Several processes train the job together: tells the others the own requests, and returns
     * those that all carry out after this step; in a pause (step SW_GATE_PAUSED) those of all, for
     * which all processes call it equally often. NULL: there is only this one. */
    int (*agree)(void *user, int64_t step, int own);
    void *agree_user;
    int bits;              /* atomic: enum sw_job_request_kind; read by sw_requests_get */
    int releases;          /* atomic: the workers end because of SW_JOB_RELEASE */
    int replans;           /* atomic: the workers end because of SW_JOB_REPLAN */
    bool can_release;      /* the program continues a run that has released its memory */
    bool holds_stop;       /* atomic: the leader has called sw_stop_hold */
    int display_requested; /* atomic: the main thread requests a display event */
    struct sw_gate gate;
    struct sw_events *events; /* borrowed */
};

/* Requests to the job and to the whole process; enum sw_job_request_kind bits. Any thread. */
int sw_requests_get(const struct sw_requests *r);
void sw_requests_set(struct sw_requests *r, enum sw_job_request_kind what);
/* Are the workers to end, by SW_JOB_STOP or SW_JOB_RELEASE? Notes which one it is. Any thread. */
bool sw_requests_end(struct sw_requests *r);
/* After an evaluation that is not the job's last one: are the workers to end by SW_JOB_REPLAN?
 * Notes it. requested: by sw_requests_take. */
bool sw_requests_replan(struct sw_requests *r, int requested);
enum { SW_GATE_PAUSED = -1 };
/* The requests that the workers carry out after this step (ascending), or in a pause; the same in
 * all processes of the job. A request for a checkpoint is returned once. By one worker at a time.
 */
int sw_requests_take(struct sw_requests *r, int64_t step);

/* Registers the gate with the fault, which ends all waits. */
int sw_gate_init(struct sw_requests *r, struct sw_fault *fault, struct sw_err *err) SW_MUST_CHECK;
void sw_gate_fini(struct sw_requests *r, struct sw_fault *fault);
/* Called before round n of the evaluation after that step: false when the job is to stop, and all
 * workers leave the evaluation here. */
bool sw_gate_begin_round(struct sw_requests *r, int64_t step, int64_t n);
/* Waits for a while in the pause after that step; called repeatedly until *over, by a worker whose
 * updates are all applied. *checkpoint: the leader is to write one now. *stop: the run is to end
 * here; the same for all workers. Errors: SW_ERR_CANCELLED. */
int sw_gate_wait(struct sw_requests *r, int64_t step, bool leads, bool *over, bool *checkpoint,
                 bool *stop, struct sw_err *err) SW_MUST_CHECK;
