/* Updates as operations of a device: the updater runs where values, state and gradients are, so
 * that no value is copied (`copy = none`). One operation updates a list of whole parameters of a
 * worker, with the same constants, and so the same bits, as a server. By the stream's owner. */
#pragma once

#include "exchange/table/table.h"
#include "kernels/ops/update.h"

/* Device memory of a parameter, with as many elements as its layout has, or of a list of them. */
struct sw_param_place {
    float *value, *slot[SW_UPDATER_SLOTS]; /* slots that the updater does not have are NULL */
    float *gradient;                       /* NULL where it is frozen */
    bool *bad;                             /* set when something is not finite */
    struct sw_update_numbers *numbers;     /* constants of the next update */
    const struct sw_update_control_result
        *control; /* result of update control; NULL where each parameter is updated alone */
};

/* Parameters of a worker that one operation updates, because their gradients are known together.
 * Each of their arrays is a part of one array, at the same place in all of them. */
struct sw_update_list {
    struct sw_param_place at; /* of the whole list */
    int first, count;         /* places of its parameters (struct sw_port) */
    int64_t elements;
    int64_t chunks; /* struct sw_update_numbers */
};

/* Fills the constants of *out with those of update `version` (1, 2, ...) of the parameter, and
 * returns its formula, which is the same for all versions. `before`: applied updates that precede
 * it, those of other update groups included, or SW_UPDATES_OF_ONE_GROUP. */
#define SW_UPDATES_OF_ONE_GROUP UINT64_MAX
const struct sw_update_formula *sw_table_update_numbers(const struct sw_table *t, int param,
                                                        uint64_t version, uint64_t before,
                                                        struct sw_update_numbers *out);
/* Queues the update with the constants and gradients in list->at: those of the only contributor, or
 * copies of the sums (updates_on_device). */
int sw_table_update_on_device(const struct sw_table *t, const struct sw_update_formula *formula,
                              const struct sw_update_list *list, struct sw_stream *s,
                              struct sw_err *err) SW_MUST_CHECK;
