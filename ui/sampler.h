/* Samples the machine that the dashboard runs on and the process of the trainer: /proc, /sys and
 * the machine map. Shares and rates are those since the previous sample. Nothing here touches the
 * trainer. One owner. */
#pragma once

#include "ui/model.h"

struct sw_sampler;

/* Errors: SW_ERR_NOMEM. */
int sw_sampler_new(struct sw_sampler **out, struct sw_err *err) SW_MUST_CHECK;
void sw_sampler_free(struct sw_sampler *s); /* NULL is accepted */
/* pid 0: no process. What cannot be read is NaN. */
void sw_sampler_sample(struct sw_sampler *s, int64_t pid, struct sw_ui_machine *m);
