/* Trains in a forked child process while this process shows the dashboard or returns to the shell.
 * The child sends one message through a pipe when its run begins; until then its output goes to a
 * memory file. Read begin() at the end first, then the code of the child, then that of the parent.
 * The contract is in cli/training/live_view.h. */
#include "cli/training/live_view.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/text.h"
#include "ui/dash.h"
#include "ui/feed.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The message of the trainer when its run begins, or while it waits for cores and GPUs; one write
 * to a pipe. */
enum { WAITS = -1 }; /* as run_id: out_dir has what it waits for */
struct begun {
    int64_t run_id;
    char db_path[1024], out_dir[1024];
};

struct sw_live_view {
    int begun_fd;        /* in the child: the pipe for the message; -1: sent */
    int early_output_fd; /* memory for what is printed before the run has a folder */
};

/* ---- The child: the trainer
 * -----------------------------------------------------------------------
 */

/* Redirects output from memory to the folder of the run, and copies what was printed so far. */
static void move_output(const struct sw_live_view *s, const char *out_dir)
{
    char piece[4096];
    ssize_t n;
    off_t at = 0;
    char *path = sw_format("%s/" SW_UI_OUTPUT, out_dir);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600) : -1;

    sw_free(path);
    if (fd < 0)
        return; /* the output stays in memory and is printed if the run fails */

    fflush(stdout);

    while ((n = pread(s->early_output_fd, piece, sizeof piece, at)) > 0 &&
           write(fd, piece, (size_t)n) == n)
        at += n;

    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static void send_begun(void *live_view, const struct sw_job_event *e)
{
    struct sw_live_view *s = live_view;
    struct begun b = {.run_id = e->run_id};

    if (s->begun_fd < 0)
        return;

    snprintf(b.db_path, sizeof b.db_path, "%s", e->db_path ? e->db_path : "");
    snprintf(b.out_dir, sizeof b.out_dir, "%s", e->out_dir ? e->out_dir : "");
    if (e->out_dir)
        move_output(s, e->out_dir);

    ssize_t written = write(s->begun_fd, &b, sizeof b);
    (void)written; /* the parent may have ended */
    close(s->begun_fd);
    s->begun_fd = -1;
}

static void send_wait(void *live_view, const char *text)
{
    struct sw_live_view *s = live_view;
    struct begun b = {.run_id = WAITS};

    sw_utf8_copy(b.out_dir, sizeof b.out_dir, text);

    ssize_t written = write(s->begun_fd, &b, sizeof b);
    (void)written; /* the parent may have ended */
}

void sw_live_view_report(struct sw_live_view *live_view, struct sw_report *r)
{
    if (!live_view)
        return;

    r->style = SW_REPORT_QUIET;
    r->on_begin = send_begun;
    r->on_wait = send_wait;
    r->begin_user = live_view;
}

static void run_trainer(struct sw_live_view *s, sw_live_view_train *train, void *user)
{
    int null = open("/dev/null", O_RDONLY);

    setsid(); /* detaches from the signals of the terminal */
    dup2(null, STDIN_FILENO);
    dup2(s->early_output_fd, STDOUT_FILENO);
    dup2(s->early_output_fd, STDERR_FILENO);
    setvbuf(stdout, NULL, _IOLBF, 0);
    exit(train(user, s));
}

/* ---- The parent ---------------------------------------------------------------------------
 */

static volatile sig_atomic_t trainer_pid;

static void forward_signal(int number)
{
    if (trainer_pid > 0)
        kill((pid_t)trainer_pid, SIGTERM);
}

static void forward_signals(void)
{
    struct sigaction action = {.sa_handler = forward_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* Prints the output from before the run had a folder, or the last lines since. */
static void show_output(const struct sw_live_view *s, const struct begun *b)
{
    enum { LINES_BYTES = 2000 };

    char text[LINES_BYTES + 1], *from = text;
    char *path = b->out_dir[0] ? sw_format("%s/" SW_UI_OUTPUT, b->out_dir) : NULL;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : dup(s->early_output_fd);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t at = end > LINES_BYTES ? end - LINES_BYTES : 0;
    ssize_t n = fd >= 0 ? pread(fd, text, LINES_BYTES, at) : 0;
    text[n > 0 ? n : 0] = 0;
    if (at > 0 && strchr(text, '\n'))
        from = strchr(text, '\n') + 1;
    sw_cli_lines(from);
    if (fd >= 0)
        close(fd);
    sw_free(path);
}

static void print_done(const struct begun *b)
{
    struct sw_bytes text = {0};

    sw_bytes_printf(&text, "run %lld is done; see `singa-ws history show %lld`\n",
                    (long long)b->run_id, (long long)b->run_id);
    sw_cli_print(&text);
    sw_bytes_fini(&text);
}

/* Waits for the end of the trainer; returns its exit code. */
static int wait_for_trainer(const struct sw_live_view *s, pid_t pid, const struct begun *b)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return SW_EXIT_FAILED;

    trainer_pid = 0;
    if (WIFSIGNALED(status)) {
        show_output(s, b);
        sw_cli_message(
            "the training was killed by signal %d (%s); `singa-ws resume %lld` continues from "
            "its last checkpoint",
            WTERMSIG(status), strsignal(WTERMSIG(status)), (long long)b->run_id);
        return SW_EXIT_FAILED;
    }

    if (WEXITSTATUS(status) != SW_EXIT_DONE)
        show_output(s, b);

    if (WEXITSTATUS(status) == SW_EXIT_STOPPED)
        sw_cli_message("stopped, with a checkpoint; `singa-ws resume %lld` continues the run",
                       (long long)b->run_id);
    else if (WEXITSTATUS(status) == SW_EXIT_DONE)
        print_done(b);

    return WEXITSTATUS(status);
}

static void print_running(pid_t pid, const struct begun *b)
{
    struct sw_bytes text = {0};

    sw_bytes_printf(&text,
                    "run %lld continues as process %ld: `singa-ws top %lld` shows it, `singa-ws "
                    "stop %lld` stops "
                    "it with a checkpoint;\nits output is in %s/" SW_UI_OUTPUT "\n",
                    (long long)b->run_id, (long)pid, (long long)b->run_id, (long long)b->run_id,
                    b->out_dir);
    sw_cli_print(&text);
    sw_bytes_fini(&text);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

static int show_dashboard(const struct sw_live_view *s, pid_t pid, const struct begun *b)
{
    char run[24];
    struct sw_err err;
    struct sw_dash_args args = {.db_path = b->db_path, .run = run, .of_run = true};
    int ended_by = 0;

    snprintf(run, sizeof run, "%lld", (long long)b->run_id);

    int rc = sw_dash_run(&args, &ended_by, &err);
    if (rc != SW_OK)
        sw_cli_message("cannot show the dashboard: %s; the training continues", err.text);
    if (ended_by == SIGTERM || ended_by == SIGINT || ended_by == SIGQUIT)
        kill(pid, SIGTERM);
    if (rc != SW_OK || has_ended(pid) || (ended_by && ended_by != SIGHUP))
        return wait_for_trainer(s, pid, b);

    print_running(pid, b);
    return SW_EXIT_DONE;
}

/* Reads a message of the trainer; returns false if it ended before. */
static bool read_begun(int fd, struct begun *b)
{
    ssize_t n;

    while ((n = read(fd, b, sizeof *b)) < 0 && errno == EINTR)
        ;
    if (n == (ssize_t)sizeof *b)
        return true;

    *b = (struct begun){0};
    return false;
}

/* Waits until the run begins, or with `stay` false at most until it waits in the queue; returns
 * false if the trainer ended before. */
static bool wait_for_begin(int fd, bool stay, pid_t pid, struct begun *b)
{
    bool read;

    while ((read = read_begun(fd, b)) && b->run_id == WAITS) {
        sw_cli_message("process %ld is waiting for %s%s", (long)pid, b->out_dir,
                       stay ? "" : "; `singa-ws ps` shows it, `singa-ws stop NAME` ends it");
        if (!stay)
            break;
    }

    return read;
}

static int follow(const struct sw_live_view *s, bool dashboard, bool quiet, pid_t pid, int fd,
                  int asked)
{
    struct begun b;

    trainer_pid = pid;
    forward_signals();
    if (sw_stop_requests() > asked) /* it arrived before the trainer existed */
        kill(pid, SIGTERM);
    if (!wait_for_begin(fd, dashboard, pid, &b))
        return wait_for_trainer(s, pid, &b);
    if (b.run_id == WAITS)
        return SW_EXIT_DONE;
    if (dashboard)
        return show_dashboard(s, pid, &b);

    if (!quiet)
        print_running(pid, &b);
    return SW_EXIT_DONE;
}

static int begin(bool dashboard, bool quiet, sw_live_view_train *train, void *user)
{
    int ends[2] = {-1, -1}, code = SW_EXIT_FAILED;
    const int asked = sw_stop_requests(); /* the trainer inherits these requests */
    pid_t pid = -1;
    struct sw_live_view s = {.begun_fd = -1,
                             .early_output_fd = memfd_create("output", MFD_CLOEXEC)};

    fflush(stdout);

    if (s.early_output_fd >= 0 && fcntl(s.early_output_fd, F_SETFL, O_APPEND) == 0 &&
        pipe2(ends, O_CLOEXEC) == 0)
        pid = fork();

    if (pid == 0) {
        close(ends[0]);
        s.begun_fd = ends[1];
        run_trainer(&s, train, user);
    }

    int reason = errno;
    if (ends[1] >= 0)
        close(ends[1]);

    if (pid > 0)
        code = follow(&s, dashboard, quiet, pid, ends[0], asked);
    else
        sw_cli_message("cannot start a process for the training: %s", strerror(reason));

    if (ends[0] >= 0)
        close(ends[0]);
    if (s.early_output_fd >= 0)
        close(s.early_output_fd);

    return code;
}

int sw_live_view(const char *verb, const struct sw_cli_common *common,
                 const struct sw_live_view_options *o, sw_live_view_train *train, void *user)
{
    bool terminal = sw_cli_stdout_smart() && isatty(STDIN_FILENO);

    if (o->ui && (o->no_ui || o->detach || common->json || common->quiet))
        return sw_cli_usage(verb,
                            "--ui cannot be combined with --no-ui, --detach, --json or --quiet");
    if (o->detach && common->json)
        return sw_cli_usage(verb, "--detach cannot be combined with --json: it prints nothing");
    if (o->detach || (o->ui && terminal))
        return begin(o->ui, common->quiet, train, user);

    if (o->ui)
        sw_cli_message("--ui: no terminal; printing lines instead");
    return train(user, NULL);
}
