/* Starts a child process with posix_spawn, reads its standard output line by line with a timeout,
 * and ends it with SIGKILL. Standard input and standard error are /dev/null. One owner per struct
 * sw_child; the contract is in base/child.h. */
#include "base/child.h"

#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { END_MS = 1000, NAP_MS = 5 };

extern char **environ;

int sw_child_attributes(posix_spawnattr_t *attributes, short flags)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);

    int rc = posix_spawnattr_setsigmask(attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attributes, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(
            attributes, (short)(flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));

    return rc;
}

static int set_files(posix_spawn_file_actions_t *files, int out)
{
    int rc = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_addopen(files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);

    return rc;
}

static int spawn(struct sw_child *c, const char *const *words, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;

    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0)
        return rc;

    rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        rc = set_files(&files, out);
        if (rc == 0)
            rc = sw_child_attributes(&attributes, 0);
        if (rc == 0)
            rc = posix_spawn(&c->pid, words[0], &files, &attributes, (char *const *)words, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }

    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

int sw_child_start(struct sw_child *c, const char *const *words, struct sw_err *err)
{
    int ends[2];

    *c = (struct sw_child){.out = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sw_err_errno(err, errno, "cannot create a pipe from %s", words[0]);

    int rc = spawn(c, words, ends[1]);
    (void)sw_os()->close(ends[1]);
    if (rc != 0) {
        (void)sw_os()->close(ends[0]);
        c->pid = 0;
        return sw_err_errno(err, rc, "cannot start %s", words[0]);
    }

    c->out = ends[0];
    return SW_OK;
}

/* Moves a line out of the bytes that were read; a line that is too long is truncated. all: the last
 * line needs no newline. */
static bool take(struct sw_child *c, char line[SW_CHILD_LINE], bool all)
{
    char *end = memchr(c->rest, '\n', c->used);
    size_t n = end ? (size_t)(end - c->rest) : c->used;
    if (!end && !all && c->used < sizeof c->rest)
        return false;

    size_t kept = n < SW_CHILD_LINE - 1 ? n : SW_CHILD_LINE - 1;
    memcpy(line, c->rest, kept);
    line[kept] = '\0';
    n += end ? 1 : 0;
    memmove(c->rest, c->rest + n, c->used - n);
    c->used -= n;

    return true;
}

int sw_child_line(struct sw_child *c, int timeout_ms, char line[SW_CHILD_LINE])
{
    int64_t end_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    while (!take(c, line, false)) {
        int64_t left_ms = (end_ns - sw_os()->monotonic_ns() + 999999) / 1000000;
        struct pollfd p = {.fd = c->out, .events = POLLIN};

        if (left_ms <= 0)
            return SW_ERR_BUSY;

        int ready = poll(&p, 1, (int)left_ms);
        if (ready < 0 && errno != EINTR)
            return SW_ERR_NOTFOUND;
        if (ready <= 0)
            continue;

        ssize_t n = sw_os()->read(c->out, c->rest + c->used, sizeof c->rest - c->used);
        if (n > 0)
            c->used += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return c->used > 0 && take(c, line, true) ? SW_OK : SW_ERR_NOTFOUND;
    }

    return SW_OK;
}

void sw_child_end(struct sw_child *c)
{
    if (c->out >= 0)
        (void)sw_os()->close(c->out);
    c->out = -1;
    if (c->pid <= 0)
        return;

    (void)kill(c->pid, SIGKILL);

    for (int ms = 0; ms < END_MS; ms += NAP_MS) {
        pid_t ended = waitpid(c->pid, NULL, WNOHANG);
        if (ended == c->pid || (ended < 0 && errno != EINTR))
            break;
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
    }

    c->pid = 0;
}
