/* Random changes to the values of one cropped row, in raw units; a step of data/transform.h.
 *
 * Color: every pixel is multiplied by b; then its distance from the mean gray of the row by c; then
 * its distance from its own gray by s (three channels only). b, c and s are uniform in 1 - v .. 1 +
 * v; gray is the luma of ITU-R BT.601, or the mean over the channels if there are not three. Values
 * are not clipped.
 *
 * Elastic distortion (Simard, Steinkraus and Platt, "Best Practices for Convolutional Neural
 * Networks Applied to Visual Document Analysis", ICDAR 2003, section 2): every pixel is sampled at
 * a displaced position by bilinear interpolation. The displacements in x and y are uniform in -1 ..
 * 1 for each pixel, smoothed with a Gaussian of standard deviation sigma (displacements outside the
 * row are 0) and multiplied by alpha. Positions outside take the nearest pixel of the edge. */
#pragma once

#include "data/transform.h"

/* Applies the enabled changes to x, [channels, out_height, out_width]: a pure function of (key,
 * sample). Errors: SW_ERR_NOMEM. */
int sw_distort(const struct sw_transform *t, struct sw_transform_work *w, struct sw_philox key,
               int64_t sample, float *x, struct sw_err *err) SW_MUST_CHECK;
