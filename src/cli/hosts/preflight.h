/* The pre-flight of a job on several hosts, for `check --hosts` and `run --plan --hosts`: every
 * host opens the job, tells what it is, and the links between them are measured. Nothing is trained
 * or written. */
#pragma once

#include "cli/hosts/hosts.h"

struct sw_json_writer;

struct sw_preflight; /* the results; NULL: this machine alone */

/* job: the options with which `open` was opened. Messages on stderr say what a host lacks. Errors:
 * those of sw_job_on_hosts_begin and sw_link_test; SW_ERR_CANCELLED. */
int sw_preflight_run(const struct sw_hosts_options *o, const struct sw_job_options *job,
                     const struct sw_job *open, struct sw_report *report, struct sw_preflight **out,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_preflight_free(struct sw_preflight *p);
/* Appends a table of hosts, one of links, the time of an exchange, and what the hosts do not agree
 * on. */
void sw_preflight_print(const struct sw_preflight *p, struct sw_bytes *out);
void sw_preflight_json(const struct sw_preflight *p, struct sw_json_writer *w);
/* Whether the hosts differ in something that must be the same. */
bool sw_preflight_differs(const struct sw_preflight *p);

/* What a plan for these hosts needs to know. */
struct sw_preflight_figures {
    int hosts;
    double bytes_per_s, latency_s; /* of the slowest link; of a message one way, the longest */
    char source[64];               /* "measured, slowest link: a to b" */
    int least_cores;               /* of a host; 0: unknown */
    char unlike[256];              /* "b has 4 cores, and a has 16"; "": all are like host 0 */
};
void sw_preflight_figures(const struct sw_preflight *p, struct sw_preflight_figures *out);

/* The part of another host: writes its facts to stdout, and takes part in the measurement. */
int sw_preflight_join(const struct sw_job *open, const struct sw_launch *launch,
                      struct sw_err *err) SW_MUST_CHECK;
