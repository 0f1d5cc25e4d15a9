/* A worker's end of the exchange: created after its device and its nets, and bound to the nets
 * whenever these are new. By the worker's thread, or by the leader while all workers wait. */
#pragma once

#include "exchange/exchange.h"

struct sw_worker;

/* Makes the worker's exchange (exchange/exchange.h). Errors: SW_ERR_NOMEM, those of the device. */
int sw_worker_make_exchange(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The bytes that sw_worker_make_exchange allocates. */
struct sw_exchange_bytes sw_worker_exchange_bytes(const struct sw_worker *w);
/* The parameters of the training or the evaluation net, as indices of the table. */
struct sw_param_list sw_worker_params(const struct sw_worker *w, int split);
/* Binds values, gradients and factors of the worker's rows to the nets. */
void sw_worker_bind_params(struct sw_worker *w);
