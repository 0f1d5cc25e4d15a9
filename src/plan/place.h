/* Shared by the files of placement. Internal to plan/.
 *
 * placement.c      checks, the order of assignment, texts of rows
 * place_workers.c  workers that compute on CPU cores
 * place_gpus.c     workers that compute on GPUs: the GPU of each, and cores near it
 * place_servers.c  servers
 * row_cores.c           cores of a row, and texts for its reason
 */
#pragma once

#include "plan/placement.h"

/* Assigns cores to a row; nodes and threads follow from them. */
void sw_row_set_cores(const struct sw_machine *m, struct sw_placement_row *row,
                      const struct sw_core_set *cores);
/* Texts for the reason of a placement: sw_quota_text writes "; the cgroup quota of 2.5 CPUs allows
 * 2 threads" or "", sw_node_text "NUMA node 1". They return out. */
const char *sw_quota_text(const struct sw_machine *m, char *out, size_t bytes);
const char *sw_node_text(const struct sw_placement_row *row, char *out, size_t bytes);

/* Assigns cores to all workers, with p->oversubscribed and p->most_threads set, and removes them
 * from p->spare. */
void sw_place_workers(const struct sw_machine *m, struct sw_placement *p);
/* Chooses the GPUs of workers on GPUs, and assigns the workers cores near them. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_place_gpu_workers(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                         struct sw_placement *p, struct sw_err *err) SW_MUST_CHECK;
/* Assigns cores to all servers, after the workers. */
void sw_place_servers(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                      struct sw_placement *p);
