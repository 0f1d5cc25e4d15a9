/* Losses and metrics of a net by name, and their sums over batches. Called by the worker that owns
 * the series.
 *
 * Every loss and metric returns pairs (sum, weight). Pairs are added over batches, then over
 * workers in the order of base/tree.h, and divided only then, so a result is a mean over all
 * samples. The loss of a net is the sum of the means of its losses: each has its own weight. */
#pragma once

#include "net/microbatches.h"
#include "worker/observer.h"

/* The losses and metrics of one net as users see them, loss first: names, history handles, and
 * where each value comes from; and the pairs of all results that the values are computed from. */
struct sw_series {
    int count;
    char name[SW_JOB_METRICS][SW_JOB_METRIC_NAME];
    int result[SW_JOB_METRICS]; /* index in the net's results; -1: the sum of all losses */
    int which[SW_JOB_METRICS];  /* index in the result's values */
    int handle[SW_JOB_METRICS];
    int microbatches, pairs;
    struct sw_result *sums;   /* owned [microbatches][pairs]: sums over the worker's rows of the
                                 current step or evaluation */
    struct sw_result *totals; /* owned [pairs]: over the group, where this worker reads them */
};

/* Names a net's results (loss, accuracy, accuracy.top5 ...) and allocates the pairs of `parts`
 * microbatches. Errors: SW_ERR_INVALID with a message in the recipe (too many, or two with one
 * name), SW_ERR_NOMEM. */
int sw_series_init(struct sw_series *s, struct sw_recipe *recipe, const struct sw_net *net,
                   int microbatches, struct sw_err *err) SW_MUST_CHECK;
void sw_series_fini(struct sw_series *s); /* a zeroed one is accepted */
/* Index of the value with that name; -1: none. */
int sw_series_find(const struct sw_series *s, const char *name);
/* Is a smaller value better, as for losses and some metrics? */
bool sw_series_less_is_better(const struct sw_net *net, const struct sw_series *s, int i);
void sw_series_clear(struct sw_series *s); /* sums become zero */
/* Adds the pairs of the microbatch's last forward pass to its s->sums. */
void sw_results_add(const struct sw_net *net, struct sw_series *s, int microbatch);
/* Sets s->totals to the sum over the worker's own microbatches. */
void sw_results_sum_own(struct sw_series *s);
/* The weighted sum of all losses from these pairs; NaN if they have no weight. */
double sw_results_loss(const struct sw_net *net, const struct sw_result *pairs);
/* The weighted sum of all losses of the nets' last forward pass, after they were copied to the
 * host, or with behind = 1 of the step before; also fills the pairs in s. */
double sw_results_step_loss(struct sw_microbatches *microbatches, int behind, struct sw_series *s);
/* Computes all values from these pairs; *count of them. */
void sw_results_read(const struct sw_net *net, const struct sw_series *s,
                     const struct sw_result *pairs, struct sw_job_metric *out, int *count);
