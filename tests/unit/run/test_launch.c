/* Who the hosts of a job are: environments of launchers, lists of hosts, contradictions between
 * them, the key, and the sentence that explains the choice. Nothing is started or connected. */
#include "run/launch.h"
#include "run/node_list.h"
#include "unit/scratch.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

/* ---- The outside ---- */

static const char *const *variables; /* "NAME=VALUE", NULL-terminated */
static bool has_module, loaded;
static enum sw_launcher_mpi loaded_mpi;
static char listened[64]; /* the address of the last listener; "any" */

static const char *fake_env(const char *name)
{
    const size_t bytes = strlen(name);

    for (int i = 0; variables && variables[i]; i++)
        if (strncmp(variables[i], name, bytes) == 0 && variables[i][bytes] == '=')
            return variables[i] + bytes + 1;
    return NULL;
}

static const char *fake_name(char out[SW_LAUNCH_NAME])
{
    return strcpy(out, "ada");
}

static bool fake_is_here(const char *address)
{
    return sw_launch_is_loopback(address) || strcmp(address, "ada") == 0 ||
           strcmp(address, "10.0.0.1") == 0;
}

static const char *mpi_name(char *out, size_t bytes)
{
    snprintf(out, bytes, "Open MPI 4.1.4");
    return out;
}

static const struct sw_fabric_engine tcp_engine = {.abi = SW_FABRIC_ABI},
                                     mpi_engine = {.abi = SW_FABRIC_ABI, .name = mpi_name};

static int load_mpi(enum sw_launcher_mpi which, const struct sw_fabric_engine **out,
                    struct sw_err *err)
{
    if (!has_module)
        return sw_err_set(err, SW_ERR_NOTFOUND, "singa_mpi_openmpi.so is missing");
    loaded = true;
    loaded_mpi = which;
    *out = &mpi_engine;
    return SW_OK;
}

static int listen_nowhere(const char *address, uint16_t *port, int *fd, struct sw_err *err)
{
    snprintf(listened, sizeof listened, "%s", address ? address : "any");
    *port = 4711;
    *fd = -1;
    return SW_OK;
}

static const struct sw_launch_engines engines = {&tcp_engine, listen_nowhere, load_mpi};

/* ---- Searches ---- */

struct ask {
    const char *hosts; /* --hosts */
    const char *const *recipe;
    int recipe_count;
    int fabric, network;
    bool share;
};

static int find(const struct ask *q, const char *const *env, struct sw_launch **out,
                struct sw_err *err)
{
    const struct sw_cluster_conf cluster = {
        .hosts = {q->recipe, q->recipe_count}, .fabric = q->fabric, .network = q->network};
    const struct sw_launch_args args = {.cluster = &cluster,
                                        .hosts = q->hosts,
                                        .share_machine = q->share,
                                        .engines = &engines,
                                        .env = fake_env,
                                        .own_name = fake_name,
                                        .is_here = fake_is_here};
    variables = env;
    loaded = false;
    *out = NULL;
    *err = (struct sw_err){0};
    return sw_launch_find(&args, out, err);
}

static struct sw_launch *found(const struct ask *q, const char *const *env)
{
    struct sw_launch *l;
    struct sw_err err;
    int rc = find(q, env, &l, &err);
    if (rc != SW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(rc, SW_OK);
    return l;
}

/* The search fails, and the message has all these words. */
static void refused(const struct ask *q, const char *const *env, const char *const *words)
{
    struct sw_launch *l;
    struct sw_err err;
    assert_int_not_equal(find(q, env, &l, &err), SW_OK);
    assert_null(l);
    for (; *words; words++)
        if (!strstr(err.text, *words)) {
            print_error("no \"%s\" in: %s\n", *words, err.text);
            fail();
        }
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define WORDS ENV
#define ASK(...) (&(const struct ask){__VA_ARGS__})
#define TRUSTED .network = SW_NETWORK_TRUSTED
#define TORCH "RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=bob.example.org", "MASTER_PORT=29500"
#define OMPI "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1"
#define SLURM                                                                                      \
    "SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NODELIST=node[08-09,11]",              \
        "SLURM_JOB_ID=1000", "SLURM_STEP_ID=2", "SLURM_STEP_TASKS_PER_NODE=1(x3)"

static const struct sw_tcp_conf *tcp_of(const struct sw_launch *l)
{
    return l->conf;
}

static void has_name(const struct sw_launch *l, int host, const char *name)
{
    assert_string_equal(l->hosts.host[host].name, name);
}

/* ---- One host ---- */

static void nothing_makes_one_host(void **state)
{
    assert_null(found(ASK(0), NULL));
    assert_null(found(ASK(.fabric = SW_FABRIC_CHOICE_TCP), NULL));
    assert_null(found(ASK(.hosts = "ada"), NULL));
    assert_null(found(ASK(.hosts = "localhost"), NULL));
}

static void one_process_makes_one_host(void **state)
{
    assert_null(found(ASK(0), ENV("RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=x", "MASTER_PORT=1")));
    assert_null(found(ASK(0), ENV("WORLD_SIZE=1")));
    assert_null(found(ASK(0), ENV("OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0")));
    assert_null(found(ASK(0), ENV("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1")));
    assert_null(found(ASK(0), ENV("PMIX_RANK=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1")));
    /* A batch script outside of any step, and a debugger's RANK alone. */
    assert_null(found(ASK(0), ENV("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=5")));
    assert_null(found(ASK(0), ENV("RANK=3")));
    /* A torchrun of one process in each task of a step is a job of its own. */
    assert_null(found(ASK(0), ENV("TORCHELASTIC_RUN_ID=x", "RANK=0", "WORLD_SIZE=1", SLURM)));
}

/* ---- torchrun ---- */

static void torchrun_tells_ranks_and_address(void **state)
{
    struct sw_launch *l = found(ASK(TRUSTED), ENV("TORCHELASTIC_RUN_ID=none", TORCH));
    assert_int_equal(l->hosts.count, 3);
    assert_int_equal(l->hosts.own, 1);
    has_name(l, 0, "bob");
    has_name(l, 1, "ada");
    has_name(l, 2, "2");
    assert_string_equal(l->hosts.host[0].address, "bob.example.org");
    assert_null(l->hosts.host[2].address);
    assert_ptr_equal(l->engine, &tcp_engine);
    assert_int_equal(tcp_of(l)->port, 29500);
    assert_int_equal(tcp_of(l)->listener, -1);
    assert_null(l->key);
    assert_false(l->by_ssh);
    assert_string_equal(l->why, "3 hosts by torchrun's environment, fabric tcp, not encrypted "
                                "(network = trusted): this is host 1 (ada)");
    sw_launch_free(l);
}

static void operators_set_the_same_variables(void **state)
{
    struct sw_launch *l = found(ASK(TRUSTED), ENV(TORCH));
    assert_non_null(strstr(l->why, "3 hosts by RANK and WORLD_SIZE, "));
    sw_launch_free(l);
}

/* The store of torchrun's agent has MASTER_PORT for itself. */
static void a_port_of_torchruns_store_is_left_to_it(void **state)
{
    struct sw_launch *l = found(ASK(TRUSTED), ENV("TORCHELASTIC_USE_AGENT_STORE=True", TORCH));
    assert_int_equal(tcp_of(l)->port, 29501);
    sw_launch_free(l);
    l = found(ASK(TRUSTED), ENV("TORCHELASTIC_USE_AGENT_STORE=False", TORCH));
    assert_int_equal(tcp_of(l)->port, 29500);
    sw_launch_free(l);
}

static void incomplete_or_wrong_variables_are_named(void **state)
{
    refused(ASK(0), ENV("WORLD_SIZE=3"), WORDS("WORLD_SIZE=3", "RANK"));
    refused(ASK(0), ENV("RANK=1", "WORLD_SIZE=3"), WORDS("WORLD_SIZE=3", "MASTER_ADDR"));
    refused(ASK(0), ENV("RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=a"), WORDS("MASTER_PORT"));
    refused(ASK(0), ENV("RANK=3", "WORLD_SIZE=3"), WORDS("RANK=3", "WORLD_SIZE=3"));
    refused(ASK(0), ENV("RANK=-1", "WORLD_SIZE=3"), WORDS("RANK=-1"));
    refused(ASK(0), ENV("RANK=1", "WORLD_SIZE=many"), WORDS("WORLD_SIZE=many"));
    refused(ASK(0), ENV("RANK=1", "WORLD_SIZE=0"), WORDS("WORLD_SIZE=0"));
    refused(ASK(0), ENV("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=70000"),
            WORDS("MASTER_PORT=70000", "65535"));
    refused(ASK(0), ENV("OMPI_COMM_WORLD_SIZE=2"), WORDS("OMPI_COMM_WORLD_RANK"));
    refused(ASK(0), ENV("PMIX_RANK=1"), WORDS("PMIX_RANK"));
    refused(ASK(0), ENV("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"), WORDS("SLURM_JOB_ID"));
    refused(ASK(0), ENV("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=1"),
            WORDS("SLURM_STEP_NODELIST"));
}

/* ---- Slurm ---- */

static void slurm_names_the_nodes(void **state)
{
    struct sw_launch *l = found(ASK(TRUSTED), ENV(SLURM));
    assert_int_equal(l->hosts.count, 3);
    assert_int_equal(l->hosts.own, 2);
    has_name(l, 0, "node08");
    has_name(l, 1, "node09");
    has_name(l, 2, "node11");
    assert_string_equal(l->hosts.host[0].address, "node08");
    assert_int_equal(tcp_of(l)->port, sw_launcher_slurm_port(1000, 2));
    assert_non_null(strstr(l->why, "3 hosts by srun, fabric tcp"));
    sw_launch_free(l);
}

static void master_addr_and_port_come_before_those_of_slurm(void **state)
{
    struct sw_launch *l =
        found(ASK(TRUSTED), ENV("MASTER_ADDR=10.1.0.8", "MASTER_PORT=7000", "WORLD_SIZE=3", SLURM));
    assert_string_equal(l->hosts.host[0].address, "10.1.0.8");
    has_name(l, 0, "node08");
    assert_int_equal(tcp_of(l)->port, 7000);
    sw_launch_free(l);
}

static void ports_of_steps_differ_and_are_no_clients(void **state)
{
    assert_int_not_equal(sw_launcher_slurm_port(1000, 0), sw_launcher_slurm_port(1000, 1));
    assert_int_not_equal(sw_launcher_slurm_port(1000, 0), sw_launcher_slurm_port(1001, 0));
    for (long long job = 0; job < 100000; job += 77) {
        assert_true(sw_launcher_slurm_port(job, 3) >= 20000);
        assert_true(sw_launcher_slurm_port(job, 3) < 32000);
    }
}

/* ---- MPI ---- */

static void mpi_is_used_where_its_module_is(void **state)
{
    has_module = true;
    struct sw_launch *l = found(ASK(0), ENV(OMPI));
    assert_ptr_equal(l->engine, &mpi_engine);
    assert_null(l->conf);
    assert_null(l->key);
    assert_int_equal(l->hosts.count, 4);
    assert_int_equal(l->hosts.own, 2);
    has_name(l, 2, "ada");
    has_name(l, 3, "3");
    assert_int_equal(loaded_mpi, SW_LAUNCHER_OPEN_MPI);
    assert_string_equal(l->why, "4 hosts by mpirun, fabric mpi (Open MPI 4.1.4), not encrypted: "
                                "this is host 2 (ada)");
    sw_launch_free(l);

    l = found(ASK(.fabric = SW_FABRIC_CHOICE_MPI), ENV("PMI_SIZE=2", "PMI_RANK=0"));
    assert_int_equal(loaded_mpi, SW_LAUNCHER_MPICH);
    assert_int_equal(l->hosts.own, 0);
    sw_launch_free(l);

    l = found(ASK(0), ENV("PMIX_RANK=2", SLURM));
    assert_ptr_equal(l->engine, &mpi_engine);
    assert_int_equal(l->hosts.count, 3);
    sw_launch_free(l);

    /* mpirun within a Slurm job starts its own daemons as a step of other tasks. */
    l = found(ASK(0), ENV(OMPI, "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=1",
                          "SLURM_STEP_NODELIST=a,b"));
    assert_int_equal(l->hosts.count, 4);
    sw_launch_free(l);
}

static void without_the_module_tcp_needs_an_address(void **state)
{
    has_module = false;
    refused(ASK(0), ENV(OMPI), WORDS("mpirun started 4 processes", "singa_mpi_openmpi.so"));
    refused(ASK(.fabric = SW_FABRIC_CHOICE_MPI), ENV("PMIX_RANK=2", SLURM),
            WORDS("singa_mpi_openmpi.so"));

    struct sw_launch *l = found(ASK(TRUSTED), ENV("PMIX_RANK=2", SLURM));
    assert_ptr_equal(l->engine, &tcp_engine);
    assert_string_equal(l->hosts.host[0].address, "node08");
    assert_non_null(strstr(l->why, "no module for MPI"));
    sw_launch_free(l);
}

static void tcp_can_use_mpiruns_ranks(void **state)
{
    has_module = true;
    refused(ASK(.fabric = SW_FABRIC_CHOICE_TCP), ENV(OMPI),
            WORDS("fabric = tcp", "mpirun started 4", "MASTER_ADDR"));
    struct sw_launch *l = found(ASK(.fabric = SW_FABRIC_CHOICE_TCP, TRUSTED),
                                ENV(OMPI, "MASTER_ADDR=bob", "MASTER_PORT=99"));
    assert_ptr_equal(l->engine, &tcp_engine);
    assert_false(loaded);
    assert_int_equal(l->hosts.own, 2);
    assert_int_equal(tcp_of(l)->port, 99);
    has_name(l, 0, "bob");
    sw_launch_free(l);
}

static void fabric_mpi_needs_a_launcher_of_mpi(void **state)
{
    has_module = true;
    refused(ASK(.fabric = SW_FABRIC_CHOICE_MPI), NULL, WORDS("fabric = mpi", "no MPI launcher"));
    refused(ASK(.fabric = SW_FABRIC_CHOICE_MPI), ENV(TORCH),
            WORDS("fabric = mpi", "no MPI launcher", "RANK and WORLD_SIZE"));
    refused(ASK(.fabric = SW_FABRIC_CHOICE_MPI, .hosts = "ada,b"), NULL,
            WORDS("fabric = mpi", "no MPI launcher"));
}

/* ---- Contradictions ---- */

static void contradictions_name_both_sides(void **state)
{
    static const char *const two[] = {"ada", "b"};

    has_module = true;
    refused(ASK(.hosts = "ada,b"), ENV("TORCHELASTIC_RUN_ID=x", TORCH),
            WORDS("--hosts names 2 hosts", "by torchrun's environment there are 3", "WORLD_SIZE"));
    refused(ASK(.recipe = two, .recipe_count = 2), ENV(OMPI),
            WORDS("cluster.hosts names 2 hosts", "by mpirun there are 4"));
    refused(ASK(.hosts = "ada"), ENV(SLURM), WORDS("--hosts names 1 host,", "by srun there are 3"));
    refused(ASK(.hosts = "ada,b"), ENV("WORLD_SIZE=1"), WORDS("--hosts names 2", "WORLD_SIZE=1"));
    refused(ASK(0), ENV(TORCH, OMPI), WORDS("WORLD_SIZE=3", "OMPI_COMM_WORLD_SIZE=4"));
    refused(ASK(0), ENV(TORCH, SLURM), WORDS("RANK=1", "SLURM_PROCID=2"));
    refused(ASK(0), ENV("WORLD_SIZE=5", SLURM), WORDS("WORLD_SIZE=5", "SLURM_STEP_NUM_TASKS=3"));
}

static void a_list_that_agrees_names_the_hosts(void **state)
{
    struct sw_launch *l = found(ASK(.hosts = "a,b,carol@c", TRUSTED), ENV(TORCH));
    has_name(l, 0, "a");
    has_name(l, 1, "b");
    has_name(l, 2, "c");
    assert_false(l->by_ssh);
    sw_launch_free(l);
}

static void torchrun_inside_of_a_step_decides(void **state)
{
    struct sw_launch *l = found(ASK(TRUSTED), ENV("TORCHELASTIC_RUN_ID=x", TORCH, SLURM, OMPI));
    assert_int_equal(l->hosts.count, 3);
    assert_int_equal(l->hosts.own, 1);
    sw_launch_free(l);
}

static void several_processes_on_a_machine_are_refused(void **state)
{
    has_module = true;
    refused(ASK(TRUSTED), ENV("LOCAL_WORLD_SIZE=2", TORCH),
            WORDS("2 processes on this machine", "--share-machine"));
    refused(ASK(0),
            ENV("OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=2"),
            WORDS("4 processes on this machine"));
    refused(ASK(TRUSTED),
            ENV("SLURM_STEP_TASKS_PER_NODE=1,2(x2)", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=5",
                "SLURM_STEP_NODELIST=a[1-3]", "SLURM_JOB_ID=1"),
            WORDS("2 processes on this machine"));
    struct sw_launch *l = found(ASK(TRUSTED, .share = true), ENV("LOCAL_WORLD_SIZE=2", TORCH));
    assert_true(l->share_machine);
    has_name(l, 1, "1");
    sw_launch_free(l);
}

static void fabrics_have_a_limit_of_hosts(void **state)
{
    char list[200] = "ada";

    has_module = true;
    refused(ASK(TRUSTED), ENV("RANK=0", "WORLD_SIZE=17", "MASTER_ADDR=a", "MASTER_PORT=1"),
            WORDS("17 hosts", "tcp", "16"));
    refused(ASK(0), ENV("OMPI_COMM_WORLD_SIZE=65", "OMPI_COMM_WORLD_RANK=0"),
            WORDS("65 hosts", "mpi", "64"));
    sw_launch_free(
        found(ASK(TRUSTED), ENV("RANK=0", "WORLD_SIZE=16", "MASTER_ADDR=a", "MASTER_PORT=1")));
    sw_launch_free(found(ASK(0), ENV("OMPI_COMM_WORLD_SIZE=64", "OMPI_COMM_WORLD_RANK=63")));

    for (int i = 1; i < 17; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ",b%d", i);
    refused(ASK(.hosts = list), NULL, WORDS("17 hosts", "16"));
}

/* ---- Lists ---- */

static void a_list_alone_is_started_by_ssh(void **state)
{
    static const char *const three[] = {"localhost", "eve@b.example.org", "10.0.0.9"};

    struct sw_launch *l = found(ASK(.recipe = three, .recipe_count = 3), NULL);
    assert_true(l->by_ssh);
    assert_int_equal(l->hosts.count, 3);
    assert_int_equal(l->hosts.own, 0);
    has_name(l, 0, "ada");
    has_name(l, 1, "b");
    has_name(l, 2, "10.0.0.9");
    assert_string_equal(l->targets[1], "eve@b.example.org");
    assert_string_equal(l->hosts.host[1].address, "b.example.org");
    assert_null(l->key);
    assert_string_equal(l->why, "3 hosts by cluster.hosts and ssh, fabric tcp, TLS 1.3 with the "
                                "job's key: this is host 0 (ada)");
    sw_launch_free(l);

    l = found(ASK(.hosts = " ada , b ", .recipe = three, .recipe_count = 3), NULL);
    assert_int_equal(l->hosts.count, 2);
    has_name(l, 1, "b");
    sw_launch_free(l);
}

static void the_first_of_a_list_is_this_machine(void **state)
{
    refused(ASK(.hosts = "b,ada"), NULL, WORDS("--hosts", "first host", "b"));
    refused(ASK(.hosts = "b"), NULL, WORDS("first host"));
}

static void wrong_lists_are_refused(void **state)
{
    refused(ASK(.hosts = "ada,"), NULL, WORDS("--hosts", "''"));
    refused(ASK(.hosts = "ada,-oProxyCommand=x"), NULL, WORDS("-oProxyCommand=x"));
    refused(ASK(.hosts = "ada,b;reboot"), NULL, WORDS("b;reboot"));
    refused(ASK(.hosts = "ada,b c"), NULL, WORDS("b c"));
    refused(ASK(.hosts = "ada,eve@"), NULL, WORDS("eve@"));
    refused(ASK(.hosts = "ada,b,eve@b"), NULL, WORDS("b twice"));
}

static void hosts_of_one_machine_have_names_of_their_own(void **state)
{
    struct sw_launch *l = found(ASK(.hosts = "localhost,localhost", .share = true), NULL);
    uint16_t port;
    struct sw_err err;
    has_name(l, 0, "localhost");
    has_name(l, 1, "localhost#1");
    assert_string_equal(sw_launch_address(l), "127.0.0.1");
    assert_int_equal(sw_launch_lead(l, &port, &err), SW_OK);
    assert_string_equal(listened, "127.0.0.1");
    sw_launch_free(l);
}

static void the_leader_makes_key_and_port(void **state)
{
    static const unsigned char zero[SW_FABRIC_KEY_BYTES];
    struct sw_launch *l = found(ASK(.hosts = "10.0.0.1,b"), NULL);
    uint16_t port = 0;
    struct sw_err err;

    assert_int_equal(sw_launch_lead(l, &port, &err), SW_OK);
    assert_int_equal(port, 4711);
    assert_int_equal(tcp_of(l)->port, 4711);
    assert_string_equal(listened, "10.0.0.1");
    assert_memory_not_equal(l->key, zero, sizeof zero);
    sw_launch_free(l);

    l = found(ASK(.hosts = "localhost,b", TRUSTED), NULL);
    assert_int_equal(sw_launch_lead(l, &port, &err), SW_OK);
    assert_null(l->key);
    assert_string_equal(listened, "any");
    assert_null(sw_launch_address(l));
    sw_launch_free(l);
}

static void a_host_that_was_told_has_what_it_was_told(void **state)
{
    const char *names[] = {"ada", "b"};
    unsigned char key[SW_FABRIC_KEY_BYTES] = {1, 2, 3};
    struct sw_launch_told told = {names, 2, 1, "10.0.0.1", 4711, key, false, &engines};
    struct sw_launch *l;
    struct sw_err err;

    assert_int_equal(sw_launch_of(&told, &l, &err), SW_OK);
    assert_int_equal(l->hosts.own, 1);
    has_name(l, 1, "b");
    assert_string_equal(l->hosts.host[0].address, "10.0.0.1");
    assert_int_equal(tcp_of(l)->port, 4711);
    assert_memory_equal(l->key, key, sizeof key);
    assert_false(l->by_ssh);
    sw_launch_free(l);

    told.own = 2;
    assert_int_equal(sw_launch_of(&told, &l, &err), SW_ERR_INVALID);
}

/* ---- Keys ---- */

static const char *key_file(const char *name, int bytes, mode_t mode)
{
    const char *path = scratch_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    for (int i = 0; i < bytes; i++)
        assert_int_equal(write(fd, "k", 1), 1);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static void a_private_job_needs_a_key_or_loopback(void **state)
{
    char variable[600];

    refused(ASK(0), ENV(TORCH), WORDS("private", "SINGA_JOB_KEY", "network = trusted", "bob"));
    struct sw_launch *l =
        found(ASK(0), ENV("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=7"));
    assert_null(l->key);
    assert_non_null(strstr(l->why, "not encrypted (on this machine only)"));
    sw_launch_free(l);

    snprintf(variable, sizeof variable, "SINGA_JOB_KEY=%s", key_file("key", 32, 0600));
    l = found(ASK(0), ENV(variable, TORCH));
    assert_non_null(l->key);
    assert_memory_equal(l->key, "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", 32);
    assert_non_null(strstr(l->why, "fabric tcp, TLS 1.3 with the job's key: this is host 1 (ada)"));
    sw_launch_free(l);
}

static void a_key_that_others_know_is_refused(void **state)
{
    unsigned char key[SW_FABRIC_KEY_BYTES];
    struct sw_err err;

    assert_int_equal(sw_launch_read_key(key_file("ok", 32, 0400), key, &err), SW_OK);
    assert_int_equal(sw_launch_read_key(key_file("group", 32, 0640), key, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "0640"));
    assert_int_equal(sw_launch_read_key(key_file("other", 32, 0604), key, &err), SW_ERR_INVALID);
    assert_int_equal(sw_launch_read_key(key_file("short", 31, 0600), key, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "31"));
    assert_int_equal(sw_launch_read_key(key_file("long", 33, 0600), key, &err), SW_ERR_INVALID);
    assert_int_equal(sw_launch_read_key(scratch_path("none"), key, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "SINGA_JOB_KEY"));

    if (geteuid() == 0) {
        const char *path = key_file("foreign", 32, 0600);
        if (chown(path, 1, 1) == 0) {
            assert_int_equal(sw_launch_read_key(path, key, &err), SW_ERR_INVALID);
            assert_non_null(strstr(err.text, "belong"));
        }
    }
}

/* ---- This machine ---- */

static void a_machine_knows_itself(void **state)
{
    char name[256] = "", id[SW_LAUNCH_MACHINE_ID], again[SW_LAUNCH_MACHINE_ID];

    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    assert_true(sw_launch_is_here(name));
    assert_true(sw_launch_is_here("localhost"));
    assert_true(sw_launch_is_here("127.0.0.1"));
    assert_true(sw_launch_is_here("::1"));
    assert_false(sw_launch_is_here("192.0.2.7")); /* TEST-NET-1, RFC 5737 */
    assert_true(sw_launch_is_loopback("127.3.2.1"));
    assert_false(sw_launch_is_loopback("10.0.0.1"));
    assert_string_equal(sw_launch_machine_id(id), sw_launch_machine_id(again));
    assert_true(strlen(id) == 32 || id[0] == '\0');
}

/* ---- Lists of Slurm ---- */

static void read_nodes(const char *text, int count, const char *const *names)
{
    struct sw_node_list l = {0};
    struct sw_err err = {0};
    if (sw_node_list_read(text, SW_MOST_HOSTS, &l, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_int_equal(l.count, count);
    for (int i = 0; i < count; i++)
        assert_string_equal(l.name[i], names[i]);
    sw_node_list_fini(&l);
}

static void lists_of_nodes_are_expanded(void **state)
{
    read_nodes("ada", 1, ENV("ada"));
    read_nodes("ada,b-2.x", 2, ENV("ada", "b-2.x"));
    read_nodes("node[03-05,9]", 4, ENV("node03", "node04", "node05", "node9"));
    read_nodes("n[9-11],gpu[1]", 4, ENV("n9", "n10", "n11", "gpu1"));
    read_nodes("r[1-2]n[01-02]-ib", 4, ENV("r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"));
}

static void long_lists_are_cut(void **state)
{
    struct sw_node_list l = {0};
    struct sw_err err;
    assert_int_equal(sw_node_list_read("a[1-999999999],b[1-999999999]", 5, &l, &err), SW_OK);
    assert_int_equal(l.count, 5);
    assert_string_equal(l.name[4], "a5");
    sw_node_list_fini(&l);
}

static void bad_lists_are_refused(void **state)
{
    static const char *const bad[] = {"",       ",",       "a,",      "a[",     "a[]",
                                      "a[1",    "a[1-]",   "a[-1]",   "a[2-1]", "a[1,]",
                                      "a[1;2]", "a]1[",    "a[x]",    "a[1-x]", "a[12345678901]",
                                      "a[1]b[", "[1-2],,", "a[1[2]]", NULL};

    for (int i = 0; bad[i]; i++) {
        struct sw_node_list l = {0};
        struct sw_err err;
        if (sw_node_list_read(bad[i], SW_MOST_HOSTS, &l, &err) != SW_ERR_INVALID)
            fail_msg("'%s' is accepted", bad[i]);
        sw_node_list_fini(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_makes_one_host),
        cmocka_unit_test(one_process_makes_one_host),
        cmocka_unit_test(torchrun_tells_ranks_and_address),
        cmocka_unit_test(operators_set_the_same_variables),
        cmocka_unit_test(a_port_of_torchruns_store_is_left_to_it),
        cmocka_unit_test(incomplete_or_wrong_variables_are_named),
        cmocka_unit_test(slurm_names_the_nodes),
        cmocka_unit_test(master_addr_and_port_come_before_those_of_slurm),
        cmocka_unit_test(ports_of_steps_differ_and_are_no_clients),
        cmocka_unit_test(mpi_is_used_where_its_module_is),
        cmocka_unit_test(without_the_module_tcp_needs_an_address),
        cmocka_unit_test(tcp_can_use_mpiruns_ranks),
        cmocka_unit_test(fabric_mpi_needs_a_launcher_of_mpi),
        cmocka_unit_test(contradictions_name_both_sides),
        cmocka_unit_test(a_list_that_agrees_names_the_hosts),
        cmocka_unit_test(torchrun_inside_of_a_step_decides),
        cmocka_unit_test(several_processes_on_a_machine_are_refused),
        cmocka_unit_test(fabrics_have_a_limit_of_hosts),
        cmocka_unit_test(a_list_alone_is_started_by_ssh),
        cmocka_unit_test(the_first_of_a_list_is_this_machine),
        cmocka_unit_test(wrong_lists_are_refused),
        cmocka_unit_test(hosts_of_one_machine_have_names_of_their_own),
        cmocka_unit_test(the_leader_makes_key_and_port),
        cmocka_unit_test(a_host_that_was_told_has_what_it_was_told),
        cmocka_unit_test(a_private_job_needs_a_key_or_loopback),
        cmocka_unit_test(a_key_that_others_know_is_refused),
        cmocka_unit_test(a_machine_knows_itself),
        cmocka_unit_test(lists_of_nodes_are_expanded),
        cmocka_unit_test(long_lists_are_cut),
        cmocka_unit_test(bad_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
