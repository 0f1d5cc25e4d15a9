/* A forked process that restores the terminal when the dashboard is killed. It waits for the end of
 * a pipe: a second byte before the end means that the dashboard has restored the terminal itself.
 * The contract is in ui/guard.h. */
#include "ui/guard.h"

#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct sw_guard {
    int pipe_fd;
    pid_t pid;
};

static bool same_modes(const struct termios *a, const struct termios *b)
{
    return a->c_lflag == b->c_lflag && a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag;
}

/* Restores the modes, unless the shell has already set modes of its own. */
static void restore(int fd, const struct termios *before, const struct termios *during,
                    const char *bytes)
{
    struct termios now;
    ssize_t written = write(fd, bytes, strlen(bytes));

    (void)written; /* nobody is left to report to */
    if (tcgetattr(fd, &now) == 0 && same_modes(&now, during))
        tcsetattr(fd, TCSANOW, before);
}

/* The main function of the guard. It is in no foreground process group, so writing must not stop
 * it, and it ignores the signals that end the dashboard. */
static void watch(int pipe_fd, int fd, const struct termios *before, const char *bytes)
{
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                  SIGTTOU, SIGTTIN, SIGTSTP, SIGPIPE};

    enum { PIPE = 3 };

    struct termios during;
    char word = 0;
    ssize_t got;

    /* The terminal is descriptor 0; all other files of the dashboard are closed. */
    dup2(pipe_fd, PIPE);
    close_range(PIPE + 1, ~0u, 0);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    setpgid(0, 0);

    /* The first byte: the modes of the terminal were changed. The second: a normal end. */
    while ((got = read(PIPE, &word, 1)) < 0 && errno == EINTR)
        ;

    bool changed = got == 1 && tcgetattr(fd, &during) == 0;
    while ((got = read(PIPE, &word, 1)) < 0 && errno == EINTR)
        ;
    if (changed && got == 0)
        restore(fd, before, &during, bytes);
    _exit(0);
}

int sw_guard_start(struct sw_guard **out, int fd, const struct termios *before, const char *bytes,
                   struct sw_err *err)
{
    int ends[2];
    struct sw_guard *g = sw_calloc(1, sizeof *g);
    if (!g)
        return sw_err_nomem(err, "terminal guard", sizeof *g);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        sw_free(g);
        return sw_err_errno(err, errno, "cannot create a pipe for the terminal guard");
    }

    g->pid = fork();
    if (g->pid == 0) {
        close(ends[1]);
        watch(ends[0], fd, before, bytes);
    }

    int reason = errno;
    close(ends[0]);
    g->pipe_fd = ends[1];
    if (g->pid > 0 && write(ends[1], "b", 1) == 1) {
        *out = g;
        return SW_OK;
    }

    reason = g->pid < 0 ? reason : errno;
    close(ends[1]);
    sw_free(g);

    return sw_err_errno(err, reason, "cannot start the terminal guard process");
}

void sw_guard_end(struct sw_guard *g)
{
    if (!g)
        return;

    ssize_t written = write(g->pipe_fd, "q", 1);
    (void)written; /* the guard may have ended */
    close(g->pipe_fd);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    sw_free(g);
}
