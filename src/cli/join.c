/* singa-ws join: takes part in a job as one of its hosts. `run --hosts` starts it by ssh and tells
 * it everything on standard input, which then stays open: where it ends, host 0 or the connection
 * has ended, and so does this process, at once. */
#include "base/os.h"
#include "cli/hosts/files.h"
#include "cli/hosts/hosts.h"
#include "cli/hosts/preflight.h"
#include "cli/training/trainer.h"
#include "thread/thread.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The end of standard input ---- */

struct watch {
    struct sw_thread thread;
    int done[2];        /* a pipe: writing ends the thread */
    const char *host;   /* host 0 */
    const char *folder; /* of copies, which are removed; or NULL */
};

/* Reads until the end of standard input, or until the job is done. */
static void watch_input(void *watch)
{
    const struct watch *w = watch;
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = w->done[0], .events = POLLIN}};
    char ignored[256];

    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            return;

        ssize_t n = fds[0].revents ? sw_os()->read(STDIN_FILENO, ignored, sizeof ignored) : 1;
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
    }

    sw_cli_message("host %s has ended, or the connection to it", w->host);
    sw_host_files_remove(w->folder);
    _exit(SW_EXIT_FAILED);
}

static int watch_begin(struct watch *w, const char *host, const char *folder, struct sw_err *err)
{
    w->host = host;
    w->folder = folder;
    if (pipe2(w->done, O_CLOEXEC) != 0)
        return sw_err_errno(err, errno, "cannot create a pipe");
    return sw_thread_start(&w->thread, "input", watch_input, w, err);
}

static void watch_end(struct watch *w)
{
    if (w->done[1] < 0)
        return;

    (void)sw_os()->close(w->done[1]); /* which the thread sees */
    sw_thread_join(&w->thread);
    (void)sw_os()->close(w->done[0]);
}

/* ---- Where host 0 is ---- */

/* Whether a name leads to an address; one of this machine's own loopback counts if host 0 may be
 * the same machine. */
static bool is_known(const char *name, bool share_machine)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char number[NI_MAXHOST] = "";

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return false;
    const bool known = getnameinfo(list->ai_addr, list->ai_addrlen, number, sizeof number, NULL, 0,
                                   NI_NUMERICHOST) == 0;
    freeaddrinfo(list);

    return known && (share_machine || !sw_launch_is_loopback(number));
}

/* The address from which ssh came, as sshd tells it: "CLIENT PORT SERVER PORT". */
static const char *ssh_client(char *out, size_t bytes)
{
    const char *connection = getenv("SSH_CONNECTION");
    const size_t n = connection ? strcspn(connection, " ") : 0;

    if (n == 0 || n >= bytes)
        return NULL;
    snprintf(out, bytes, "%.*s", (int)n, connection);
    return out;
}

static bool is_number(const char *address)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, address, &ignored) == 1 ||
           inet_pton(AF_INET6, address, &ignored) == 1;
}

/* A number that the user gave; a name if it means the same here; else the other end of ssh. */
static int find_address(const struct sw_join *j, char *out, size_t bytes, struct sw_err *err)
{
    if (j->address && (is_number(j->address) || is_known(j->address, j->share_machine))) {
        snprintf(out, bytes, "%s", j->address);
        return SW_OK;
    }

    if (ssh_client(out, bytes))
        return SW_OK;
    return sw_err_set(err, SW_ERR_NOTFOUND,
                      "host %s knows no address of host %s, and sshd does not tell one "
                      "(SSH_CONNECTION): put a numeric address first in --hosts",
                      j->names[j->own], j->names[0]);
}

/* ---- The job ---- */

static int enter_folder(const struct sw_join *j, struct sw_err *err)
{
    if (chdir(j->folder) == 0)
        return SW_OK;
    return sw_err_errno(err, errno,
                        "host %s: cannot enter %s, the working directory of host %s: use a folder "
                        "that both have",
                        j->names[j->own], j->folder, j->names[0]);
}

static int make_launch(const struct sw_join *j, struct sw_launch **out, struct sw_err *err)
{
    char address[SW_LAUNCH_ADDRESS];

    int rc = find_address(j, address, sizeof address, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_launch_told told = {.names = j->names,
                                        .count = j->count,
                                        .own = (int)j->own,
                                        .address = address,
                                        .port = (uint16_t)j->port,
                                        .key = j->key,
                                        .share_machine = j->share_machine,
                                        .engines = &sw_launch_engines};
    return sw_launch_of(&told, out, err);
}

/* The run that host 0 resumes. Job options have texts that can be changed, and do not do it. */
static struct sw_run run_of(const struct sw_join *j)
{
    return (struct sw_run){.recipe = (char *)(uintptr_t)j->recipe_path,
                           .recipe_text = (char *)(uintptr_t)j->recipe,
                           .overrides = (char *)(uintptr_t)j->overrides,
                           .fallback = (char *)(uintptr_t)j->fallback,
                           .device = (char *)(uintptr_t)j->device};
}

/* Opens the job as host 0 does, and does the task with it. */
static int do_task(const struct sw_join *j, struct sw_launch *l,
                   const struct sw_hosts_copies *copies)
{
    const struct sw_cli_common common = {.quiet = !j->verbose, .verbose = j->verbose};
    const struct sw_job_told recipe = {.path = j->recipe_path,
                                       .text = j->recipe,
                                       .overrides = j->overrides,
                                       .fallback = j->fallback};
    const struct sw_job_hosts hosts = {.list = &l->hosts,
                                       .engine = l->engine,
                                       .conf = l->conf,
                                       .key = l->key,
                                       .share_machine = l->share_machine,
                                       .launch = l,
                                       .copies = copies->copy,
                                       .copy_count = copies->count};
    const struct sw_run run = run_of(j);
    struct sw_job_options job = {.told = &recipe,
                                 .name = j->name,
                                 .init_from = j->init_from,
                                 .resume = j->checkpoint ? &run : NULL,
                                 .steps = j->steps,
                                 .steps_at_most = j->steps_at_most,
                                 .oversubscribe = j->oversubscribe,
                                 .hosts = &hosts};
    const bool checks = j->task == SW_JOIN_CHECK;
    struct sw_trainer t = {0};
    struct sw_err err;

    if (j->checkpoint)
        job.resume_checkpoint = sw_hosts_copies_find(copies, j->checkpoint);
    int rc = sw_trainer_init(&t, &common, &err);
    t.launch = l;
    job.no_probes = checks;
    if (checks)
        job.hosts = NULL;
    else
        sw_trainer_reserve(&t, &job, false);
    if (rc == SW_OK)
        rc = sw_trainer_open(&t, &job, &err);
    if (rc == SW_OK && checks)
        rc = sw_preflight_join(t.job, l, &err);

    int code = rc != SW_OK ? sw_trainer_refuse(&t, rc, &err)
               : checks    ? SW_EXIT_DONE
                           : sw_trainer_run(&t);
    sw_trainer_fini(&t);
    return code;
}

static int take_part(const struct sw_join *j)
{
    struct watch watch = {.done = {-1, -1}};
    struct sw_launch *launch = NULL;
    struct sw_hosts_copies copies = {NULL};
    struct sw_err err;

    int rc = enter_folder(j, &err);
    if (rc == SW_OK)
        rc = sw_hosts_copies_fetch(&copies, j, &err);
    if (rc == SW_OK)
        rc = make_launch(j, &launch, &err);
    if (rc == SW_OK)
        rc = watch_begin(&watch, j->names[0], copies.folder, &err);

    if (rc == SW_OK)
        (void)sw_cli_write(SW_JOIN_READY "\n", sizeof SW_JOIN_READY); /* host 0 may be gone */
    int code = rc == SW_OK ? do_task(j, launch, &copies) : sw_cli_fail(rc, &err);

    watch_end(&watch);
    sw_hosts_copies_fini(&copies);
    sw_launch_free(launch);
    return code;
}

static int run(void *options)
{
    struct sw_join j;
    struct sw_err err;
    char *fields = NULL;

    if (isatty(STDIN_FILENO))
        return sw_cli_usage("join", "it is started by `singa-ws run --hosts`, on other hosts");

    int rc = sw_join_read(STDIN_FILENO, &j, &fields, &err);
    int code = rc == SW_OK ? take_part(&j) : sw_cli_fail(rc, &err);
    sw_free(fields);
    return code;
}

const struct sw_verb sw_verb_join = {
    .name = "join",
    .help = "take part in a training that another host leads",
    .usage = "",
    .about =
        "Takes part in the training of another host. `singa-ws run --hosts` starts it by ssh,\n"
        "and writes the key of the job, the recipe and all options to its standard input.\n"
        "It ends with the training, and at once where its standard input ends.",
    .takes = 0,
    .min_args = 0,
    .max_args = 0,
    .run = run,
    .stops = true,
};
