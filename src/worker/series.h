/* Losses and metrics of a net by name, and their sums over batches (results.c). Called by the
 * worker whose series it is.
 *
 * Every loss and metric answers pairs (sum, weight). Pairs are added over batches, then over
 * workers in the order of base/tree.h, and divided only then, so a result is a mean over all
 * samples. The loss of a net is the sum of the means of its losses: each has a weight of its own.
 */
#pragma once

#include "net/parts.h"
#include "worker/observer.h"

/* What users see of one net's losses and metrics, loss first: names, history handles, and where
 * each value comes from; with the pairs of all its results that the values are read from. */
struct sw_series {
    int count;
    char name[SW_JOB_METRICS][SW_JOB_METRIC_NAME];
    int result[SW_JOB_METRICS]; /* index in the net's results; -1: the sum of all losses */
    int which[SW_JOB_METRICS];  /* of the result's values */
    int handle[SW_JOB_METRICS];
    int parts, pairs;
    struct sw_result *sums;   /* owned [parts][pairs]: own rows of the step or evaluation under way,
                                 by their parts */
    struct sw_result *totals; /* owned [pairs]: over the group, where this worker reads them */
};

/* Names for a net's results (loss, accuracy, accuracy.top5 ...) and room for the pairs of so many
 * nets. Errors: SW_ERR_INVALID with a message in the recipe (too many, or two of one name),
 * SW_ERR_NOMEM. */
int sw_series_init(struct sw_series *s, struct sw_recipe *recipe, const struct sw_net *net,
                   int parts, struct sw_err *err) SW_MUST_CHECK;
void sw_series_fini(struct sw_series *s); /* a zeroed one is accepted */
/* The value of that name; -1: there is none. */
int sw_series_find(const struct sw_series *s, const char *name);
/* Losses and some metrics get better by getting smaller. */
bool sw_series_less_is_better(const struct sw_net *net, const struct sw_series *s, int i);
void sw_series_clear(struct sw_series *s); /* sums become zero */
/* The pairs of the part's last forward pass are added to its s->sums. */
void sw_results_add(const struct sw_net *net, struct sw_series *s, int part);
/* s->totals becomes the sum over the worker's own parts. */
void sw_results_sum_own(struct sw_series *s);
/* The weighted sum of all losses that these pairs say, NaN where they say nothing. */
double sw_results_loss(const struct sw_net *net, const struct sw_result *pairs);
/* The weighted sum of all losses of the nets' last forward pass, once they are on the host; s then
 * has what metrics are made of. */
double sw_results_step_loss(struct sw_parts *parts, struct sw_series *s);
/* All values that these pairs say; *count of them. */
void sw_results_read(const struct sw_net *net, const struct sw_series *s,
                     const struct sw_result *pairs, struct sw_job_metric *out, int *count);
