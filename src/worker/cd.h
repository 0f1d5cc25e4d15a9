/* Contrastive divergence. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_worker;

/* Runs the Gibbs chains of step t, between its forward and its backward pass; does nothing for a
 * net without RBMs. */
int sw_cd_chains(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
