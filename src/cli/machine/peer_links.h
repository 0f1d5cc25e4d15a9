/* Finds and prints the paths between devices (plan/peer_links.h) for the verbs. Main thread. */
#pragma once

#include "base/json.h"
#include "plan/peer_links.h"

/* Finds the paths between the simulated devices that the option text describes, else between all
 * GPUs of the machine. *out stays NULL if there are fewer than two devices or they cannot be used.
 * measure: the paths are tested; else stored results are used. Errors: SW_ERR_INVALID (device),
 * SW_ERR_NOMEM. */
int sw_cli_peer_links(const char *device, const struct sw_machine *machine, bool measure,
                      struct sw_peer_links **out, struct sw_err *err) SW_MUST_CHECK;

/* The path that copies use: the direct one if it is sound, else the one through the host. */
const struct sw_peer_link *sw_peer_links_saved(const struct sw_peer_links *w, int from, int to);
/* Prints a line for each pair and one for all-reduce; the first begins with `title`, the others
 * with `indent` blanks. */
void sw_print_peer_links(struct sw_bytes *out, const struct sw_peer_links *w, const char *title,
                         int indent);
/* An object for each pair, in an open array. */
void sw_json_peer_links(struct sw_json_writer *w, const struct sw_peer_links *peer_links);
