/* Random changes to the values of one finished cut, in raw units, on the way through
 * data/transform.h; the formulas are those of the text below.
 *
 * Colour: every pixel times b; then its distance from the mean grey of the cut times c; then its
 * distance from its own grey times s (three channels only). b, c and s are uniform in 1 - v .. 1 +
 * v; grey is luma of ITU-R BT.601, or the mean over other numbers of channels. Values are not
 * clipped.
 *
 * Elastic distortion (Simard, Steinkraus and Platt, "Best Practices for Convolutional Neural
 * Networks Applied to Visual Document Analysis", ICDAR 2003, section 2): every pixel is taken from
 * a place beside it, by bilinear interpolation; the displacements in x and in y are uniform in -1
 * .. 1 for each pixel, smoothed with a Gaussian of standard deviation sigma (displacements outside
 * the cut are 0), times alpha. Places outside take the nearest pixel of the edge. */
#pragma once

#include "data/transform.h"

/* Changes x, [channels, out_height, out_width], as t asks for: a pure function of (key, sample).
 * Errors: SW_ERR_NOMEM. */
int sw_distort(const struct sw_transform *t, struct sw_transform_work *w, struct sw_philox key,
               int64_t sample, float *x, struct sw_err *err) SW_MUST_CHECK;
