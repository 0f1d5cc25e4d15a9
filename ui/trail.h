/* Downsamples a curve of any length into bounded memory. Values are added in order of x. When the
 * array is full, neighboring points are merged in pairs, which keep the range of their values, and
 * from then on a point covers twice as many values. A run of a million steps is drawn as fast as
 * one of a thousand. One owner. */
#pragma once

#include "ui/chart.h"
#include <stdint.h>

struct sw_trail {
    struct sw_point *points; /* owned [capacity] */
    size_t count, capacity;
    int64_t per_point; /* number of values in a full point */
    int64_t in_last;   /* number of values in the last point */
    double last_x, last_y;
};

/* capacity is even. Errors: SW_ERR_NOMEM. Free with sw_trail_fini. */
int sw_trail_init(struct sw_trail *f, size_t capacity, struct sw_err *err) SW_MUST_CHECK;
void sw_trail_fini(struct sw_trail *f);
void sw_trail_clear(struct sw_trail *f);
/* Adds a value. A y that is not finite does not count for the range; a point without a finite value
 * has y NaN. */
void sw_trail_add(struct sw_trail *f, double x, double y);
/* The point nearest to x, or NULL if there are none. */
const struct sw_point *sw_trail_near(const struct sw_trail *f, double x);
