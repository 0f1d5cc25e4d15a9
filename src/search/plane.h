/* The plane in which vectors differ most: their two principal components, to draw high-dimensional
 * codes as points (thesis, Figures 5.7 to 5.9 and 5.15). Sets that are compared with each other
 * share one plane. One owner. */
#pragma once

#include "search/vectors.h"

/* Projects the rows of checked sets of the same dims, the first set first, on the plane through the
 * mean of all rows: xy [all rows][2]. share[i] becomes the share of the variance that lies along
 * axis i; it is 0 where vectors do not differ. The sign of an axis is such that its largest element
 * is positive, so the same vectors give the same drawing. Computed in double by subspace iteration
 * in a fixed order. Errors: SW_ERR_INVALID (dims differ), SW_ERR_NOMEM, SW_ERR_CANCELLED. */
int sw_plane_project(const struct sw_vectors *sets, int count, float *xy, double share[2],
                     struct sw_err *err) SW_MUST_CHECK;
