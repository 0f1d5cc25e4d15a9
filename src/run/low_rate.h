/* Steps whose learning rate is too low to train, which a user should know before the training. */
#pragma once

struct sw_job;

/* Adds warnings to the job's report, and sets plan.extension. Call when the span of the job and its
 * parameter table are known, after sw_job_describe_roles; by the main thread. */
void sw_low_rate_describe(struct sw_job *job);
