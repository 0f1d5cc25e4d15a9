/* [cluster]: its keys, the table of frameworks (each a row of defaults and limits for the other
 * keys), the counts of groups, workers and servers that follow from keys and machine, and which
 * server groups exchange with each other. Each decision has a sentence with its reason. */
#include "plan/conf.h"

#include "base/str.h"
#include <stdio.h>
#include <string.h>

static const char *const automatic[] = {"auto", NULL};
static const char *const frameworks[] = {"auto",    "sandblaster", "allreduce", "downpour",
                                         "hogwild", "custom",      NULL};
static const char *const consistencies[] = {"auto", "bsp", "ssp", "async", "hogwild", NULL};
static const char *const stall_choices[] = {"auto", "warn", "stop", NULL};
static const char *const bind_choices[] = {"auto", "yes", "no", NULL};
static const char *const copy_modes[] = {"auto", "async", "sync", "none", NULL};
static const char *const all_reduces[] = {"auto", "library", "copies", NULL};
static const char *const overlaps[] = {"yes", "no", NULL};
static const char *const fabrics[] = {"auto", "tcp", "mpi", NULL};
static const char *const networks[] = {"private", "trusted", NULL};
static const char *const host_losses[] = {"save", "stop", "go_on", NULL};

#define OPT(kind, member, ...) SW_OPT(kind, struct sw_cluster_conf, member, __VA_ARGS__)

const struct sw_opt sw_cluster_opts[] = {
    OPT(ENUM, framework,
        "sandblaster: separate workers and servers; allreduce: one server per worker; downpour: "
        "asynchronous groups; hogwild: asynchronous groups without locks; custom: set by the other "
        "keys",
        .def = "auto", .choices = frameworks),
    OPT(INT, worker_groups,
        "groups of workers, each with a replica of the net; default: 1; with downpour and hogwild "
        "one per NUMA node or simulated GPU, or 2 if there are enough cores; with "
        "threads_per_worker as many as there are cores for",
        .min = 1, .max = SW_MAX_CORES),
    OPT(INT, workers_per_group,
        "workers that share a batch; auto: run searches the fastest number; default: one per NUMA "
        "node, or per simulated GPU; with several groups 1",
        .min = 1, .max = SW_MAX_CORES, .choices = automatic,
        .hint = "remove the key, or use --set cluster.workers_per_group=1"),
    OPT(INT, threads_per_worker,
        "math threads of each worker on cores, a core for each; default: as many as there are "
        "cores for it",
        .min = 1, .max = SW_MAX_CORES,
        .hint = "a worker has at least one thread: remove the key for as many as there are cores"),
    OPT(INT, servers_per_group,
        "servers that share the parameters; default: 1, with allreduce one per worker", .min = 1,
        .max = SW_MAX_CORES,
        .hint = "servers hold the parameters: remove the key, or use --framework sandblaster --set "
                "cluster.servers_per_group=1"),
    OPT(INT, server_groups,
        "groups of servers, each with a replica of all parameters for some of the worker groups; "
        "default: 1, with hogwild one per NUMA node; asynchronous groups on several hosts: 1, "
        "of the first host, or one per host (that number, or more), which hogwild has",
        .min = 1, .max = SW_MAX_SERVER_GROUPS),
    OPT(INT, sync_period, "steps between two exchanges of server groups", .def = "10", .min = 1,
        .max = 1 << 30),
    OPT(STRINGS, sync_topology,
        "which server groups exchange values: all, ring, tree, or pairs such as 0-1, 1-2",
        .def = "all"),
    OPT(INT, warmup_steps,
        "steps that the first group trains alone; the others then start from its values",
        .def = "0", .min = 0, .max = 1 << 30),
    OPT(ENUM, consistency,
        "between groups: bsp, all groups make every update together; ssp and async, each group "
        "makes its own updates; hogwild, the same without locks; default: that of the framework",
        .def = "auto", .choices = consistencies),
    OPT(INT, staleness,
        "updates of the slowest group that the values of a group may lack, in steps; 0 is bsp; "
        "default: no bound",
        .def = "-1", .max = SW_MAX_STALENESS),
    OPT(ENUM, bind_servers,
        "run each server on the cores of its worker; default: yes with allreduce and hogwild",
        .def = "auto", .choices = bind_choices),
    OPT(ENUM, copy,
        "copies of gradients and values between a device and the servers: async, overlapped with "
        "computing; sync, each copy is waited for; none, every device updates its own replica, and "
        "several workers exchange only gradient sums; auto, none on GPUs where possible, else "
        "async",
        .def = "auto", .choices = copy_modes),
    OPT(ENUM, overlap, "exchange gradients while lower layers compute; no: after the last layer",
        .def = "yes", .choices = overlaps),
    OPT(ENUM, comm,
        "exchange mode for the gradients of fully-connected layers split by rows, unless the layer "
        "sets its own: ps, whole matrices; sfb, each worker sends its inputs and output gradients "
        "to all others, and each computes the matrix; adam, each worker sends these to the "
        "servers; auto, the fastest by measured throughput; default: between devices of one "
        "machine auto by usual throughputs, which measures nothing, else ps",
        .choices = sw_exchange_mode_names),
    OPT(INT, slice_size, "parameters in the largest slice of the parameter table", .def = "1048576",
        .min = 1024, .max = 1 << 30),
    OPT(BYTES, bucket_size,
        "with allreduce and copy = none, several devices all-reduce gradients in buckets of at "
        "least this many bytes, while lower layers still compute",
        .def = "4MiB", .min = 1, .max = 1 << 30),
    OPT(ENUM, all_reduce,
        "backend of this all-reduce: library, that of the devices (NCCL; its own summation order), "
        "or copies between them, in the summation order of servers; default: on GPUs the library, "
        "if it is sound",
        .def = "auto", .choices = all_reduces),
    OPT(BOOL, rebalance,
        "at evaluations, redistribute the rows of a shared batch by the measured speed of the "
        "workers",
        .def = "no"),
    OPT(ENUM, on_stall,
        "when a worker, server or reader stalls: warn, or stop the run; default: warn, and stop "
        "when it lasts 12 times stall_s",
        .def = "auto", .choices = stall_choices),
    OPT(REAL, stall_s,
        "seconds without a heartbeat that are a stall; default: 4, for disks and devices at least "
        "4 times the longest silence so far",
        .def = "0", .min = 0, .max = 1e6),
    OPT(STRINGS, hosts,
        "hosts of the job, this machine first; run starts the others by ssh, unless mpirun, srun "
        "or torchrun already did; default: those of the launcher, else this machine alone"),
    OPT(ENUM, fabric,
        "what carries messages between hosts: tcp, built in; mpi, the MPI that started the job; "
        "auto, mpi under an MPI launcher if the module for it is installed, else tcp",
        .def = "auto", .choices = fabrics),
    OPT(ENUM, network,
        "between hosts by tcp: private, TLS 1.3 with the key of the job; trusted, neither "
        "encrypted nor authenticated, for a network that no one else can reach",
        .def = "private", .choices = networks),
    OPT(BYTES, bandwidth,
        "most bytes per second that each host sends to the others, and each device to its host and "
        "to other devices, such as 60MB or 500Mbit; default: no limit",
        .def = "0", .min = 1000, .max = 1e12),
    OPT(ENUM, on_host_loss,
        "when a host is lost: save, the others write a checkpoint of the last complete step and "
        "end; stop, they end; go_on, asynchronous groups train on without it, unless it is the "
        "first host",
        .def = "save", .choices = host_losses),
    OPT(INT, restarts,
        "how often a job that --hosts started goes on with the hosts that are left, after a loss",
        .def = "3", .min = 0, .max = 1000),
    {0},
};

/* ---- frameworks -------------------------------------------------------------------------------
 */

enum {
    BSP = 1 << SW_CONSISTENCY_BSP,
    SSP = 1 << SW_CONSISTENCY_SSP,
    ASYNC = 1 << SW_CONSISTENCY_ASYNC,
    HOGWILD = 1 << SW_CONSISTENCY_HOGWILD,
};

static const struct framework {
    bool groups;          /* several worker groups are allowed */
    bool server_groups;   /* several server groups are allowed */
    bool node_each;       /* default: one server group per NUMA node */
    bool many;            /* default: several worker groups */
    bool server_each;     /* one server per worker */
    bool bind;            /* servers share the cores of workers */
    unsigned consistency; /* allowed consistencies */
    enum sw_consistency usual;
} rows[] = {
    [SW_FRAMEWORK_SANDBLASTER] = {.consistency = BSP, .usual = SW_CONSISTENCY_BSP},
    [SW_FRAMEWORK_ALLREDUCE] = {.server_each = true,
                                .bind = true,
                                .consistency = BSP,
                                .usual = SW_CONSISTENCY_BSP},
    [SW_FRAMEWORK_DOWNPOUR] = {.groups = true,
                               .many = true,
                               .consistency = BSP | SSP | ASYNC,
                               .usual = SW_CONSISTENCY_ASYNC},
    [SW_FRAMEWORK_HOGWILD] = {.groups = true,
                              .server_groups = true,
                              .node_each = true,
                              .many = true,
                              .bind = true,
                              .consistency = BSP | HOGWILD,
                              .usual = SW_CONSISTENCY_HOGWILD},
    [SW_FRAMEWORK_CUSTOM] = {.groups = true,
                             .server_groups = true,
                             .consistency = BSP | SSP | ASYNC | HOGWILD,
                             .usual = SW_CONSISTENCY_BSP},
};

static int hosts_of(const struct sw_cluster_conf *c)
{
    return c->host_count > 0 ? c->host_count : 1;
}

static enum sw_framework framework_of(const struct sw_cluster_conf *c)
{
    return c->framework == SW_FRAMEWORK_AUTO ? SW_FRAMEWORK_ALLREDUCE
                                             : (enum sw_framework)c->framework;
}

int sw_cluster_sync(const struct sw_cluster_conf *c, struct sw_cluster_sync *sync, const char **key,
                    struct sw_err *err)
{
    const struct framework *f = &rows[framework_of(c)];
    enum sw_consistency consistency = (enum sw_consistency)c->consistency;
    bool given = c->staleness >= 0, chosen = consistency != SW_CONSISTENCY_AUTO;

    if (!chosen)
        consistency = f->usual == SW_CONSISTENCY_ASYNC && given ? SW_CONSISTENCY_SSP : f->usual;
    *key = "consistency";
    if (!(f->consistency & 1u << consistency) ||
        (chosen && consistency == SW_CONSISTENCY_BSP && f->many))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s is %s; for another consistency use framework = custom",
                          frameworks[framework_of(c)], consistencies[f->usual]);

    *key = "staleness";
    if (consistency == SW_CONSISTENCY_SSP && !given)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "ssp needs a limit on how many steps a group may be ahead, such as staleness = 4");
    if (c->staleness > 0 &&
        (consistency == SW_CONSISTENCY_BSP || consistency == SW_CONSISTENCY_ASYNC))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has no staleness bound; remove the key, or use consistency = ssp",
                          consistencies[consistency]);

    if (c->staleness == 0)
        consistency = SW_CONSISTENCY_BSP;
    *key = "warmup_steps";
    if (c->warmup_steps > 0 && consistency == SW_CONSISTENCY_BSP)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "with bsp all groups make every update together, so no group can train alone first: "
            "remove the key, or use framework = downpour without staleness = 0");

    *sync = (struct sw_cluster_sync){.consistency = consistency,
                                     .staleness = c->staleness,
                                     .sync_period = c->sync_period,
                                     .warmup_steps = c->warmup_steps};
    return SW_OK;
}

/* ---- counts -----------------------------------------------------------------------------------
 */

static void describe_synchronous(const struct sw_cluster_shape *s, char *out, size_t bytes)
{
    int workers = s->worker_groups * s->workers_per_group;

    snprintf(out, bytes, "%d worker%s; %d server%s on %s cores", workers,
             workers == 1 ? "" : "s share each batch", s->servers_per_group,
             s->servers_per_group == 1 ? "" : "s", s->bind_servers ? "the workers'" : "spare");
}

/* "2 asynchronous groups of 1 worker, own batches, at most 4 steps stale". */
static void describe_asynchronous(const struct sw_cluster_shape *s,
                                  const struct sw_cluster_sync *sync, int hosts, char *out,
                                  size_t bytes)
{
    char bound[48] = "", first[64] = "", where[80] = "";

    if (hosts > 1)
        snprintf(where, sizeof where, " on each of %d hosts, %s", hosts,
                 s->server_group_each_host ? "which exchange changes"
                                           : "with the servers of the first");

    if (sync->staleness > 0)
        snprintf(bound, sizeof bound, ", at most %d step%s stale", (int)sync->staleness,
                 sync->staleness == 1 ? "" : "s");

    if (sync->warmup_steps > 0 && s->worker_groups * hosts > 1)
        snprintf(first, sizeof first, "; the first group trains %d step%s alone",
                 (int)sync->warmup_steps, sync->warmup_steps == 1 ? "" : "s");

    if (s->worker_groups * hosts == 1)
        snprintf(out, bytes, "1 group of %d worker%s: nothing is asynchronous",
                 s->workers_per_group, s->workers_per_group == 1 ? "" : "s");
    else
        snprintf(out, bytes, "%d asynchronous group%s of %d worker%s%s, own batches%s%s%s",
                 s->worker_groups, s->worker_groups == 1 ? "" : "s", s->workers_per_group,
                 s->workers_per_group == 1 ? "" : "s", where,
                 sync->consistency == SW_CONSISTENCY_HOGWILD ? ", without locks" : "", bound,
                 first);
}

static void describe_reason(const struct sw_cluster_conf *c, const struct sw_cluster_shape *s,
                            char *out, size_t bytes)
{
    const char *chosen = c->framework == SW_FRAMEWORK_AUTO ? "default; " : "";
    const char *ignored;
    struct sw_cluster_sync sync;
    struct sw_err err;
    int n = snprintf(out, bytes, "%s", chosen);

    if (sw_cluster_sync(c, &sync, &ignored, &err) == SW_OK &&
        sync.consistency != SW_CONSISTENCY_BSP)
        describe_asynchronous(s, &sync, hosts_of(c), out + n, bytes - (size_t)n);
    else if (s->worker_groups * s->workers_per_group == 1 && s->servers_per_group == 1)
        snprintf(out + n, bytes - (size_t)n, "1 worker");
    else
        describe_synchronous(s, out + n, bytes - (size_t)n);
}

static bool is_bsp(const struct sw_cluster_conf *c)
{
    struct sw_cluster_sync sync;
    struct sw_err ignored;
    const char *key;

    return sw_cluster_sync(c, &sync, &key, &ignored) == SW_OK &&
           sync.consistency == SW_CONSISTENCY_BSP;
}

/* An asynchronous framework with a single group: what to set for more of them. */
static void describe_warning(const struct sw_cluster_conf *c, const struct sw_cluster_shape *s,
                             const struct sw_machine *m, char *out, size_t bytes)
{
    out[0] = '\0';
    if (is_bsp(c) || s->worker_groups * hosts_of(c) > 1)
        return;

    snprintf(out, bytes,
             "%s with 1 worker group: nothing is asynchronous; for 2 groups use --set "
             "cluster.worker_groups=2%s",
             frameworks[framework_of(c)],
             c->devices || 2 * s->workers_per_group <= sw_machine_threads(m) ? ""
                                                                             : " --oversubscribe");
}

/* The default number of worker groups of a host: as many as there are cores for if a worker's
 * threads are given; else one per NUMA node or device, and on a single host at least 2 if there are
 * enough cores. */
static int default_groups(const struct sw_cluster_conf *c, const struct sw_machine *m)
{
    int most = c->devices ? c->devices : sw_machine_threads(m);
    int units = c->devices ? c->devices : m->node_count;

    if (c->workers_per_group > 1) {
        units /= (int)c->workers_per_group;
        most /= (int)c->workers_per_group;
    }

    if (c->threads_per_worker > 0 && !c->devices)
        return most > c->threads_per_worker ? most / (int)c->threads_per_worker : 1;

    return units > 1 ? units : most > 1 && hosts_of(c) == 1 ? 2 : 1;
}

static int default_workers(const struct sw_cluster_conf *c, const struct sw_machine *m, int groups)
{
    if (groups > 1)
        return c->devices > groups ? c->devices / groups : 1;
    return c->devices ? c->devices : m->node_count;
}

static int default_server_groups(const struct sw_cluster_conf *c, const struct framework *f,
                                 const struct sw_machine *m, int groups)
{
    if (hosts_of(c) > 1)
        return 1; /* of this host */
    if (c->server_groups > 0)
        return (int)c->server_groups;
    if (!f->node_each || is_bsp(c))
        return 1;

    return m->node_count < groups ? m->node_count : groups;
}

/* ---- names ------------------------------------------------------------------------------------
 */

bool sw_framework_binds(enum sw_framework framework, int choice)
{
    return choice == SW_BIND_AUTO ? rows[framework].bind : choice == SW_BIND_YES;
}

const char *sw_framework_name(enum sw_framework framework)
{
    return frameworks[framework];
}

const char *sw_consistency_name(enum sw_consistency consistency)
{
    return consistencies[consistency];
}

const char *sw_copy_mode_name(enum sw_copy_mode mode)
{
    return copy_modes[mode];
}

/* ---- exchanges --------------------------------------------------------------------------------
 */

static void pair(bool *neighbours, int count, int a, int b)
{
    if (a != b)
        neighbours[a * count + b] = neighbours[b * count + a] = true;
}

/* "0-1": two server groups. */
static int read_pair(const char *text, int count, bool *neighbours, struct sw_err *err)
{
    char first[16];
    int64_t a, b;
    const char *dash = strchr(text, '-');
    size_t n = dash ? (size_t)(dash - text) : sizeof first;

    if (n < sizeof first) {
        memcpy(first, text, n);
        first[n] = '\0';
    }

    if (n >= sizeof first || !sw_parse_int(first, &a) || !sw_parse_int(dash + 1, &b))
        return sw_err_set(err, SW_ERR_INVALID,
                          "'%s' is not all, ring, tree, or a pair of server groups such as 0-1",
                          text);

    if (a < 0 || b < 0 || a >= count || b >= count || a == b)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "'%s': server groups are 0 to %d, and a group cannot be paired with itself", text,
            count - 1);

    pair(neighbours, count, (int)a, (int)b);
    return SW_OK;
}

static bool reaches_all(const bool *neighbours, int count, int from)
{
    bool reached[SW_MAX_SERVER_GROUPS] = {false};
    int n = 1;

    reached[from] = true;
    for (int round = 0; round < count; round++)
        for (int i = 0; i < count; i++)
            for (int k = 0; k < count && !reached[i]; k++)
                if (reached[k] && neighbours[k * count + i]) {
                    reached[i] = true;
                    n++;
                }

    return n == count;
}

int sw_cluster_neighbours(const struct sw_cluster_conf *c, int server_groups, bool *neighbours,
                          struct sw_err *err)
{
    const struct sw_strings *list = &c->sync_topology;
    int n = server_groups, rc = SW_OK;
    const char *name = list->count == 1 ? list->items[0] : "";

    memset(neighbours, 0, (size_t)n * (size_t)n * sizeof *neighbours);

    bool all = sw_str_eq(name, "all"), ring = sw_str_eq(name, "ring");
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i && all; j++)
            pair(neighbours, n, i, j);

        if (ring)
            pair(neighbours, n, i, (i + 1) % n);
        else if (sw_str_eq(name, "tree") && i > 0)
            pair(neighbours, n, i, (i - 1) / 2);
    }

    if (all || ring || sw_str_eq(name, "tree"))
        return SW_OK;

    for (int i = 0; i < list->count && rc == SW_OK; i++)
        rc = read_pair(list->items[i], n, neighbours, err);

    for (int i = 0; i < n && rc == SW_OK; i++)
        if (!reaches_all(neighbours, n, i))
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "updates of server group %d do not reach all other groups", i);

    return rc;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* On several hosts: does each have a server group? */
static int choose_host_servers(const struct sw_cluster_conf *c, const struct framework *f,
                               struct sw_cluster_shape *shape, struct sw_err *err)
{
    struct sw_cluster_sync sync;
    const char *ignored;
    const int hosts = hosts_of(c);

    if (hosts == 1 || sw_cluster_sync(c, &sync, &ignored, err) != SW_OK ||
        sync.consistency == SW_CONSISTENCY_BSP)
        return SW_OK; /* another error, which is reported later, or every host has all parameters */

    const bool races = sync.consistency == SW_CONSISTENCY_HOGWILD;
    shape->server_group_each_host = races || c->server_groups > 1;

    if (shape->server_group_each_host && !f->server_groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has one server group; for several use hogwild or custom",
                          frameworks[framework_of(c)]);
    if (shape->server_group_each_host && c->server_groups > 0 && c->server_groups < hosts)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d server groups on %d hosts: there is one per host%s: use %d%s, or "
                          "remove the key",
                          (int)c->server_groups, hosts,
                          races ? "" : ", or one, which the first host has", hosts,
                          races ? "" : " or 1");
    return SW_OK;
}

int sw_cluster_shape(const struct sw_cluster_conf *c, const struct sw_machine *m,
                     struct sw_cluster_shape *shape, struct sw_framework_choice *framework,
                     const char **key, struct sw_err *err)
{
    enum sw_framework which = framework_of(c);
    const struct framework *f = &rows[which];
    int groups = c->worker_groups ? (int)c->worker_groups : f->many ? default_groups(c, m) : 1;
    int workers = c->workers_per_group ? (int)c->workers_per_group : default_workers(c, m, groups);
    int servers = c->servers_per_group ? (int)c->servers_per_group : f->server_each ? workers : 1;

    *key = "worker_groups";
    if (groups > 1 && !f->groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has one worker group; for several use downpour, hogwild or custom",
                          frameworks[which]);

    *key = "server_groups";

    int copies = default_server_groups(c, f, m, groups);
    if (copies > 1 && !f->server_groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has one server group; for several use hogwild or custom",
                          frameworks[which]);
    if (copies > 1 && is_bsp(c))
        return sw_err_set(err, SW_ERR_INVALID,
                          "worker groups that make every update together have one server group: "
                          "remove the key, or use consistency = async");

    if (copies > groups)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%d server groups, but %d worker groups: use at most one server group per worker group",
            copies, groups);

    *key = "servers_per_group";
    if (f->server_each && servers != workers)
        return sw_err_set(err, SW_ERR_INVALID,
                          "allreduce has one server per worker: remove the key, or use --set "
                          "cluster.servers_per_group=%d, or --framework sandblaster",
                          workers);

    *key = "server_groups";
    struct sw_cluster_shape chosen = {.worker_groups = groups,
                                      .workers_per_group = workers,
                                      .server_groups = copies,
                                      .servers_per_group = servers,
                                      .threads_per_worker = (int)c->threads_per_worker,
                                      .bind_servers = sw_framework_binds(which, c->bind_servers)};
    int rc = choose_host_servers(c, f, &chosen, err);
    if (rc != SW_OK)
        return rc;

    *shape = chosen;
    framework->name = frameworks[which];
    describe_reason(c, shape, framework->reason, sizeof framework->reason);
    describe_warning(c, shape, m, framework->warning, sizeof framework->warning);

    return SW_OK;
}

const char *sw_cluster_advice(const struct sw_cluster_conf *conf,
                              const struct sw_cluster_shape *shape, int most, char *out,
                              size_t bytes)
{
    int per_group = most / shape->worker_groups;
    int n = snprintf(out, bytes, "--set cluster.workers_per_group=%d", per_group ? per_group : 1);

    /* With allreduce the number of servers must match, so a configured number must change too. */
    if (conf->servers_per_group > 0 && rows[framework_of(conf)].server_each)
        n += snprintf(out + n, bytes - (size_t)n, " --set cluster.servers_per_group=%d",
                      per_group ? per_group : 1);

    if (per_group == 0)
        snprintf(out + n, bytes - (size_t)n, " --set cluster.worker_groups=%d", most);
    return out;
}
