/* Who the hosts of a job are, how they reach each other, and why: from the recipe's [cluster],
 * --hosts, and the environment of whatever started this process. Nothing is connected here:
 * sw_fabric_open takes what a launch says.
 *
 * In this order: an MPI launcher (mpirun; srun with PMI or PMIx) if the module for its MPI is
 * installed; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun, Kubernetes operators); a
 * Slurm step of several tasks; and without any of them a list of hosts, of which host 0 starts the
 * others by ssh (cli/hosts/remote.h). Whatever else is known must agree.
 *
 * One owner; frozen after sw_launch_find or sw_launch_of, and sw_launch_lead, but for its links. */
#pragma once

#include "exchange/hosts/tcp.h"
#include "plan/conf.h"
#include "run/launcher.h"

struct sw_host_links;

enum {
    SW_LAUNCH_MOST_TCP = 16, /* hosts */
    SW_LAUNCH_MOST_MPI = SW_MOST_HOSTS,
    SW_LAUNCH_NAME = 64,
    SW_LAUNCH_ADDRESS = 256,
    SW_LAUNCH_MACHINE_ID = 33,
};

/* The engines of this build. */
struct sw_launch_engines {
    const struct sw_fabric_engine *tcp;
    int (*tcp_listen)(const char *address, uint16_t *port, int *fd, struct sw_err *err);
    /* Loads the module for the launcher's MPI; NULL: there is none. Errors: SW_ERR_NOTFOUND and
     * others, which say what is missing. */
    int (*mpi)(enum sw_launcher_mpi which, const struct sw_fabric_engine **out, struct sw_err *err);
};
extern const struct sw_launch_engines sw_launch_engines;

struct sw_launch_args {
    const struct sw_cluster_conf *cluster;
    const char *hosts;  /* --hosts, names separated by commas; NULL: those of the recipe */
    bool share_machine; /* several processes of the job may run on one machine */
    const struct sw_launch_engines *engines;
    /* What tests replace; NULL: that of the system. */
    sw_launcher_env *env;
    const char *(*own_name)(char out[SW_LAUNCH_NAME]);
    bool (*is_here)(const char *address);
};

struct sw_launch {
    struct sw_hosts hosts; /* names are unique; those that nobody told are numbers */
    const struct sw_fabric_engine *engine;
    const void *conf;         /* of the engine: sw_fabric_args.conf */
    const unsigned char *key; /* [SW_FABRIC_KEY_BYTES]; NULL: not encrypted */
    bool share_machine;
    bool by_ssh; /* this is host 0, and must start the others */
    bool trusted;
    /* With by_ssh, [hosts.count]: how ssh reaches a host, "user@b". */
    const char *const *targets;
    struct sw_host_links *links; /* run/host_rates.h: measured when a job needs them */
    /* The first line of a run, such as "2 hosts by torchrun's environment, fabric tcp, TLS 1.3 with
     * the job's key: this is host 0 (ada)". */
    char why[256];
};

/* Sets *out to the hosts of the job, or to NULL if this is the only one. With by_ssh the key and
 * the port are still missing: sw_launch_lead. Errors: SW_ERR_INVALID (contradictions, of which both
 * sides are named; wrong variables; too many hosts; the file of the key is not private),
 * SW_ERR_NOTFOUND (file of the key, module), SW_ERR_UNSUPPORTED, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_launch_find(const struct sw_launch_args *a, struct sw_launch **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_launch_free(struct sw_launch *l); /* NULL is accepted */

/* For a launch by_ssh: draws the key unless the network is trusted, and opens the socket on which
 * host 0 listens, *port; opening the engine takes the socket. If all hosts are on this machine only
 * they can reach it. Errors: SW_ERR_IO. */
int sw_launch_lead(struct sw_launch *l, uint16_t *port, struct sw_err *err) SW_MUST_CHECK;
/* Before an engine of the launch is opened once more: host 0 must listen again, at the same port.
 */
void sw_launch_reopen(struct sw_launch *l);
/* The address by which other hosts reach host 0, if its user named one or all hosts are on this
 * machine; NULL: they find out (cli/join.c). */
const char *sw_launch_address(const struct sw_launch *l);

/* A host that was told everything by host 0. Texts and key are copied. */
struct sw_launch_told {
    const char *const *names; /* [count] */
    int count, own;
    const char *address; /* of host 0 */
    uint16_t port;
    const unsigned char *key; /* [SW_FABRIC_KEY_BYTES], or NULL */
    bool share_machine;
    const struct sw_launch_engines *engines;
};
/* Errors: SW_ERR_INVALID (counts, names), SW_ERR_NOMEM. */
int sw_launch_of(const struct sw_launch_told *told, struct sw_launch **out,
                 struct sw_err *err) SW_MUST_CHECK;

/* Reads a key from a file of exactly SW_FABRIC_KEY_BYTES bytes that belongs to this user and that
 * no one else can access. Errors: SW_ERR_NOTFOUND, SW_ERR_INVALID, SW_ERR_IO. */
int sw_launch_read_key(const char *path, unsigned char key[SW_FABRIC_KEY_BYTES],
                       struct sw_err *err) SW_MUST_CHECK;

/* Is it 127.0.0.0/8, ::1 or localhost? Looks nothing up. */
bool sw_launch_is_loopback(const char *address);
/* Is it this machine: localhost, its name, or an address (of a name) of one of its interfaces? May
 * ask the name server. */
bool sw_launch_is_here(const char *address);

/* An identity of this machine since it was started, as 32 hex digits: a hash of /etc/machine-id and
 * the kernel's boot id. Processes with the same identity share cores and GPUs. "" if the system has
 * neither. Returns out. */
const char *sw_launch_machine_id(char out[SW_LAUNCH_MACHINE_ID]);
