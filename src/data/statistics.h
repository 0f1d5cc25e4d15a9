/* Statistics files, written by `data stats` for a training set and read by [data] sections: a mean
 * image, and the data for ZCA whitening (Bell and Sejnowski, "The 'independent components' of
 * natural scenes are edge filters", Vision Research 37, 1997): the mean of finished rows, and the
 * symmetric matrix (covariance + epsilon)^(-1/2).
 *
 * In a .safetensors file the tensors are `mean` [C, H, W], `whiten.mean` [C, H, W] and
 * `whiten.matrix` [D, D] with D = C * H * W, all f32; a mean image may also be a .npy file. Called
 * at setup, by one thread. */
#pragma once

#include "base/err.h"
#include <stdint.h>

/* Reads a mean image with the given number of channels into new memory (free with sw_free) and
 * returns its height and width. A 2-d array has one channel. Errors: SW_ERR_NOTFOUND, SW_ERR_IO,
 * SW_ERR_FORMAT, SW_ERR_INVALID (another shape), SW_ERR_NOMEM. */
int sw_statistics_mean(const char *path, int64_t channels, float **mean, int64_t *height,
                       int64_t *width, struct sw_err *err) SW_MUST_CHECK;

/* Reads mean [count] and matrix [count, count] into new memory (sw_free). Errors as above. */
int sw_statistics_whiten(const char *path, int64_t count, float **mean, float **matrix,
                         struct sw_err *err) SW_MUST_CHECK;
