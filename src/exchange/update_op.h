/* An update as an operation of a device: the updater runs where values, state and gradient are, so
 * that no value is copied (`copy = none`). One worker's whole parameter at a time, with the same
 * constants, and so the same bits, as a server. By the stream's owner. */
#pragma once

#include "exchange/table/table.h"
#include "kernels/ops/update.h"

/* Device memory of a parameter, with as many elements as its layout has. */
struct sw_param_place {
    float *value, *slot[SW_UPDATER_SLOTS]; /* slots that the updater does not have are NULL */
    float *gradient;                       /* NULL where it is frozen */
    bool *bad;                             /* set when something is not finite */
    struct sw_update_numbers *numbers;     /* constants of the next update */
    const struct sw_update_control_result
        *control; /* result of update control; NULL where each parameter is updated alone */
};

/* Fills *out with the constants of update `version` (1, 2, ...) of the parameter, and returns its
 * formula, which is the same for all versions. */
const struct sw_update_formula *sw_table_update_numbers(const struct sw_table *t, int param,
                                                        uint64_t version,
                                                        struct sw_update_numbers *out);
/* Queues the update with the constants in place->numbers and the gradient in place->gradient: that
 * of the only contributor, or a copy of the sum (updates_on_device). */
int sw_table_update_on_device(const struct sw_table *t, int param,
                              const struct sw_update_formula *formula,
                              const struct sw_param_place *place, struct sw_stream *s,
                              struct sw_err *err) SW_MUST_CHECK;
