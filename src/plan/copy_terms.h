/* Who updates the parameters of workers on devices: the devices, each its own replica, or servers
 * in host memory. The rules of `copy = auto`, for jobs (copy_mode.c) and for the planner. Pure
 * functions; any thread. */
#pragma once

#include "plan/topology.h"

struct sw_cluster_conf;
struct sw_device_request;
struct sw_job_conf;
struct sw_recipe;

/* What the sections [job] and [cluster] and the layers of a recipe say. */
struct sw_copy_terms {
    bool mixed;            /* workers on devices and on cores */
    bool rolls_back;       /* on_nan = rollback */
    bool repeat_exact;     /* sums in one order */
    bool sends_to_servers; /* some layer, or all, with comm = adam */
    int bind_servers;      /* enum sw_bind_choice */
};
struct sw_copy_terms sw_copy_terms_of(const struct sw_recipe *recipe, const struct sw_job_conf *job,
                                      const struct sw_cluster_conf *cluster,
                                      const struct sw_device_request *request);
/* Why devices cannot update their own replicas; NULL: they can. Of the topology, binds_servers,
 * is_async, splits_layers and workers are read. */
const char *sw_copy_why_servers(const struct sw_copy_terms *terms, const struct sw_topology *t);
