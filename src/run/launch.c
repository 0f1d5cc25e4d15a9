/* Decides who the hosts of a job are. choose() picks the launcher, in the order that launch.h
 * tells, and compares what the others say; then come names, engine, key, and the sentence that
 * explains it. What the launch owns is in one struct whose first member is what callers see. */
#include "run/launch.h"

#include "base/os.h"
#include "base/str.h"
#include "run/host_rates.h"
#include "run/node_list.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct launch {
    struct sw_launch base; /* first */
    struct sw_host host[SW_MOST_HOSTS];
    char name[SW_MOST_HOSTS][SW_LAUNCH_NAME];
    char address[SW_MOST_HOSTS][SW_LAUNCH_ADDRESS];
    char target[SW_MOST_HOSTS][SW_LAUNCH_ADDRESS];
    const char *targets[SW_MOST_HOSTS];
    unsigned char key[SW_FABRIC_KEY_BYTES];
    struct sw_tcp_conf tcp;
    const struct sw_launch_engines *engines;
    struct sw_host_links links;
};

/* What a search knows so far. */
struct search {
    const struct sw_launch_args *a;
    sw_launcher_env *env;
    char **listed; /* owned [list_count]: --hosts, or those of the recipe */
    int list_count;
    const char *list_of; /* "--hosts", "cluster.hosts" */
    struct sw_launcher mpi, torchrun, slurm;
    struct sw_launcher chosen;
    const struct sw_fabric_engine *engine; /* of MPI; NULL: tcp */
    bool no_module; /* MPI started the job, but the module for it is missing */
    bool ssh;
    struct launch *l;
    struct sw_err *err;
};

static const char *system_env(const char *name)
{
    return getenv(name);
}

static const char *system_name(char out[SW_LAUNCH_NAME])
{
    char full[SW_LAUNCH_ADDRESS] = "";

    if (gethostname(full, sizeof full - 1) != 0)
        full[0] = '\0';
    snprintf(out, SW_LAUNCH_NAME, "%.*s", (int)strcspn(full, "."), full);
    return out;
}

/* ---- The list of hosts ---- */

static bool is_host_text(const char *item)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._:@%-";
    return *item && *item != '-' && *item != '@' && !item[strspn(item, chars)] &&
           strlen(item) < SW_LAUNCH_ADDRESS;
}

/* The part behind "user@". */
static const char *host_of(const char *target)
{
    const char *at = strrchr(target, '@');
    return at ? at + 1 : target;
}

static int add_listed(struct search *s, const char *text, size_t bytes)
{
    char **slot;

    while (bytes > 0 && *text == ' ')
        text++, bytes--;
    while (bytes > 0 && text[bytes - 1] == ' ')
        bytes--;

    char *item = sw_format("%.*s", (int)bytes, text);
    if (!item || !(slot = sw_array_add(&s->listed, &s->list_count, sizeof *slot))) {
        sw_free(item);
        return sw_err_nomem(s->err, "list of hosts", bytes);
    }

    *slot = item;
    if (!is_host_text(item) || !*host_of(item))
        return sw_err_set(s->err, SW_ERR_INVALID, "%s: '%.100s' is not a name or address of a host",
                          s->list_of, item);
    return SW_OK;
}

static int read_list(struct search *s)
{
    const struct sw_strings *own = &s->a->cluster->hosts;
    int rc = SW_OK;

    s->list_of = s->a->hosts ? "--hosts" : "cluster.hosts";
    for (int i = 0; !s->a->hosts && i < own->count && rc == SW_OK; i++)
        rc = add_listed(s, own->items[i], strlen(own->items[i]));

    for (const char *at = s->a->hosts; at && rc == SW_OK;) {
        const size_t bytes = strcspn(at, ",");

        rc = add_listed(s, at, bytes);
        at = at[bytes] ? at + bytes + 1 : NULL;
    }

    return rc;
}

/* The job runs on these hosts, and this process is the first of them. */
static int check_list(const struct search *s)
{
    bool (*is_here)(const char *) = s->a->is_here ? s->a->is_here : sw_launch_is_here;

    if (!is_here(host_of(s->listed[0])))
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "%s: the first host must be this machine, and %.100s is not: start the "
                          "job there, or put localhost first",
                          s->list_of, s->listed[0]);

    for (int i = 1; i < s->list_count && !s->a->share_machine; i++)
        for (int j = 0; j < i; j++)
            if (sw_str_eq(host_of(s->listed[i]), host_of(s->listed[j])))
                return sw_err_set(s->err, SW_ERR_INVALID,
                                  "%s names %.100s twice: a job has one process on a machine, "
                                  "which uses all its cores and GPUs",
                                  s->list_of, s->listed[i]);
    return SW_OK;
}

/* ---- Who started the processes ---- */

static int read_environment(struct search *s)
{
    int rc = sw_launcher_mpi(s->env, &s->mpi, s->err);

    if (rc == SW_OK)
        rc = sw_launcher_torchrun(s->env, &s->torchrun, s->err);
    if (rc == SW_OK)
        rc = sw_launcher_slurm(s->env, &s->slurm, s->err);
    return rc;
}

static bool is_several(const struct sw_launcher *l)
{
    return l->kind != SW_LAUNCHER_NONE;
}

/* Both describe the same process of the same job. */
static int compare(const struct search *s, const struct sw_launcher *a, const struct sw_launcher *b)
{
    if (a->size == b->size && a->rank == b->rank)
        return SW_OK;
    return sw_err_set(s->err, SW_ERR_INVALID,
                      "the environment contradicts itself: %s=%d and %s=%d, but %s=%d and %s=%d",
                      a->size_of, a->size, a->rank_of, a->rank, b->size_of, b->size, b->rank_of,
                      b->rank);
}

/* Takes MPI if its module can be loaded; else what tcp can use, or the error of the module. */
static int choose_mpi(struct search *s, const struct sw_launcher *other)
{
    struct sw_err missing = {0};

    int rc = s->a->engines->mpi
                 ? s->a->engines->mpi(s->mpi.mpi, &s->engine, &missing)
                 : sw_err_set(&missing, SW_ERR_UNSUPPORTED, "this build has no module for MPI");
    if (rc == SW_OK) {
        s->chosen = s->mpi;
        return SW_OK;
    }

    if (other && s->a->cluster->fabric == SW_FABRIC_CHOICE_AUTO) {
        s->chosen = *other;
        s->no_module = true;
        return SW_OK;
    }

    *s->err = missing;
    return sw_err_prefix(s->err, rc, "%s started %d processes", s->mpi.name, s->mpi.size);
}

/* MPI's ranks can be used by tcp if someone tells where host 0 is. */
static int choose_tcp_under_mpi(struct search *s)
{
    const char *address = s->env("MASTER_ADDR");

    s->chosen = s->mpi;
    int rc = sw_launcher_master_port(s->env, &s->chosen.port, s->err);
    if (rc != SW_OK)
        return rc;
    if (!address || !*address || !s->chosen.port)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "fabric = tcp, but %s started %d processes and does not tell where host "
                          "0 is: set MASTER_ADDR and MASTER_PORT, or use fabric = mpi",
                          s->mpi.name, s->mpi.size);

    s->chosen.address = address;
    return SW_OK;
}

/* Is the Slurm step that of these MPI processes? mpirun inside of a step has its own. */
static bool is_step_of_mpi(const struct search *s)
{
    return is_several(&s->slurm) && s->slurm.size == s->mpi.size && s->slurm.rank == s->mpi.rank;
}

static int choose_launcher(struct search *s)
{
    const bool torchrun = is_several(&s->torchrun);
    const bool nested = s->torchrun.size > 0 && s->env("TORCHELASTIC_RUN_ID");
    int rc = SW_OK;

    if (!nested && torchrun && is_several(&s->mpi))
        rc = compare(s, &s->torchrun, &s->mpi);
    else if (!nested && torchrun && is_several(&s->slurm))
        rc = compare(s, &s->torchrun, &s->slurm);
    if (rc != SW_OK)
        return rc;

    const struct sw_launcher *other = torchrun || nested    ? &s->torchrun
                                      : is_step_of_mpi(s)   ? &s->slurm
                                      : is_several(&s->mpi) ? NULL
                                                            : &s->slurm;
    if (!nested && is_several(&s->mpi) && s->a->cluster->fabric != SW_FABRIC_CHOICE_TCP)
        return choose_mpi(s, other);
    if (!other)
        return choose_tcp_under_mpi(s);

    s->chosen = *other;
    return SW_OK;
}

/* ---- Contradictions ---- */

static int check_world_size(const struct search *s)
{
    const char *world = s->env("WORLD_SIZE");
    const int count = is_several(&s->chosen) ? s->chosen.size : s->list_count ? s->list_count : 1;
    int64_t size;

    if (!world || !*world || (sw_parse_int(world, &size) && size == count))
        return SW_OK;
    if (is_several(&s->chosen))
        return sw_err_set(s->err, SW_ERR_INVALID, "the environment has WORLD_SIZE=%.20s, but %s=%d",
                          world, s->chosen.size_of, s->chosen.size);
    if (s->list_count > 0)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "%s names %d host%s, but the environment has WORLD_SIZE=%.20s",
                          s->list_of, count, count == 1 ? "" : "s", world);
    return sw_err_set(s->err, SW_ERR_INVALID,
                      "the environment has WORLD_SIZE=%.20s, but not RANK, which tells which host "
                      "this is: set both, or neither",
                      world);
}

static int check_launcher(const struct search *s)
{
    const struct sw_launcher *c = &s->chosen;
    const bool mpi = s->engine != NULL;
    const int most = mpi ? SW_LAUNCH_MOST_MPI : SW_LAUNCH_MOST_TCP;

    if (s->list_count > 0 && s->list_count != c->size)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "%s names %d host%s, but by %s there are %d (%s): let one of them decide",
                          s->list_of, s->list_count, s->list_count == 1 ? "" : "s", c->name,
                          c->size, c->size_of);
    if (c->local > 1 && !s->a->share_machine)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "by %s there are %d processes on this machine, but a job has one on a "
                          "machine, which uses all its cores and GPUs: start one per host, or add "
                          "--share-machine",
                          c->name, c->local);
    if (c->size > most)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "there are %d hosts by %s, but fabric %s has at most %d", c->size,
                          c->name, mpi ? "mpi" : "tcp", most);
    return SW_OK;
}

/* Decides between the launcher, ssh, and this machine alone. */
static int choose(struct search *s)
{
    int rc = choose_launcher(s);

    if (rc == SW_OK)
        rc = check_world_size(s);
    if (rc != SW_OK)
        return rc;

    if (s->a->cluster->fabric == SW_FABRIC_CHOICE_MPI && !s->engine)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "fabric = mpi, but no MPI launcher started this process%s%s: use mpirun, "
                          "or fabric = auto",
                          is_several(&s->chosen) ? "; the hosts come from " : "",
                          is_several(&s->chosen) ? s->chosen.name : "");
    if (is_several(&s->chosen))
        return check_launcher(s);
    if (s->list_count == 0)
        return SW_OK;
    if (s->list_count > SW_LAUNCH_MOST_TCP)
        return sw_err_set(s->err, SW_ERR_INVALID,
                          "%s names %d hosts, but fabric tcp has at most %d", s->list_of,
                          s->list_count, SW_LAUNCH_MOST_TCP);

    s->ssh = s->list_count > 1;
    return check_list(s);
}

/* ---- Names ---- */

static void set_name(struct launch *l, int host, const char *name)
{
    snprintf(l->name[host], SW_LAUNCH_NAME, "%s", name);
}

static bool is_number(const char *address)
{
    return strchr(address, ':') || !address[strspn(address, "0123456789.")];
}

/* The name of a host by its address: its first label, or the number. */
static void set_name_of_address(struct launch *l, int host, const char *address)
{
    const size_t bytes = is_number(address) ? strlen(address) : strcspn(address, ".");
    snprintf(l->name[host], SW_LAUNCH_NAME, "%.*s", (int)bytes, address);
}

static bool is_taken(const struct launch *l, int host)
{
    for (int i = 0; i < host; i++)
        if (sw_str_eq(l->name[i], l->name[host]))
            return true;
    return false;
}

/* Gives a name to the hosts without one, and another one to those whose name is taken. All hosts
 * must come to the same names of listed hosts, so the order counts. */
static void complete_names(struct launch *l)
{
    for (int i = 0; i < l->base.hosts.count; i++) {
        char plain[SW_LAUNCH_NAME - 16];

        if (l->name[i][0] && is_taken(l, i)) {
            snprintf(plain, sizeof plain, "%s", l->name[i]);
            snprintf(l->name[i], SW_LAUNCH_NAME, "%s#%d", plain, i);
        }
        if (!l->name[i][0] || is_taken(l, i))
            snprintf(l->name[i], SW_LAUNCH_NAME, "%d", i);
    }
}

/* The hosts of the step, if there is one task on each. */
static int name_slurm(struct search *s)
{
    struct sw_node_list nodes = {0};
    const char *list = s->env("SLURM_STEP_NODELIST");

    if (!list || !*list)
        return s->chosen.address
                   ? SW_OK
                   : sw_err_set(s->err, SW_ERR_INVALID,
                                "the environment has %s=%d, but not SLURM_STEP_NODELIST, which "
                                "tells where host 0 is",
                                s->chosen.size_of, s->chosen.size);

    int rc = sw_node_list_read(list, SW_MOST_HOSTS, &nodes, s->err);
    for (int i = 0; i < nodes.count && rc == SW_OK && nodes.count == s->chosen.size; i++)
        set_name_of_address(s->l, i, nodes.name[i]);
    if (rc == SW_OK && !s->chosen.address)
        snprintf(s->l->address[0], SW_LAUNCH_ADDRESS, "%s", nodes.name[0]);

    sw_node_list_fini(&nodes);
    return rc == SW_OK ? SW_OK : sw_err_prefix(s->err, rc, "SLURM_STEP_NODELIST");
}

static void name_listed(struct search *s)
{
    for (int i = 0; i < s->list_count; i++) {
        const char *host = host_of(s->listed[i]);

        set_name_of_address(s->l, i, host);
        snprintf(s->l->address[i], SW_LAUNCH_ADDRESS, "%s", host);
        snprintf(s->l->target[i], SW_LAUNCH_ADDRESS, "%s", s->listed[i]);
    }
}

/* Sets names and addresses: those of the list, else those that the launcher tells, else this host's
 * own name. */
static int name_hosts(struct search *s)
{
    struct launch *l = s->l;
    struct sw_hosts *hosts = &l->base.hosts;
    char own[SW_LAUNCH_NAME] = "";
    int rc = SW_OK;

    hosts->count = s->ssh ? s->list_count : s->chosen.size;
    hosts->own = s->ssh ? 0 : s->chosen.rank;
    name_listed(s);
    if (s->chosen.kind == SW_LAUNCHER_SLURM)
        rc = name_slurm(s);
    if (s->chosen.address) {
        snprintf(l->address[0], SW_LAUNCH_ADDRESS, "%s", s->chosen.address);
        if (!l->name[0][0] && !sw_launch_is_loopback(s->chosen.address))
            set_name_of_address(l, 0, s->chosen.address);
    }

    (s->a->own_name ? s->a->own_name : system_name)(own);
    const bool unknown = !l->name[hosts->own][0] || sw_str_eq(l->name[hosts->own], "localhost");
    if (unknown && own[0] && !s->a->share_machine)
        set_name(l, hosts->own, own);
    complete_names(l);
    return rc;
}

/* ---- Engine and key ---- */

static void set_engine(struct search *s)
{
    struct sw_launch *p = &s->l->base;

    p->by_ssh = s->ssh;
    p->share_machine = s->a->share_machine;
    p->trusted = s->a->cluster->network == SW_NETWORK_TRUSTED;
    s->l->tcp = (struct sw_tcp_conf){
        .listener = -1, .port = (uint16_t)s->chosen.port, .trusted = p->trusted};
    if (s->engine)
        p->engine = s->engine;
}

/* Reads the key; a job by ssh makes its own. */
static int set_key(struct search *s)
{
    struct launch *l = s->l;
    const char *path = s->env("SINGA_JOB_KEY"), *address = l->address[0];

    if (s->engine || s->ssh || l->base.trusted)
        return SW_OK;

    if (path && *path) {
        int rc = sw_launch_read_key(path, l->key, s->err);
        if (rc == SW_OK)
            l->base.key = l->key;
        return rc;
    }

    if (sw_launch_is_loopback(address))
        return SW_OK;
    return sw_err_set(
        s->err, SW_ERR_INVALID,
        "cluster.network = private, but the job has no key, and host 0 (%.100s) is on "
        "a network: set SINGA_JOB_KEY to a file of 32 random bytes that is the same "
        "on all hosts and has mode 0600, or set network = trusted if no one else "
        "can reach this network",
        address);
}

/* ---- The sentence ---- */

static void describe_security(const struct search *s, char *out, size_t bytes)
{
    const struct sw_launch *p = &s->l->base;
    const char *tcp = s->no_module ? "fabric tcp (there is no module for MPI)" : "fabric tcp";
    char engine[64];

    if (s->engine)
        snprintf(out, bytes, "fabric mpi (%s), not encrypted",
                 p->engine->name(engine, sizeof engine));
    else if (p->trusted)
        snprintf(out, bytes, "%s, not encrypted (network = trusted)", tcp);
    else if (p->key || s->ssh)
        snprintf(out, bytes, "%s, TLS 1.3 with the job's key", tcp);
    else
        snprintf(out, bytes, "%s, not encrypted (on this machine only)", tcp);
}

/* "host 1 (b)"; "host 1" if that is its name. */
static const char *describe_own(const struct sw_hosts *hosts, char *out, size_t bytes)
{
    const char *name = hosts->host[hosts->own].name;
    const int n = snprintf(out, bytes, "host %d", hosts->own);

    if (!sw_str_eq(name, out + strlen("host ")))
        snprintf(out + n, bytes - (size_t)n, " (%s)", name);
    return out;
}

static void explain(struct search *s)
{
    struct sw_launch *p = &s->l->base;
    char security[128], own[SW_LAUNCH_NAME + 32];

    describe_security(s, security, sizeof security);
    snprintf(p->why, sizeof p->why, "%d hosts by %s%s, %s: this is %s", p->hosts.count,
             s->ssh ? s->list_of : s->chosen.name, s->ssh ? " and ssh" : "", security,
             describe_own(&p->hosts, own, sizeof own));
}

/* ---- The whole ---- */

static struct launch *new_launch(const struct sw_launch_engines *engines)
{
    struct launch *l = sw_calloc(1, sizeof *l);
    if (!l)
        return NULL;

    l->base.hosts.host = l->host;
    l->base.targets = l->targets;
    l->engines = engines;
    l->base.engine = engines->tcp;
    l->base.conf = &l->tcp;
    l->base.links = &l->links;
    l->tcp.listener = -1;
    for (int i = 0; i < SW_MOST_HOSTS; i++)
        l->targets[i] = l->target[i];
    return l;
}

/* Points the list of hosts at the texts. */
static void publish(struct launch *l)
{
    for (int i = 0; i < l->base.hosts.count; i++)
        l->host[i] = (struct sw_host){.name = l->name[i],
                                      .address = l->address[i][0] ? l->address[i] : NULL};
}

static int make(struct search *s)
{
    s->l = new_launch(s->a->engines);
    if (!s->l)
        return sw_err_nomem(s->err, "hosts of the job", sizeof *s->l);

    int rc = name_hosts(s);
    if (rc == SW_OK)
        set_engine(s);
    if (rc == SW_OK)
        rc = set_key(s);
    if (rc != SW_OK)
        return rc;

    publish(s->l);
    if (s->engine)
        s->l->base.conf = NULL;
    explain(s);
    return SW_OK;
}

int sw_launch_find(const struct sw_launch_args *a, struct sw_launch **out, struct sw_err *err)
{
    struct sw_err own;
    struct search s = {.a = a, .env = a->env ? a->env : system_env, .err = err ? err : &own};

    int rc = read_list(&s);
    if (rc == SW_OK)
        rc = read_environment(&s);
    if (rc == SW_OK)
        rc = choose(&s);
    if (rc == SW_OK && (s.ssh || is_several(&s.chosen)))
        rc = make(&s);

    for (int i = 0; i < s.list_count; i++)
        sw_free(s.listed[i]);
    sw_free(s.listed);

    if (rc == SW_OK)
        *out = s.l ? &s.l->base : NULL;
    else
        sw_launch_free(s.l ? &s.l->base : NULL);
    return rc;
}

int sw_launch_of(const struct sw_launch_told *told, struct sw_launch **out, struct sw_err *err)
{
    if (told->count < 2 || told->count > SW_LAUNCH_MOST_TCP || told->own < 0 ||
        told->own >= told->count)
        return sw_err_set(err, SW_ERR_INVALID, "host %d of %d: a job has 2 to %d hosts", told->own,
                          told->count, SW_LAUNCH_MOST_TCP);

    char own[SW_LAUNCH_NAME + 32];
    struct launch *l = new_launch(told->engines);
    if (!l)
        return sw_err_nomem(err, "hosts of the job", sizeof *l);

    l->base.hosts.count = told->count;
    l->base.hosts.own = told->own;
    l->base.share_machine = told->share_machine;
    l->base.trusted = !told->key;
    l->tcp.port = told->port;
    l->tcp.trusted = !told->key;
    for (int i = 0; i < told->count; i++)
        set_name(l, i, told->names[i]);
    snprintf(l->address[0], SW_LAUNCH_ADDRESS, "%s", told->address);
    if (told->key) {
        memcpy(l->key, told->key, sizeof l->key);
        l->base.key = l->key;
    }

    publish(l);
    snprintf(l->base.why, sizeof l->base.why, "%s of %d, led by host %s",
             describe_own(&l->base.hosts, own, sizeof own), told->count, l->name[0]);
    *out = &l->base;
    return SW_OK;
}

/* What callers see is the first member. */
static struct launch *whole(struct sw_launch *l)
{
    return (struct launch *)l;
}

static bool is_local(const struct sw_launch *l)
{
    for (int i = 0; i < l->hosts.count; i++)
        if (!l->hosts.host[i].address || !sw_launch_is_loopback(l->hosts.host[i].address))
            return false;
    return true;
}

const char *sw_launch_address(const struct sw_launch *l)
{
    const char *own = l->hosts.host[0].address;

    if (is_local(l))
        return "127.0.0.1";
    return sw_launch_is_loopback(own) ? NULL : own;
}

int sw_launch_lead(struct sw_launch *l, uint16_t *port, struct sw_err *err)
{
    struct launch *w = whole(l);
    const char *address = sw_launch_address(l);

    if (!l->trusted) {
        if (sw_os()->random_bytes(w->key, sizeof w->key) != 0)
            return sw_err_errno(err, errno, "cannot draw a key");
        l->key = w->key;
    }

    /* A name may stand for one of several addresses; a number is meant. */
    w->tcp.port = 0;
    int rc = w->engines->tcp_listen(address && is_number(address) ? address : NULL, &w->tcp.port,
                                    &w->tcp.listener, err);
    if (rc == SW_OK)
        *port = w->tcp.port;
    return rc;
}

void sw_launch_reopen(struct sw_launch *l)
{
    whole(l)->tcp.listener = -1;
}

void sw_launch_free(struct sw_launch *l)
{
    if (!l)
        return;

    explicit_bzero(whole(l)->key, SW_FABRIC_KEY_BYTES);
    sw_free(whole(l));
}
