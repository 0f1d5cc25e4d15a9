/* The labels of the data compared with the classes for which the net computes scores. */
#pragma once

#include "base/err.h"

struct sw_job;

/* Call when the net of the split is built, by the main thread. If the data have more classes than a
 * layer has scores, that is an error of the recipe; in training a net with more outputs than
 * classes is a warning where the number of classes is certain. Where the data do not know their
 * classes, the source gets the range of valid labels, and the first record outside it is an error.
 * Errors: SW_ERR_INVALID (see the diagnostics of the recipe). */
int sw_job_check_labels(struct sw_job *job, int split, struct sw_err *err) SW_MUST_CHECK;
