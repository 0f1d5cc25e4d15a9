/* The speed of the hosts of a job and of the network between them, which all of them measure
 * together while they open it, so that they make the same choices. A test of links (link_test.h)
 * that ends before the fabric of the job is opened. */
#pragma once

#include "base/err.h"
#include "exchange/hosts/hosts.h"
#include "plan/exchange_cost.h"
#include <stdbool.h>

struct sw_job;

/* What was measured; for all stages of a run. */
struct sw_host_links {
    bool known;
    struct sw_host_rates rates;
    double bytes_per_s[SW_MOST_HOSTS][SW_MOST_HOSTS]; /* from a host to another one */
};

/* Sets *out to the same rates on all hosts: those of the first call. All hosts must call, in the
 * same order with other meetings; waits for them. Errors: those of sw_link_test. */
int sw_host_rates_measure(struct sw_job *job, struct sw_host_rates *out,
                          struct sw_err *err) SW_MUST_CHECK;
/* The measured rate of a link, or 0. */
double sw_host_rates_of(const struct sw_job *job, int from, int to);
