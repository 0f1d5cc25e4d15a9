/* ctest-timeout: 60
 * Jobs over MPI, each of three processes that a launcher has started: they talk, end in order and
 * with an error, and lose one of them. test_fabric.c has the conformance suite. */
#include "exchange/hosts/fabric.h"
#include "thread/thread.h"
#include "unit/exchange/mpi_run.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

enum { HOSTS = 3, BYTES = 3 * SW_FABRIC_CHUNK + 5, SMALL = 100 };

/* ---- The processes of a job ---- */

struct process {
    int rank;
    struct sw_host names[HOSTS];
    struct sw_hosts hosts;
    const struct sw_fabric_engine *engine;
    struct sw_fabric *fabric;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    unsigned char *in[HOSTS], *out;
    int arrived, damaged, done, lost[HOSTS];
    pid_t pid[HOSTS];
    struct sw_err why[HOSTS];
};

/* A process that finds something wrong says so and ends, and with it the job. */
static void require(bool holds, const char *what, const char *text)
{
    if (holds)
        return;
    printf("failed: %s: %s\n", what, text);
    fflush(stdout);
    _exit(9);
}

static void require_ok(int rc, const char *what, const struct sw_err *err)
{
    require(rc == SW_OK, what, err->text);
}

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct process *p = user;
    *to = p->in[from];
    return bytes <= BYTES ? SW_OK : sw_err_set(err, SW_ERR_INVALID, "too many bytes");
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct process *p = user;
    const unsigned char *in = data;
    sw_mutex_lock(&p->lock);
    if (tag->kind == 2)
        memcpy(&p->pid[from], data, sizeof p->pid[from]);
    for (size_t i = 0; tag->kind == 1 && i < bytes; i++)
        p->damaged += in[i] != (unsigned char)(i * 7 + (size_t)from + tag->version);
    p->arrived++;
    sw_cond_broadcast(&p->changed);
    sw_mutex_unlock(&p->lock);
    return SW_OK;
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct process *p = user;
    sw_mutex_lock(&p->lock);
    p->why[host] = *why;
    p->lost[host]++;
    sw_cond_broadcast(&p->changed);
    sw_mutex_unlock(&p->lock);
}

static void done(void *user, int rc)
{
    struct process *p = user;
    sw_mutex_lock(&p->lock);
    p->done++;
    sw_cond_broadcast(&p->changed);
    sw_mutex_unlock(&p->lock);
}

/* Waits until *count is at least `least`. */
static void await(struct process *p, const int *count, int least)
{
    sw_fabric_await(p->fabric, 1);
    sw_mutex_lock(&p->lock);
    while (*count < least)
        sw_cond_wait(&p->changed, &p->lock);
    sw_mutex_unlock(&p->lock);
    sw_fabric_await(p->fabric, -1);
}

static void begin(struct process *p)
{
    static const char *const names[HOSTS] = {"ada", "bob", "cyd"};
    enum sw_mpi_kind kind;
    struct sw_err err;
    int size;
    require(sw_mpi_launched(&p->rank, &size, &kind) && size == HOSTS, "the launcher", "not found");
    require_ok(sw_mpi_engine_load(kind, &p->engine, &err), "the module", &err);
    for (int i = 0; i < HOSTS; i++) {
        p->names[i].name = names[i];
        require((p->in[i] = malloc(BYTES)) != NULL, "memory", "exhausted");
    }
    require((p->out = malloc(2 * BYTES)) != NULL, "memory", "exhausted");
    p->hosts = (struct sw_hosts){.host = p->names, .count = HOSTS, .own = p->rank};
    sw_mutex_init(&p->lock);
    sw_cond_init(&p->changed);
}

static int try_open(struct process *p, struct sw_err *err)
{
    const struct sw_fabric_args args = {
        .hosts = &p->hosts,
        .hello = "case=1\n",
        .hello_bytes = 7,
        .sink = {.place = place, .arrived = arrived, .lost = lost, .user = p}};
    return sw_fabric_open(p->engine, &args, &p->fabric, err);
}

static void open_fabric(struct process *p)
{
    struct sw_err err;
    require_ok(try_open(p, &err), "open", &err);
}

static void send_to_all(struct process *p, int kind, uint64_t version, const void *data,
                        size_t bytes)
{
    const struct sw_fabric_tag tag = {.kind = (uint16_t)kind, .version = version};
    struct sw_err err;
    for (int to = 0; to < HOSTS; to++)
        if (to != p->rank)
            require_ok(sw_fabric_send(p->fabric, to, &tag, data, bytes, done, p, &err), "send",
                       &err);
}

/* Returns when this process knows the ids of all, and all know this one's. */
static void all_have_come(struct process *p)
{
    const pid_t pid = getpid();
    send_to_all(p, 2, 0, &pid, sizeof pid);
    await(p, &p->arrived, HOSTS - 1);
    send_to_all(p, 3, 0, NULL, 0);
    await(p, &p->arrived, 2 * (HOSTS - 1));
    await(p, &p->done, 2 * (HOSTS - 1));
}

static void leave_and_free(struct process *p)
{
    struct sw_err err;
    require_ok(sw_fabric_leave(p->fabric, 60000, &err), "leave", &err);
    sw_fabric_free(p->fabric);
    p->fabric = NULL;
}

/* Two jobs, one after the other; the same process may have several. */
static int talk(struct process *p)
{
    static const size_t sizes[] = {0, 1, 4096, 4097, BYTES, SMALL};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    struct sw_err err;
    p->hosts.count = HOSTS + 1;
    p->names[0].name = "eve";
    const struct sw_host more[HOSTS + 1] = {{"ada", 0}, {"bob", 0}, {"cyd", 0}, {"dan", 0}};
    p->hosts.host = more;
    require(try_open(p, &err) == SW_ERR_LIBRARY && strstr(err.text, "3 processes"),
            "a job of more hosts than processes", err.text);
    p->hosts = (struct sw_hosts){.host = p->names, .count = HOSTS, .own = p->rank};
    p->names[0].name = "ada";
    for (int job = 0; job < 2; job++) {
        p->arrived = p->done = 0;
        open_fabric(p);
        for (int s = 0; s < SIZES; s++) {
            for (size_t i = 0; i < sizes[s]; i++)
                p->out[i] = (unsigned char)(i * 7 + (size_t)p->rank + (size_t)s);
            send_to_all(p, 1, (uint64_t)s, p->out, sizes[s]);
            await(p, &p->done, (s + 1) * (HOSTS - 1));
            await(p, &p->arrived, (s + 1) * (HOSTS - 1));
        }
        leave_and_free(p);
        require(p->damaged == 0, "messages", "damaged");
    }
    char name[80];
    printf("talked over %s\n", p->engine->name(name, sizeof name));
    return 0;
}

/* A host ends because of an error: all know which, and nobody waits for MPI_Finalize. */
static int end_with_error(struct process *p)
{
    const struct sw_err why = {SW_ERR_DIVERGED, "the loss is not finite"};
    open_fabric(p);
    all_have_come(p);
    if (p->rank == 1) {
        sw_fabric_abort(p->fabric, &why, 60000);
    } else {
        await(p, &p->lost[1], 1);
        require(strstr(p->why[1].text, "host bob: the loss is not finite") != NULL, "the reason",
                p->why[1].text);
        printf("told the reason\n");
        fflush(stdout);
    }
    sw_fabric_free(p->fabric);
    return 5;
}

/* A host ends at once, as after an assertion. */
static int end_at_once(struct process *p)
{
    open_fabric(p);
    all_have_come(p);
    if (p->rank == 1)
        exit(7);
    await(p, &p->arrived, 1000); /* in vain */
    return 0;
}

/* Host cyd is stopped while messages to it are under way. The others lose it, go on without it,
 * and then wake it: it finds that it is lost. */
static int stop_one(struct process *p)
{
    const struct sw_fabric_tag tag = {.kind = 3};
    struct sw_err err;
    open_fabric(p);
    all_have_come(p);
    if (p->rank == 2) {
        raise(SIGSTOP);
        await(p, &p->lost[0], 1);
        await(p, &p->lost[1], 1);
        printf("was lost\n");
    } else {
        require_ok(sw_fabric_send(p->fabric, 2, &tag, p->out, BYTES, done, p, &err), "send", &err);
        await(p, &p->lost[2], 1);
        require(strstr(p->why[2].text, "host cyd: nothing was heard") != NULL, "the reason",
                p->why[2].text);
        require_ok(sw_fabric_send(p->fabric, 1 - p->rank, &tag, p->out, BYTES, done, p, &err),
                   "send", &err);
        await(p, &p->arrived, 2 * (HOSTS - 1) + 1);
        if (p->rank == 0)
            kill(p->pid[2], SIGCONT);
        printf("went on\n");
        fflush(stdout);
        require_ok(sw_fabric_leave(p->fabric, 60000, &err), "leave", &err);
    }
    fflush(stdout);
    sw_fabric_free(p->fabric);
    return 75;
}

static const struct {
    const char *name;
    int (*run)(struct process *p);
} cases[] = {{"talk", talk},
             {"end_with_error", end_with_error},
             {"end_at_once", end_at_once},
             {"stop_one", stop_one}};

static int be_process(const char *what)
{
    static struct process p;
    int code = 9;
    begin(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, what) == 0)
            code = cases[i].run(&p);
    for (int i = 0; i < HOSTS; i++)
        free(p.in[i]);
    free(p.out);
    return code;
}

/* ---- The tests ---- */

static const struct mpi_made *made; /* of the running test */
static const char *program;
static char log_text[1 << 16];

/* Runs a case and reads what it printed. Returns its exit code. */
static int run_case(const char *what)
{
    char path[] = "/tmp/singa-mpi-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    int code = mpi_wait(mpi_start(made, HOSTS, program, what, path));
    ssize_t bytes = read(fd, log_text, sizeof log_text - 1);
    log_text[bytes > 0 ? bytes : 0] = '\0';
    close(fd);
    unlink(path);
    if (strstr(log_text, "failed:") || strstr(log_text, "ERROR: "))
        print_error("%s\n", log_text);
    assert_null(strstr(log_text, "failed:"));
    assert_null(strstr(log_text, "ERROR: "));
    return code;
}

static int times(const char *text)
{
    int count = 0;
    for (const char *at = log_text; (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void jobs_follow_each_other(void **state)
{
    char text[80];
    int code = run_case("talk");
    if (code != 0)
        print_error("%s\n", log_text);
    assert_int_equal(code, 0);
    snprintf(text, sizeof text, "talked over %s ", made->name);
    assert_int_equal(times(text), HOSTS);
    assert_null(strstr(log_text, "Version"));
}

static void an_error_is_told_and_ends_all(void **state)
{
    assert_int_equal(run_case("end_with_error"), 5);
    assert_int_equal(times("told the reason"), HOSTS - 1);
}

static void the_launcher_ends_all_when_one_has_ended(void **state)
{
    assert_int_not_equal(run_case("end_at_once"), 0);
}

static void a_stopped_process_is_lost_and_learns_it(void **state)
{
    assert_int_not_equal(run_case("stop_one"), 0);
    assert_int_equal(times("went on"), HOSTS - 1);
    /* The launcher may end it before it is told. */
    assert_in_range(times("was lost"), 0, 1);
}

/* ---- Without MPI ---- */

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void launchers_are_known_by_their_environment(void **state)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
        "SLURM_NTASKS",         "SLURM_STEP_NUM_TASKS"};
    static const struct {
        const char *value[7];
        int rank, size; /* size 0: not launched */
        enum sw_mpi_kind kind;
    } rows[] = {
        {{"1", "4", NULL, NULL, "1", NULL, NULL}, 1, 4, SW_MPI_OPENMPI},
        {{NULL, NULL, "0", "2", NULL, NULL, NULL}, 0, 2, SW_MPI_MPICH},
        {{NULL, NULL, NULL, NULL, "3", "8", NULL}, 3, 8, SW_MPI_OPENMPI},
        {{NULL, NULL, NULL, NULL, "3", "8", "4"}, 3, 4, SW_MPI_OPENMPI},
        {{NULL, NULL, NULL, NULL, NULL, "8", "4"}, 0, 0, SW_MPI_OPENMPI},
        {{"1", NULL, NULL, NULL, NULL, NULL, NULL}, 0, 0, SW_MPI_OPENMPI},
        {{"4", "4", NULL, NULL, NULL, NULL, NULL}, 0, 0, SW_MPI_OPENMPI},
        {{"-1", "4", NULL, NULL, NULL, NULL, NULL}, 0, 0, SW_MPI_OPENMPI},
        {{"1x", "4", NULL, NULL, NULL, NULL, NULL}, 0, 0, SW_MPI_OPENMPI},
        {{"", "4", NULL, NULL, NULL, NULL, NULL}, 0, 0, SW_MPI_OPENMPI},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int rank = -7, size = -7;
        enum sw_mpi_kind kind = SW_MPI_OPENMPI;
        for (int i = 0; i < 7; i++)
            set(names[i], rows[r].value[i]);
        assert_int_equal(sw_mpi_launched(&rank, &size, &kind), rows[r].size > 0);
        assert_int_equal(rank, rows[r].size ? rows[r].rank : -7);
        assert_int_equal(size, rows[r].size ? rows[r].size : -7);
        assert_int_equal(kind, rows[r].kind);
    }
    for (int i = 0; i < 7; i++)
        set(names[i], NULL);
}

static void a_missing_module_is_named(void **state)
{
    const struct sw_fabric_engine *e = NULL;
    struct sw_err err;
    setenv("SINGA_MPI_MODULE", "/nowhere/mpi.so", 1);
    assert_int_equal(sw_mpi_engine_load(SW_MPI_MPICH, &e, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "SINGA_MPI_MODULE names /nowhere/mpi.so"));
    char other[4096];
    snprintf(other, sizeof other, "%s/singa_blas.so", getenv("SW_BINARY_DIR"));
    setenv("SINGA_MPI_MODULE", other, 1);
    assert_int_equal(sw_mpi_engine_load(SW_MPI_OPENMPI, &e, &err), SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "is not a module for Open MPI"));
    assert_null(e);
    unsetenv("SINGA_MPI_MODULE");
}

int main(int argc, char **argv)
{
    if (getenv("MPI_CASE"))
        return be_process(getenv("MPI_CASE"));
    const struct CMUnitTest without[] = {
        cmocka_unit_test(launchers_are_known_by_their_environment),
        cmocka_unit_test(a_missing_module_is_named),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_follow_each_other),
        cmocka_unit_test(an_error_is_told_and_ends_all),
        cmocka_unit_test(the_launcher_ends_all_when_one_has_ended),
        cmocka_unit_test(a_stopped_process_is_lost_and_learns_it),
    };
    int failed = cmocka_run_group_tests(without, NULL, NULL);
    program = argv[0];
    for (int i = 0; i < MPI_MADE; i++) {
        const char *missing = mpi_missing(&mpi_made[i]);
        made = &mpi_made[i];
        print_message("%s%s%s\n", made->name, missing ? ": skipped: " : "", missing ? missing : "");
        failed += missing ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
