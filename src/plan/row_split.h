/* Which rows of a batch are in which microbatch, and so which worker computes them. Rebalancing
 * moves rows between workers, only while all of them stand at a barrier; at other times any thread
 * reads. */
#pragma once

#include "plan/topology.h"

struct sw_row_split {
    int microbatches;          /* of each worker group */
    int64_t *rows[SW_SPLITS];  /* owned [worker groups][microbatches] */
    int64_t *first[SW_SPLITS]; /* owned, likewise: the row of the batch where each begins */
};

/* Microbatches as equal as can be. Errors: SW_ERR_NOMEM. */
int sw_row_split_init(struct sw_row_split *s, const struct sw_topology *t,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_row_split_fini(struct sw_row_split *s); /* a zeroed one is accepted */
/* Gives the microbatches of the only worker group these rows of a training batch, and as near as
 * can be the same shares of an evaluation batch. */
void sw_row_split_set(struct sw_row_split *s, const struct sw_topology *t, const int64_t *rows);

/* A worker's rows: of each of its microbatches, of all of them, and where the first one begins. */
const int64_t *sw_row_split_microbatches(const struct sw_row_split *s, const struct sw_rank *r,
                                         int split);
int64_t sw_row_split_count(const struct sw_row_split *s, const struct sw_rank *r, int split);
int64_t sw_row_split_first(const struct sw_row_split *s, const struct sw_rank *r, int split);

/* Deals out `total` rows in proportion to `shares`, one at least each; ties go to the first. */
void sw_rows_share(int64_t total, int count, const double *shares, int64_t *out);
