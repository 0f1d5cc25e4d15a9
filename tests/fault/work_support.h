/* The kinds of work of a small job, from its opening to its end: what is to go wrong in the middle
 * of each of them is up to the tests. Include once per program. */
#pragma once

#include "fault_support.h"
#include "infer/evaluate_alone.h"
#include "infer/predict.h"

enum work {
    TRAIN,    /* opens, trains 4 steps with evaluations and checkpoints, closes */
    RESUME,   /* finds the reference run, goes on from its checkpoint 2 to 4 */
    EVALUATE, /* one pass with the reference's weights */
    PREDICT,  /* a layer's rows */
    PARTS,    /* trains with virtual workers */
    STAGED,   /* trains in two stages, the second of which takes from the first */
};

static const char staged_recipe[] =
    "[job]\nbatch = 16\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS NET_SECTIONS
    "[layer more]\ntype = inner_product\nsrc = relu2\noutputs = 4\nstages = a\n"
    "[layer aside]\ntype = softmax_loss\nsrc = more, label\nstages = a\n"
    "[stage a]\nsteps = 2\n"
    "[stage b]\nsteps = 2\nfreeze = conv1\ninit_from = previous, more.weight -> fc2.weight\n";

static inline int take_info(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    return SW_OK;
}

static inline int take_rows(void *user, int64_t count, const float *values, struct sw_err *err)
{
    return SW_OK;
}

static inline void predict(struct trial *t)
{
    const struct sw_predict_args args = {.weights = in_home("reference.safetensors"),
                                         .layer = "fc2"};
    const struct sw_predict_sink sink = {take_info, take_rows, NULL};
    struct sw_predict_info info;
    t->rc = sw_job_predict(t->job, &args, &sink, &info, &t->err);
}

static inline void do_work(enum work work, struct trial *t)
{
    struct sw_job_event e;
    t->predict = work == PREDICT;
    if (work == RESUME) {
        t->resume = "reference";
        t->resume_step = 2;
    }
    if (trial_open(t) != SW_OK)
        return;
    if (work == EVALUATE)
        t->rc = sw_job_evaluate(t->job, checkpoint_path("reference", 4), &e, &t->err);
    else if (work == PREDICT)
        predict(t);
    else
        trial_run(t);
}

/* What EVALUATE, PREDICT and RESUME read. */
static inline void train_reference(void)
{
    train(.name = "reference", .steps = 4, .sets = {"job.checkpoint_every=2"});
    unlink(in_home("reference.safetensors"));
    assert_int_equal(link(checkpoint_path("reference", 4), in_home("reference.safetensors")), 0);
}
