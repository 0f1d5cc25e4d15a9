/* Binding of threads to cores, and queries of where memory is placed. Devices place memory
 * (sw_device_alloc_on); this header has the node mask they take and reads back the result.
 *
 * A worker binds itself before its first parallel region: threads that OpenMP starts inherit the
 * mask of the thread that starts them. That holds only if OpenMP does not bind threads itself, so
 * environment variables that make it do so are an error. Each function acts on the calling thread
 * or on the range it is given; any thread may call.
 *
 * A worker, server or prefetch thread binds itself when it starts; a worker then also sets the size
 * of its OpenMP team. The main thread is bound while sw_job_run lasts; the history's writer and the
 * watch thread inherit that. The threads of a device inherit the cores of their worker. */
#pragma once

#include "machine/machine.h"

/* Checks that OpenMP leaves binding to us. Errors: SW_ERR_INVALID if OMP_PROC_BIND, OMP_PLACES or
 * GOMP_CPU_AFFINITY makes OpenMP bind threads. */
int sw_bind_check_environment(struct sw_err *err) SW_MUST_CHECK;

/* Binds the calling thread to all allowed hardware threads of the cores. Errors: SW_ERR_INVALID
 * (empty set, a core that is not in the map, a map of another machine), SW_ERR_UNSUPPORTED (the
 * system refuses). */
int sw_bind_thread(const struct sw_machine *m, const struct sw_core_set *cores,
                   struct sw_err *err) SW_MUST_CHECK;
/* Saves the CPU affinity of the calling thread, to restore it later. *kept is owned by the caller
 * until sw_bind_restore. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED. */
int sw_bind_save(const struct sw_machine *m, void **kept, struct sw_err *err) SW_MUST_CHECK;
/* Restores the affinity, as far as the system allows, and frees *kept. NULL is accepted and does
 * nothing. */
void sw_bind_restore(const struct sw_machine *m, void *kept);
/* Stores the cores of the map on which the calling thread may run. */
int sw_bound_cores(const struct sw_machine *m, struct sw_core_set *cores,
                   struct sw_err *err) SW_MUST_CHECK;

/* Converts a mask of nodes of the map (bit i: m->nodes[i]) to the mask that sw_device_alloc_on
 * takes. Returns 0 if there is no choice: on a machine with one node, or for a map of another
 * machine. */
uint64_t sw_machine_os_nodes(const struct sw_machine *m, uint64_t node_mask);
/* Counts the bytes of the range per node, in whole pages, in node_bytes[m->node_count].
 * *absent_bytes counts pages that were not touched yet or are on a node outside the map. Errors:
 * SW_ERR_INVALID, SW_ERR_UNSUPPORTED. */
int sw_bind_where(const struct sw_machine *m, const void *memory, size_t bytes, int64_t *node_bytes,
                  int64_t *absent_bytes, struct sw_err *err) SW_MUST_CHECK;
