/* Starts ssh for every other host, feeds it the message, and passes its lines on. The thread polls
 * all of them; the main thread waits on a condition for what the thread notes. The contract is in
 * cli/hosts/remote.h. */
#include "cli/hosts/remote.h"

#include "base/child.h"
#include "base/os.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/cli.h"
#include "thread/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    MOST_WORDS = 64,
    PIECE_BYTES = 8192,
    MOST_LINE_BYTES = 65536,
    SEND_BYTES = 256 << 10,
    START_MS = 60000, /* until a host has accepted the message, or has taken more of a file */
    CLOSE_MS = 5000,  /* from the end of its standard input to a signal */
    TERM_MS = 2000,   /* from SIGTERM to SIGKILL */
    LOOK_MS = 100,
    COMMAND_NOT_FOUND = 127, /* of a shell */
    SSH_FAILED = 255,
};

struct peer {
    int host;
    pid_t pid;   /* 0: none, or it has ended and was waited for */
    int in, out; /* its standard input and output, with errors; -1: closed */
    struct sw_bytes message;
    size_t sent;
    int file;                /* that it has asked for; -1: none */
    int64_t file_left;       /* bytes of it */
    struct sw_bytes line;    /* the beginning of a line */
    bool ready, ended, told; /* told: a message has named its end */
    int code;                /* exit code; 128 and the number of a signal */
};

struct sw_remote {
    struct sw_remote_args args;
    struct peer peer[SW_LAUNCH_MOST_TCP];
    int count;
    struct sw_thread thread;
    int wake;               /* an eventfd: `closing` or `stop` has changed */
    struct sw_mutex lock;   /* guards ready, ended, code, pid, and all below */
    struct sw_cond changed; /* ready and ended */
    bool started;           /* all have accepted the message */
    bool failed;            /* one has failed, and this process was stopped for it */
    bool closing;           /* standard inputs are to be closed */
    bool stop;              /* the thread is to end */
    int64_t moved_ns;       /* when a file went on */
};

static const char *name_of(const struct sw_remote *r, const struct peer *p)
{
    return r->args.launch->hosts.host[p->host].name;
}

/* ---- Starting ---- */

/* A command as words; texts point into `copy`. */
struct command {
    const char *words[MOST_WORDS + 1];
    int count;
    char *copy[2]; /* owned */
};

/* Appends the words of a text; NULL: out of memory or room. */
static char *add_words(struct command *c, const char *text)
{
    char *copy = sw_strdup(text), *rest;

    for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word;
         word = strtok_r(NULL, " ", &rest)) {
        if (c->count == MOST_WORDS) {
            sw_free(copy);
            return NULL;
        }
        c->words[c->count++] = word;
    }

    return copy;
}

static const char *variable(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && text[strspn(text, " ")] ? text : otherwise;
}

static int make_command(struct command *c, const char *target, struct sw_err *err)
{
    c->copy[0] = add_words(c, variable("SINGA_SSH", "ssh -o BatchMode=yes -o ConnectTimeout=10"));
    if (c->count < MOST_WORDS)
        c->words[c->count++] = target;
    c->copy[1] = add_words(c, variable("SINGA_REMOTE", "singa-ws"));

    if (!c->copy[0] || !c->copy[1] || c->count == MOST_WORDS)
        return sw_err_set(err, SW_ERR_NOMEM, "SINGA_SSH and SINGA_REMOTE have more than %d words",
                          MOST_WORDS);
    c->words[c->count++] = "join";
    return SW_OK;
}

static void free_command(struct command *c)
{
    sw_free(c->copy[0]);
    sw_free(c->copy[1]);
}

static int set_files(posix_spawn_file_actions_t *files, int in, int out)
{
    int rc = posix_spawn_file_actions_adddup2(files, in, STDIN_FILENO);

    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(files, out, STDERR_FILENO);
    return rc;
}

static int spawn(pid_t *pid, const char *const *words, int in, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;

    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0)
        return rc;

    rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        rc = set_files(&files, in, out);
        if (rc == 0)
            rc = sw_child_attributes(&attributes, POSIX_SPAWN_SETSID);
        if (rc == 0)
            rc = posix_spawnp(pid, words[0], &files, &attributes, (char *const *)words, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }

    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)sw_os()->close(*fd);
    *fd = -1;
}

/* The process has one end of each pipe, this process the other, which is not inherited: else a
 * standard input would end only with all other processes. */
static int start_process(struct peer *p, const struct command *c, struct sw_err *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, rc = SW_OK;

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 ||
        fcntl(in[1], F_SETFL, O_NONBLOCK) != 0) {
        rc = sw_err_errno(err, errno, "cannot create a pipe to %s", c->words[0]);
    } else {
        int problem = spawn(&p->pid, c->words, in[0], out[1]);
        if (problem != 0)
            rc = sw_err_errno(err, problem, "cannot start %s", c->words[0]);
    }

    close_end(&in[0]);
    close_end(&out[1]);
    p->in = in[1];
    p->out = out[0];
    if (rc != SW_OK)
        p->pid = 0;
    return rc;
}

static int start_peer(struct sw_remote *r, struct peer *p, struct sw_err *err)
{
    struct sw_join message = *r->args.message;
    struct command c = {.count = 0};

    message.own = p->host;
    sw_join_write(&message, &p->message);
    if (p->message.failed)
        return sw_err_nomem(err, "message for the hosts", 0);

    int rc = make_command(&c, r->args.launch->targets[p->host], err);
    if (rc == SW_OK)
        rc = start_process(p, &c, err);
    free_command(&c);
    return rc;
}

/* ---- Files ---- */

/* The host asks for a file of the message, by its number. */
static bool open_file(struct sw_remote *r, struct peer *p, const char *number)
{
    const struct sw_join *message = r->args.message;
    const struct sw_host_file *f;
    struct sw_err err;
    uint64_t bytes;
    int64_t n;

    if (p->file >= 0 || !sw_parse_int(number, &n) || n < 0 || n >= message->file_count)
        return false;

    f = &message->files[n];
    p->file_left = f->bytes;
    if (sw_os_open_regular(f->path, &p->file, &bytes, &err) != SW_OK) {
        sw_cli_message("%s", err.text);
        close_end(&p->in);
    }
    return true;
}

static void send_file(struct sw_remote *r, struct peer *p)
{
    const size_t most = p->file_left < SEND_BYTES ? (size_t)p->file_left : SEND_BYTES;
    ssize_t n = sendfile(p->in, p->file, NULL, most);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0 || (n == 0 && p->file_left > 0)) { /* it has ended, or the file is shorter now */
        close_end(&p->in);
        n = p->file_left;
    }

    p->file_left -= n;
    if (p->file_left <= 0)
        close_end(&p->file);

    sw_mutex_lock(&r->lock);
    r->moved_ns = sw_os()->monotonic_ns();
    sw_mutex_unlock(&r->lock);
}

/* ---- Lines ---- */

static void print_line(const struct sw_remote *r, const struct peer *p, const char *line)
{
    struct sw_bytes out = {0};

    sw_bytes_add(&out, r->args.live ? "\r\033[K" : "");
    sw_text_add(&out, name_of(r, p));
    sw_bytes_add(&out, ": ");
    sw_text_add(&out, line);
    sw_bytes_add(&out, "\n");
    sw_cli_lines_raw(sw_bytes_text(&out)); /* in one call, since other threads write too */
    sw_bytes_fini(&out);
}

static void take_line(struct sw_remote *r, struct peer *p)
{
    if (p->line.length > 0 && p->line.text[p->line.length - 1] == '\r')
        p->line.text[--p->line.length] = '\0'; /* ssh ends its lines as a terminal needs them */

    const char *line = sw_bytes_text(&p->line);

    if (!p->ready && sw_str_eq(line, SW_JOIN_READY)) {
        sw_mutex_lock(&r->lock);
        p->ready = true;
        sw_cond_broadcast(&r->changed);
        sw_mutex_unlock(&r->lock);
    } else if (!p->ready && sw_str_starts(line, SW_JOIN_SEND) &&
               open_file(r, p, line + sizeof SW_JOIN_SEND - 1)) {
        /* it is sent as the host reads it */
    } else if (!p->ready || !r->args.line || !r->args.line(r->args.user, p->host, line)) {
        print_line(r, p, line);
    }

    sw_bytes_clear(&p->line);
}

static void take_bytes(struct sw_remote *r, struct peer *p, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const char *newline = memchr(text, '\n', bytes);
        size_t n = newline ? (size_t)(newline - text) : bytes;

        sw_bytes_append(&p->line, text, n);
        if (newline || p->line.length > MOST_LINE_BYTES)
            take_line(r, p);
        n += newline ? 1 : 0;
        text += n;
        bytes -= n;
    }
}

static void read_lines(struct sw_remote *r, struct peer *p)
{
    char piece[PIECE_BYTES];

    ssize_t n = sw_os()->read(p->out, piece, sizeof piece);
    if (n > 0) {
        take_bytes(r, p, piece, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        if (p->line.length > 0)
            take_line(r, p);
        close_end(&p->out);
    }
}

/* ---- The message ---- */

static bool has_message(const struct peer *p)
{
    return p->sent < p->message.length;
}

static void send_message(struct peer *p)
{
    ssize_t n = sw_os()->write(p->in, p->message.text + p->sent, p->message.length - p->sent);

    if (n > 0)
        p->sent += (size_t)n;
    else if (n < 0 && errno != EINTR && errno != EAGAIN)
        close_end(&p->in); /* it has ended; its exit code tells more */

    if (p->in < 0 || !has_message(p)) {
        explicit_bzero(p->message.text, p->message.length); /* it has the key */
        p->sent = p->message.length;
    }
}

static void send_more(struct sw_remote *r, struct peer *p)
{
    if (has_message(p))
        send_message(p);
    else
        send_file(r, p);
}

/* ---- The thread ---- */

/* A host has failed while this process opens the job or waits for the connection. Under the lock.
 */
static void stop_for(struct sw_remote *r, struct peer *p)
{
    if (!r->started || r->closing || p->code == SW_EXIT_DONE ||
        __atomic_load_n(r->args.began, __ATOMIC_RELAXED))
        return;

    sw_cli_message("host %s has failed (exit code %d): stopping", name_of(r, p), p->code);
    p->told = r->failed = true;
    sw_stop_request(0);
}

/* Notes the end of a process whose output has ended. */
static void reap(struct sw_remote *r, struct peer *p)
{
    int status;

    if (p->pid == 0 || p->out >= 0 || waitpid(p->pid, &status, WNOHANG) != p->pid)
        return;

    sw_mutex_lock(&r->lock);
    p->code = WIFEXITED(status) ? WEXITSTATUS(status) : SW_EXIT_SIGNAL + WTERMSIG(status);
    p->pid = 0;
    p->ended = true;
    stop_for(r, p);
    sw_cond_broadcast(&r->changed);
    sw_mutex_unlock(&r->lock);
    close_end(&p->in);
}

/* Waits for something to do: room for messages, lines, or a wish of the main thread. */
static void wait_for_work(struct sw_remote *r, struct pollfd fds[])
{
    bool ends = false;

    for (int i = 0; i < r->count; i++) {
        const struct peer *p = &r->peer[i];
        const bool sends = has_message(p) || p->file >= 0;

        fds[2 * i] = (struct pollfd){.fd = sends ? p->in : -1, .events = POLLOUT};
        fds[2 * i + 1] = (struct pollfd){.fd = p->out, .events = POLLIN};
        ends = ends || (p->out < 0 && p->pid != 0);
    }

    fds[2 * r->count] = (struct pollfd){.fd = r->wake, .events = POLLIN};
    (void)poll(fds, 2 * (nfds_t)r->count + 1, ends ? LOOK_MS : -1);
}

/* Does what the main thread asks for; true: the thread is to end. */
static bool take_orders(struct sw_remote *r)
{
    uint64_t ignored;

    ssize_t n = sw_os()->read(r->wake, &ignored, sizeof ignored);
    (void)n; /* it is only a signal */

    sw_mutex_lock(&r->lock);
    const bool closing = r->closing, stop = r->stop;
    sw_mutex_unlock(&r->lock);

    for (int i = 0; i < r->count && closing; i++)
        close_end(&r->peer[i].in);
    return stop;
}

static void relay(void *remote)
{
    struct sw_remote *r = remote;
    struct pollfd fds[2 * SW_LAUNCH_MOST_TCP + 1];
    bool stop = false;

    while (!stop) {
        wait_for_work(r, fds);

        for (int i = 0; i < r->count; i++) {
            struct peer *p = &r->peer[i];

            if (fds[2 * i].fd >= 0 && fds[2 * i].revents)
                send_more(r, p);
            if (fds[2 * i + 1].fd >= 0 && fds[2 * i + 1].revents)
                read_lines(r, p);
            reap(r, p);
        }

        if (fds[2 * r->count].revents)
            stop = take_orders(r);
    }
}

/* ---- The main thread ---- */

static void order(struct sw_remote *r, bool *flag)
{
    const uint64_t one = 1;

    sw_mutex_lock(&r->lock);
    *flag = true;
    sw_mutex_unlock(&r->lock);
    ssize_t n = sw_os()->write(r->wake, &one, sizeof one);
    (void)n; /* the counter cannot be full */
}

static bool all_ended(const struct sw_remote *r)
{
    for (int i = 0; i < r->count; i++)
        if (!r->peer[i].ended)
            return false;
    return true;
}

/* Have all accepted the message, or has one ended, so that the job cannot begin? */
static bool has_answers(const struct sw_remote *r)
{
    int ready = 0;

    for (int i = 0; i < r->count; i++) {
        if (r->peer[i].ended)
            return true;
        ready += r->peer[i].ready;
    }

    return ready == r->count;
}

/* Waits until it holds; false after timeout_ms, or when the user stops the program and `stops`. */
static bool wait_for(struct sw_remote *r, bool (*holds)(const struct sw_remote *r), int timeout_ms,
                     bool stops)
{
    const int64_t end_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_mutex_lock(&r->lock);
    while (!holds(r) && sw_os()->monotonic_ns() < end_ns &&
           !(stops && sw_stop_check(NULL) != SW_OK))
        (void)sw_cond_wait_ms(&r->changed, &r->lock, LOOK_MS);
    const bool done = holds(r);
    sw_mutex_unlock(&r->lock);

    return done;
}

/* To the processes of these hosts. */
static void send_signal(struct sw_remote *r, uint64_t hosts, int number)
{
    sw_mutex_lock(&r->lock);
    for (int i = 0; i < r->count; i++)
        if (r->peer[i].pid > 0 && (hosts >> r->peer[i].host & 1))
            (void)kill(-r->peer[i].pid, number);
    sw_mutex_unlock(&r->lock);
}

/* Why a host did not accept the message; the lines that it printed come before. */
static int explain(const struct sw_remote *r, const struct peer *p, struct sw_err *err)
{
    const char *name = name_of(r, p);

    if (!p->ended)
        return sw_err_set(err, SW_ERR_NOTFOUND, "host %s did not answer within %d s", name,
                          START_MS / 1000);
    if (p->code == COMMAND_NOT_FOUND)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "host %s has no %s: install it there, or set SINGA_REMOTE to the command "
                          "that runs it",
                          name, variable("SINGA_REMOTE", "singa-ws"));
    if (p->code == SSH_FAILED)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "host %s cannot be reached: `ssh %s true` must work without a password",
                          name, r->args.launch->targets[p->host]);
    return sw_err_set(err, SW_ERR_NOTFOUND, "host %s cannot take part: exit code %d", name,
                      p->code);
}

/* Did a file move since the last call? */
static bool has_moved(struct sw_remote *r, int64_t *seen_ns)
{
    sw_mutex_lock(&r->lock);
    const bool moved = r->moved_ns > *seen_ns;
    *seen_ns = r->moved_ns;
    sw_mutex_unlock(&r->lock);

    return moved;
}

static int wait_until_ready(struct sw_remote *r, struct sw_err *err)
{
    int64_t seen_ns = 0;
    bool answered;

    do
        answered = wait_for(r, has_answers, START_MS, true);
    while (!answered && sw_stop_check(NULL) == SW_OK && has_moved(r, &seen_ns));

    int rc = sw_stop_check(err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&r->lock);
    for (int i = 0; i < r->count && rc == SW_OK; i++)
        if (r->peer[i].ended || (!answered && !r->peer[i].ready))
            rc = explain(r, &r->peer[i], err);
    r->started = rc == SW_OK;
    sw_mutex_unlock(&r->lock);
    return rc;
}

static struct sw_remote *new_remote(const struct sw_remote_args *args)
{
    struct sw_remote *r = sw_calloc(1, sizeof *r);
    if (!r)
        return NULL;

    r->args = *args;
    r->count = args->launch->hosts.count - 1;
    for (int i = 0; i < r->count; i++)
        r->peer[i] = (struct peer){.host = i + 1, .in = -1, .out = -1, .file = -1};
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sw_mutex_init(&r->lock);
    sw_cond_init(&r->changed);
    return r;
}

static void free_remote(struct sw_remote *r)
{
    for (int i = 0; i < r->count; i++) {
        close_end(&r->peer[i].in);
        close_end(&r->peer[i].out);
        close_end(&r->peer[i].file);
        if (r->peer[i].message.text)
            explicit_bzero(r->peer[i].message.text, r->peer[i].message.length);
        sw_bytes_fini(&r->peer[i].message);
        sw_bytes_fini(&r->peer[i].line);
    }

    close_end(&r->wake);
    sw_cond_fini(&r->changed);
    sw_mutex_fini(&r->lock);
    sw_free(r);
}

/* Ends all processes that still run. */
static void end_all(struct sw_remote *r)
{
    order(r, &r->closing);
    if (!wait_for(r, all_ended, CLOSE_MS, false)) {
        send_signal(r, UINT64_MAX, SIGTERM);
        if (!wait_for(r, all_ended, TERM_MS, false))
            send_signal(r, UINT64_MAX, SIGKILL);
    }

    (void)wait_for(r, all_ended, TERM_MS, false);
    order(r, &r->stop);
    sw_thread_join(&r->thread);
}

int sw_remote_start(const struct sw_remote_args *args, struct sw_remote **out, struct sw_err *err)
{
    struct sw_remote *r = new_remote(args);
    if (!r)
        return sw_err_nomem(err, "processes of the hosts", sizeof *r);

    int rc = r->wake < 0 ? sw_err_errno(err, errno, "cannot create an eventfd") : SW_OK;
    for (int i = 0; i < r->count && rc == SW_OK; i++)
        rc = start_peer(r, &r->peer[i], err);
    if (rc == SW_OK)
        rc = sw_thread_start(&r->thread, "hosts", relay, r, err);
    if (rc != SW_OK) {
        free_remote(r); /* those that were started end with their standard input */
        return rc;
    }

    rc = wait_until_ready(r, err);
    if (rc == SW_OK) {
        *out = r;
        return SW_OK;
    }

    end_all(r);
    free_remote(r);
    return rc;
}

/* Tells of hosts that did not end as expected. */
static void report_ends(struct sw_remote *r, int expected)
{
    sw_mutex_lock(&r->lock);
    for (int i = 0; i < r->count; i++) {
        const struct peer *p = &r->peer[i];

        if (p->told)
            continue;
        if (!p->ended)
            sw_cli_message("host %s has not ended by itself", name_of(r, p));
        else if (p->code != expected)
            sw_cli_message("host %s ended with exit code %d", name_of(r, p), p->code);
    }
    sw_mutex_unlock(&r->lock);
}

bool sw_remote_end(struct sw_remote *r, int expected, uint64_t lost, int timeout_ms)
{
    if (!r)
        return false;

    send_signal(r, lost, SIGKILL);
    (void)wait_for(r, all_ended, timeout_ms, false);
    report_ends(r, expected);
    end_all(r);
    const bool failed = r->failed;
    free_remote(r);
    return failed;
}
