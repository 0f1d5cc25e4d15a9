/* Binding of threads to cores, and where memory is. Devices place memory (sw_device_alloc_on); here
 * is what they are told, and what became of it.
 *
 * A worker binds itself before its first parallel region: threads that OpenMP starts inherit the
 * mask of the thread that starts them. That holds only while OpenMP does not bind by itself, so a
 * program that the environment tells to do so is refused. Each function acts on the calling thread
 * or on the range it is given; any thread may call.
 *
 * Who binds: a worker, server or prefetch thread binds itself when it begins, a worker also sizes
 * its OpenMP team then. The main thread is bound while sw_job_run lasts; the history's writer and
 * the watch thread inherit that. The threads of a device inherit the cores of their worker. */
#pragma once

#include "machine/machine.h"

/* Errors: SW_ERR_INVALID when OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY asks OpenMP to bind.
 */
int sw_bind_check_environment(struct sw_err *err) SW_MUST_CHECK;

/* Binds the calling thread to all allowed hardware threads of the cores.
 * Errors: SW_ERR_INVALID (empty set, a core that is not in the map, a machine that is not here),
 * SW_ERR_UNSUPPORTED (the system refuses). */
int sw_bind_thread(const struct sw_machine *m, const struct sw_core_set *cores,
                   struct sw_err *err) SW_MUST_CHECK;
/* Where the calling thread may run, to be given back to it: for one that is bound for a while.
 * *kept is owned by the caller until sw_bind_restore. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED. */
int sw_bind_keep(const struct sw_machine *m, void **kept, struct sw_err *err) SW_MUST_CHECK;
/* Best effort; frees what was kept. NULL is accepted and does nothing. */
void sw_bind_restore(const struct sw_machine *m, void *kept);
/* The cores of the map on which the calling thread may run. */
int sw_bound_cores(const struct sw_machine *m, struct sw_core_set *cores,
                   struct sw_err *err) SW_MUST_CHECK;

/* What sw_device_alloc_on takes for the nodes of a mask (bit i: m->nodes[i]); 0 where there is no
 * choice: on a machine with one node, or one that is not here. */
uint64_t sw_machine_os_nodes(const struct sw_machine *m, uint64_t node_mask);
/* Reads back where whole pages of a range live: node_bytes[m->node_count], and in *absent_bytes
 * those not touched yet or on a node that is not in the map. Errors: SW_ERR_INVALID,
 * SW_ERR_UNSUPPORTED. */
int sw_bind_where(const struct sw_machine *m, const void *memory, size_t bytes, int64_t *node_bytes,
                  int64_t *absent_bytes, struct sw_err *err) SW_MUST_CHECK;
