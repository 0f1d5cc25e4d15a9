/* A net for a program that writes its own loop over the data, instead of a job that runs a whole
 * recipe (the thesis' FeedForwardNet, Figure 4.22 and Algorithm 4.3). Layers and updater are
 * written as in a recipe; the program supplies batches and calls. Nothing is read from files,
 * nothing is recorded, no thread is started.
 *
 * One owner: the thread that made it. It computes on a device whose memory the host can access,
 * with an OpenMP team of its own. */
#pragma once

#include "base/str.h"
#include "net/net.h"
#include "tensor/tensor.h"

struct sw_model;

struct sw_model_args {
    const char *recipe;       /* text of [layer NAME], [updater] and [updater PATTERN] sections */
    struct sw_device *device; /* borrowed until sw_model_free */
    int threads;              /* math threads: 1 or more */
    uint64_t seed;            /* of initial values and dropout */
    enum sw_algorithm algorithm; /* cd: persistent chains start over with every batch */
    int64_t steps;               /* horizon of learning-rate schedules; 0: unlimited */
    /* The fields that `field = NAME` of an input layer refers to; desc.dim[0] of each is the rows
     * of a batch. */
    const struct sw_net_field *fields;
    int field_count;
};

/* Builds the nets for training and evaluation and initializes the parameters. On SW_ERR_INVALID
 * from the text, `messages` holds all errors for the user. Other errors: SW_ERR_UNSUPPORTED (the
 * device), SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_model_new(const struct sw_model_args *args, struct sw_model **out, struct sw_bytes *messages,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_model_free(struct sw_model *m); /* NULL is accepted */

/* Makes one update from one batch. data[i] is field i as in args.fields: a whole batch in plain
 * order, host memory that is read during the call. *loss (may be NULL) is set to the weighted sum
 * of all losses, per sample, before the update. Errors: SW_ERR_DIVERGED when loss, gradient or
 * value is not finite; those of layers. */
int sw_model_train(struct sw_model *m, void *const *data, double *loss,
                   struct sw_err *err) SW_MUST_CHECK;
/* Computes the losses of a batch without training; only the first `valid_rows` rows count (all: the
 * rows of a batch). */
int sw_model_evaluate(struct sw_model *m, void *const *data, int64_t valid_rows, double *loss,
                      struct sw_err *err) SW_MUST_CHECK;
/* The value of a loss or metric for the last batch, by its name in the history: "loss", "accuracy";
 * NaN if there is none. */
double sw_model_result(const struct sw_model *m, const char *name);

/* Updates made so far. */
int64_t sw_model_step(const struct sw_model *m);
/* A parameter by name ("fc.weight"), a view for sw_tensor_read and sw_tensor_write between calls.
 * Errors: SW_ERR_NOTFOUND. */
int sw_model_param(struct sw_model *m, const char *name, struct sw_tensor *out,
                   struct sw_err *err) SW_MUST_CHECK;
