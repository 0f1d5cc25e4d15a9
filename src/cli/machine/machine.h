/* The machine map for people and for programs: what `topo` shows of a machine. Main thread. */
#pragma once

#include "base/str.h"

struct sw_json_writer;
struct sw_machine;

/* A tree of packages, NUMA nodes, caches and what hangs on them, then how GPUs reach each other. */
void sw_print_machine(struct sw_buf *out, const struct sw_machine *m);
/* "machine": {...}; numbers of cores and nodes are hwloc's logical ones, -1 or null is unknown. */
void sw_json_machine(struct sw_json_writer *w, const struct sw_machine *m);
