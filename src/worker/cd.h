/* Contrastive divergence. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_worker;

/* The Gibbs chains of step t, between its passes forward and backward; without machines nothing. */
int sw_cd_chains(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
