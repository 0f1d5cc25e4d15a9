/* A net in the hands of a program: what a user who writes the loop over the data needs, in place of
 * a job that runs a whole recipe (the thesis' FeedForwardNet, Figure 4.22 and Algorithm 4.3).
 * Layers and updater are written as in a recipe; the program gives batches and calls. Nothing is
 * read from files, nothing is recorded, no thread is started.
 *
 * One owner: the thread that made it. It computes on a device whose memory the host reaches, with
 * an OpenMP team of its own. */
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
    int64_t steps;               /* where schedules of the rate end; 0: far away */
    /* What `field = NAME` of an input layer means; desc.dim[0] of each is the rows of a batch. */
    const struct sw_net_field *fields;
    int field_count;
};

/* Builds the nets for training and evaluation and gives the parameters their initial values. On
 * SW_ERR_INVALID from the text, `messages` holds all errors for the user. Other errors:
 * SW_ERR_UNSUPPORTED (the device), SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_model_new(const struct sw_model_args *args, struct sw_model **out, struct sw_buf *messages,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_model_free(struct sw_model *m); /* NULL is accepted */

/* One update from one batch. data[i] is field i as in args.fields: a whole batch in plain order,
 * host memory that is read during the call. *loss (or NULL) becomes the weighted sum of all losses,
 * per sample, before the update. Errors: SW_ERR_DIVERGED when loss, gradient or value is not
 * finite; those of layers. */
int sw_model_train(struct sw_model *m, void *const *data, double *loss,
                   struct sw_err *err) SW_MUST_CHECK;
/* The losses of a batch without training; of the last rows only `valid_rows` count (all: the rows
 * of a batch). */
int sw_model_evaluate(struct sw_model *m, void *const *data, int64_t valid_rows, double *loss,
                      struct sw_err *err) SW_MUST_CHECK;
/* What losses and metrics said of the last batch, by the names that the history has: "loss",
 * "accuracy"; NaN where there is none. */
double sw_model_result(const struct sw_model *m, const char *name);

/* Updates made so far. */
int64_t sw_model_step(const struct sw_model *m);
/* A parameter by name ("fc.weight"), a view for sw_tensor_read and sw_tensor_write between calls.
 * Errors: SW_ERR_NOTFOUND. */
int sw_model_param(struct sw_model *m, const char *name, struct sw_tensor *out,
                   struct sw_err *err) SW_MUST_CHECK;
