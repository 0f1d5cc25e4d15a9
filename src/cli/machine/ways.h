/* How verbs show the ways between devices (plan/ways.h). Main thread. */
#pragma once

#include "base/json.h"
#include "plan/ways.h"

/* The ways between the devices that an option text makes (simulated ones); else between all GPUs of
 * the machine. *out stays NULL where there are fewer than two, or where they cannot be used.
 * measure: they are tried, else what is kept is looked up. Errors: SW_ERR_INVALID (device),
 * SW_ERR_NOMEM. */
int sw_cli_ways(const char *device, const struct sw_machine *machine, bool measure,
                struct sw_ways **out, struct sw_err *err) SW_MUST_CHECK;

/* The way that copies go: the direct one where it is sound. */
const struct sw_way *sw_ways_taken(const struct sw_ways *w, int from, int to);
/* A line for each pair, and one for sums; title stands before the first, indent others. */
void sw_print_ways(struct sw_buf *out, const struct sw_ways *w, const char *title, int indent);
/* An object for each pair, in an open array. */
void sw_json_ways(struct sw_json_writer *w, const struct sw_ways *ways);
