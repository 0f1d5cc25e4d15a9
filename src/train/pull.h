/* A worker gets new values of parameters. */
#ifndef SW_TRAIN_PULL_H
#define SW_TRAIN_PULL_H

#include "base/err.h"
#include <stdint.h>

struct sw_worker;

/* The parameter's values of `version` are where the worker's nets read: in the table, or once what
 * is queued is done on its device. */
int sw_pull_param(struct sw_worker *w, int param, uint64_t version,
                  struct sw_err *err) SW_MUST_CHECK;
/* Waits until the party's update `version` of the parameter is applied, and serves meanwhile. */
int sw_pull_wait(struct sw_worker *w, int party, int param, uint64_t version,
                 struct sw_err *err) SW_MUST_CHECK;
/* Waits until all updates `version` of all parameters are applied, whoever gives them; nothing is
 * copied to a device. */
int sw_pull_wait_all(struct sw_worker *w, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* The same of the updates of those with whom the worker makes them. */
int sw_pull_wait_own(struct sw_worker *w, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Waits until all parameters of a net are at `version`. */
int sw_pull_all(struct sw_worker *w, int split, uint64_t version, struct sw_err *err) SW_MUST_CHECK;

#endif
