/* Plans on 16-bit activations for devices without one: floats in scratch around an fp32 plan of the
 * same device. A plan has one owner, the worker of the stream. */
#pragma once

#include "device/plan.h"

/* Source, result and their gradients are converted by reorder plans, which round each result once.
 * Errors: those of the fp32 plan, SW_ERR_NOMEM. */
sw_plan_maker sw_converted_plan SW_MUST_CHECK;
