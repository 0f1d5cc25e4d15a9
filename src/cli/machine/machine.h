/* Prints the machine map as text and as JSON, for `topo`. Main thread. */
#pragma once

#include "base/str.h"

struct sw_json_writer;
struct sw_machine;

/* Prints a tree of packages, NUMA nodes, caches and attached devices, then the paths between
 * GPUs. */
void sw_print_machine(struct sw_bytes *out, const struct sw_machine *m);
/* "machine": {...}; numbers of cores and nodes are hwloc's logical ones, -1 or null is unknown. */
void sw_json_machine(struct sw_json_writer *w, const struct sw_machine *m);
