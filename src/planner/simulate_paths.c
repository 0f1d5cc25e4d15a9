/* The links of collective operations, from the paths between pairs of workers. */
#include "planner/simulate_paths.h"

#include "base/os.h"
#include <math.h>

struct sw_plansim_known_path {
    enum sw_plansim_path_kind kind;
    struct sw_plansim_members members;
    int at;
    struct sw_plansim_path path;
    struct sw_plansim_known_path *next;
};

int sw_plansim_paths_init(struct sw_plansim_paths *p, const struct sw_machine_model *machine,
                          const double *capacity, int workers, struct sw_err *err)
{
    size_t links = (size_t)sw_machine_model_links(machine) + 1;

    *p = (struct sw_plansim_paths){.machine = machine, .capacity = capacity, .workers = workers};
    p->known = sw_calloc((size_t)workers, sizeof(struct sw_plansim_known_path *));
    p->touched = sw_calloc(links, sizeof *p->touched);
    p->together = sw_calloc((size_t)workers, sizeof *p->together);
    for (int i = 0; i < 2; i++)
        p->bytes[i] = sw_calloc(links, sizeof *p->bytes[i]);

    if (!p->known || !p->touched || !p->together || !p->bytes[0] || !p->bytes[1])
        return sw_err_nomem(err, "paths", links * sizeof *p->bytes[0]);
    return SW_OK;
}

void sw_plansim_paths_fini(struct sw_plansim_paths *p)
{
    for (int i = 0; i < p->workers && p->known; i++)
        while (p->known[i]) {
            struct sw_plansim_known_path *k = p->known[i];

            p->known[i] = k->next;
            sw_free(k->path.use);
            sw_free(k);
        }

    sw_free(p->bytes[0]);
    sw_free(p->bytes[1]);
    sw_free(p->touched);
    sw_free(p->together);
    sw_free(p->known);
    *p = (struct sw_plansim_paths){.known = NULL};
}

/* ---- Bytes on links ---- */

static void add(struct sw_plansim_paths *p, const struct sw_model_path *path, double bytes,
                struct sw_plansim_path *out)
{
    out->latency_s = fmax(out->latency_s, path->latency_s);

    for (int i = 0; i < path->count; i++) {
        int link = path->link[i];

        if (p->bytes[0][link] == 0 && p->bytes[1][link] == 0)
            p->touched[p->touched_count++] = link;
        p->bytes[i >= path->stop][link] += bytes;
    }
}

static int member(struct sw_plansim_members m, int i)
{
    return m.first + i * m.stride;
}

static int host_of(const struct sw_plansim_paths *p, int worker)
{
    return p->machine->device[worker].host;
}

/* Counts for each member the members on its host, which are neighbors. Returns the number of hosts.
 */
static int count_hosts(struct sw_plansim_paths *p, struct sw_plansim_members m)
{
    int hosts = 0;

    for (int first = 0, end; first < m.count; first = end, hosts++) {
        end = first + 1;
        while (end < m.count && host_of(p, member(m, end)) == host_of(p, member(m, first)))
            end++;

        for (int i = first; i < end; i++)
            p->together[i] = end - first;
    }

    return hosts;
}

/* What a member sends to another one, of which `here` and `there` are on their hosts. */
static double sent(enum sw_plansim_path_kind kind, int members, int hosts, bool same_host, int here,
                   int there)
{
    if (kind == SW_PLANSIM_ALLREDUCE)
        return same_host ? 2.0 / here : 2.0 / ((double)hosts * here * there);
    if (kind == SW_PLANSIM_FACTORS) /* a host's share of the others' is sent on to its members */
        return same_host ? 1 + (double)(members - here) / here : 1.0 / there;
    return 1;
}

static struct sw_model_path path_of(const struct sw_machine_model *m, int from, int to, bool staged)
{
    return staged ? sw_machine_model_staged_path(m, from, to) : sw_machine_model_path(m, from, to);
}

static void add_pairs(struct sw_plansim_paths *p, const struct sw_plansim_known_path *k,
                      struct sw_plansim_path *out)
{
    int members = k->members.count, hosts = count_hosts(p, k->members);

    for (int i = 0; i < members; i++)
        for (int j = 0; j < members; j++) {
            int from = member(k->members, i), to = member(k->members, j);
            bool same_host = host_of(p, from) == host_of(p, to);
            if (i == j)
                continue;

            struct sw_model_path path = path_of(
                p->machine, from, to, k->kind == SW_PLANSIM_EXCHANGE || p->machine->mirrors);
            double units = sent(k->kind, members, hosts, same_host, p->together[i], p->together[j]);
            add(p, &path, units, out);
        }
}

static void add_to_all(struct sw_plansim_paths *p, const struct sw_plansim_known_path *k,
                       struct sw_plansim_path *out)
{
    for (int i = 0; i < k->members.count; i++)
        for (int to = 0; to < p->workers; to++) {
            int from = member(k->members, i);
            if (from == to)
                continue;

            struct sw_model_path path = path_of(p->machine, from, to, p->machine->mirrors);
            add(p, &path, 1, out);
        }
}

static void add_star(struct sw_plansim_paths *p, const struct sw_plansim_known_path *k,
                     struct sw_plansim_path *out)
{
    for (int i = 0; i < k->members.count; i++) {
        int worker = member(k->members, i);
        bool spread = k->kind == SW_PLANSIM_SPREAD;
        if (worker == k->at)
            continue;

        struct sw_model_path path =
            path_of(p->machine, spread ? k->at : worker, spread ? worker : k->at, true);
        add(p, &path, 1, out);
    }
}

static void add_servers(struct sw_plansim_paths *p, const struct sw_plansim_known_path *k,
                        struct sw_plansim_path *out)
{
    count_hosts(p, k->members);

    for (int i = 0; i < k->members.count; i++) {
        int worker = member(k->members, i);
        struct sw_model_path path = k->kind == SW_PLANSIM_PUSH
                                        ? sw_machine_model_to_host(p->machine, worker, k->at)
                                        : sw_machine_model_from_host(p->machine, k->at, worker);

        add(p, &path, p->machine->device[worker].host_memory ? 1.0 / p->together[i] : 1, out);
    }
}

/* ---- Paths ---- */

/* Copies of a unit that a device of one host queues one after the other; 0: there are other
 * members, whose messages have their latencies at the same time. */
static double count_copies(struct sw_plansim_paths *p, const struct sw_plansim_known_path *k)
{
    const int members = k->members.count;
    bool devices = count_hosts(p, k->members) == 1;

    for (int i = 0; i < members; i++)
        devices = devices && !p->machine->device[member(k->members, i)].host_memory;
    if (!devices)
        return 0;

    switch (k->kind) {
    case SW_PLANSIM_PUSH:
    case SW_PLANSIM_PULL:
        return k->at == host_of(p, k->members.first);
    case SW_PLANSIM_SPREAD:
    case SW_PLANSIM_COLLECT: /* one copy of each other member and as many of the single one, whose
                                paths have the latency of both */
        return members / 2.0;
    case SW_PLANSIM_EXCHANGE:
    case SW_PLANSIM_FACTORS:
        return members - 1;
    case SW_PLANSIM_FACTORS_TO_ALL: /* to a worker that is not one of them */
        return members - (members == p->workers);
    default: /* all copies of a round are queued together */
        return 0;
    }
}

/* Turns the bytes on links into weights, and clears them. */
static int finish(struct sw_plansim_paths *p, struct sw_plansim_path *out, struct sw_err *err)
{
    double copy_s[2] = {0, 0};

    out->use = sw_calloc((size_t)p->touched_count + 1, sizeof *out->use);
    if (!out->use)
        return sw_err_nomem(err, "a path", (size_t)p->touched_count * sizeof *out->use);

    for (int i = 0; i < p->touched_count; i++) {
        int link = p->touched[i];
        double bytes = p->bytes[0][link] + p->bytes[1][link];

        for (int k = 0; k < 2; k++) {
            copy_s[k] = fmax(copy_s[k], p->bytes[k][link] / p->capacity[link]);
            p->bytes[k][link] = 0;
        }

        if (isinf(p->capacity[link]))
            continue;

        out->bytes = fmax(out->bytes, bytes);
        out->use[out->count++] = (struct sw_plansim_use){.link = link, .weight = bytes};
    }
    p->touched_count = 0;

    for (int i = 0; i < out->count; i++)
        out->use[i].weight /= out->bytes;
    out->limit = copy_s[1] > 0 ? out->bytes / (copy_s[0] + copy_s[1]) : (double)INFINITY;
    out->rate = fmin(out->bytes / fmax(copy_s[0], copy_s[1]), out->limit);

    return SW_OK;
}

static bool is_same(const struct sw_plansim_known_path *k, enum sw_plansim_path_kind kind,
                    struct sw_plansim_members m, int at)
{
    return k->kind == kind && k->members.stride == m.stride && k->members.count == m.count &&
           k->at == at;
}

int sw_plansim_paths_get(struct sw_plansim_paths *p, enum sw_plansim_path_kind kind,
                         struct sw_plansim_members members, int at,
                         const struct sw_plansim_path **out, struct sw_err *err)
{
    struct sw_plansim_known_path *k = p->known[members.first];

    while (k && !is_same(k, kind, members, at))
        k = k->next;
    if (k) {
        *out = &k->path;
        return SW_OK;
    }

    k = sw_calloc(1, sizeof *k);
    if (!k)
        return sw_err_nomem(err, "a path", sizeof *k);

    *k = (struct sw_plansim_known_path){
        .kind = kind, .members = members, .at = at, .next = p->known[members.first]};
    p->known[members.first] = k;
    k->path.copies = count_copies(p, k);

    if (kind == SW_PLANSIM_SPREAD || kind == SW_PLANSIM_COLLECT)
        add_star(p, k, &k->path);
    else if (kind == SW_PLANSIM_PUSH || kind == SW_PLANSIM_PULL)
        add_servers(p, k, &k->path);
    else if (kind == SW_PLANSIM_FACTORS_TO_ALL)
        add_to_all(p, k, &k->path);
    else
        add_pairs(p, k, &k->path);

    if (kind == SW_PLANSIM_ALLREDUCE) /* two hops */
        k->path.latency_s *= 2;

    *out = &k->path;
    return finish(p, &k->path, err);
}
