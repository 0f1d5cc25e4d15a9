#include "cluster/conf.h"

#include <stdio.h>

static const char *const frameworks[] = {"auto", "sandblaster", "allreduce", NULL};
static const char *const stall_choices[] = {"auto", "warn", "stop", NULL};
static const char *const bind_choices[] = {"auto", "yes", "no", NULL};
static const char *const copy_modes[] = {"async", "sync", "none", NULL};
static const char *const overlaps[] = {"yes", "no", NULL};

#define AT(member) offsetof(struct sw_cluster_conf, member)

const struct sw_opt sw_cluster_opts[] = {
    {.key = "framework",
     .help = "sandblaster: workers and servers apart; allreduce: a server with every worker",
     .offset = AT(framework),
     .type = SW_OPT_ENUM,
     .def = "auto",
     .choices = frameworks},
    {.key = "workers_per_group",
     .help = "workers that share a batch; default: one per NUMA node, or per simulated GPU",
     .offset = AT(workers_per_group),
     .type = SW_OPT_INT,
     .min = 1,
     .max = SW_MAX_CORES,
     .hint = "leave the key out, or --set cluster.workers_per_group=1"},
    {.key = "servers_per_group",
     .help = "servers that share the parameters; default: 1, with allreduce one per worker",
     .offset = AT(servers_per_group),
     .type = SW_OPT_INT,
     .min = 1,
     .max = SW_MAX_CORES,
     .hint = "parameters live on servers: leave the key out, or --framework sandblaster --set "
             "cluster.servers_per_group=1"},
    {.key = "bind_servers",
     .help = "a server lives on its worker's cores; default: with allreduce",
     .offset = AT(bind_servers),
     .type = SW_OPT_ENUM,
     .def = "auto",
     .choices = bind_choices},
    {.key = "copy",
     .help = "gradients and values between a device and the servers: async, while others compute; "
             "sync, each is waited for; none, the device itself updates (one worker)",
     .offset = AT(copy),
     .type = SW_OPT_ENUM,
     .def = "async",
     .choices = copy_modes},
    {.key = "overlap",
     .help = "updates are handed over while lower layers compute; no: after the last of them",
     .offset = AT(overlap),
     .type = SW_OPT_ENUM,
     .def = "yes",
     .choices = overlaps},
    {.key = "slice_size",
     .help = "parameters in the largest slice of the parameter table",
     .offset = AT(slice_size),
     .type = SW_OPT_INT,
     .def = "1048576",
     .min = 1024,
     .max = 1 << 30},
    {.key = "on_stall",
     .help = "a worker, server or reader gives no sign of life: warn, or stop the run; default: "
             "warn, and stop when it lasts 12 times stall_s",
     .offset = AT(on_stall),
     .type = SW_OPT_ENUM,
     .def = "auto",
     .choices = stall_choices},
    {.key = "stall_s",
     .help = "seconds without a sign of life that are a stall; default: 5, and at least 4 times "
             "the longest silence so far",
     .offset = AT(stall_s),
     .type = SW_OPT_REAL,
     .def = "0",
     .min = 0,
     .max = 1e6},
    {0},
};

static void say_why(const struct sw_cluster_conf *c, const struct sw_cluster_shape *s, char *out,
                    size_t bytes)
{
    const char *chosen = c->framework == SW_FRAMEWORK_AUTO ? "no framework is asked for; " : "";
    if (s->workers_per_group == 1 && s->servers_per_group == 1)
        snprintf(out, bytes,
                 "%sone worker, its server %s: with a single worker all synchronous frameworks are "
                 "the same",
                 chosen, s->bind_servers ? "beside it" : "apart");
    else
        snprintf(out, bytes, "%s%d workers share every batch, %d server%s own%s the parameters, %s",
                 chosen, s->workers_per_group, s->servers_per_group,
                 s->servers_per_group == 1 ? "" : "s", s->servers_per_group == 1 ? "s" : "",
                 s->bind_servers ? "each on its worker's cores"
                                 : "on cores of their own where "
                                   "there are any");
}

int sw_cluster_shape(const struct sw_cluster_conf *c, const struct sw_machine *m,
                     struct sw_cluster_shape *shape, const char **framework, char *reason,
                     size_t reason_bytes, const char **key, struct sw_err *err)
{
    bool allreduce = c->framework != SW_FRAMEWORK_SANDBLASTER;
    int workers = c->workers_per_group ? (int)c->workers_per_group : m->node_count;
    int servers = c->servers_per_group ? (int)c->servers_per_group : allreduce ? workers : 1;
    *key = "servers_per_group";
    if (allreduce && servers != workers)
        return sw_err_set(err, SW_ERR_INVALID,
                          "allreduce has a server with every worker: leave it out, or --set "
                          "cluster.servers_per_group=%d, or --framework sandblaster",
                          workers);
    *shape = (struct sw_cluster_shape){.worker_groups = 1,
                                       .workers_per_group = workers,
                                       .server_groups = 1,
                                       .servers_per_group = servers,
                                       .bind_servers = c->bind_servers == SW_BIND_AUTO
                                                           ? allreduce
                                                           : c->bind_servers == SW_BIND_YES};
    *framework =
        allreduce ? frameworks[SW_FRAMEWORK_ALLREDUCE] : frameworks[SW_FRAMEWORK_SANDBLASTER];
    say_why(c, shape, reason, reason_bytes);
    return SW_OK;
}

const char *sw_cluster_advice(const struct sw_cluster_conf *conf,
                              const struct sw_cluster_shape *shape, int most, char *out,
                              size_t bytes)
{
    int per_group = most / shape->worker_groups;
    int n = snprintf(out, bytes, "--set cluster.workers_per_group=%d", per_group ? per_group : 1);
    /* With allreduce there are as many servers, and a number that was given stays given. */
    if (conf->servers_per_group > 0 && conf->framework != SW_FRAMEWORK_SANDBLASTER)
        n += snprintf(out + n, bytes - (size_t)n, " --set cluster.servers_per_group=%d",
                      per_group ? per_group : 1);
    if (per_group == 0)
        snprintf(out + n, bytes - (size_t)n, " --set cluster.worker_groups=%d", most);
    return out;
}
