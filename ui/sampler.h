/* Samples the machine that the dashboard runs on and the process of the trainer: /proc, /sys and
 * the machine map. Busy fractions and throughput are averages since the previous sample. Sampling
 * does not disturb the trainer. One owner. */
#pragma once

#include "ui/model.h"

struct sw_sampler;

/* Makes a sampler of this machine. Errors: SW_ERR_NOMEM. */
int sw_sampler_new(struct sw_sampler **out, struct sw_err *err) SW_MUST_CHECK;
void sw_sampler_free(struct sw_sampler *s); /* NULL is accepted */
/* Takes a sample and fills *m. pid is the process of the trainer; 0: none. Values that cannot be
 * read are NaN. */
void sw_sampler_sample(struct sw_sampler *s, int64_t pid, struct sw_ui_machine *m);
