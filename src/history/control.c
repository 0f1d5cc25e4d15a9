/* The control socket, server and client. The watchdog thread polls: it accepts one client at a
 * time, reads its line, answers and closes the connection; it never waits for a client.
 * sw_control_ask is the client. The protocol is in control.h. */
#include "history/control.h"

#include "base/os.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS = 8, CLIENT_TIMEOUT_MS = 2000, REQUEST_TIMEOUT_MS = 5000 };

struct client {
    int fd; /* -1: free */
    size_t length;
    int64_t until_ns;
    char line[SW_CONTROL_LINE];
};

struct sw_control {
    int wake_fd, listen_fd;
    char *path; /* owned; NULL: no socket */
    struct client clients[CLIENTS];
};

char *sw_control_path(const char *snapshot_path)
{
    size_t n = strlen(snapshot_path);
    bool live = sw_str_ends(snapshot_path, ".live");
    return sw_format("%.*s.sock", (int)(live ? n - 5 : n), snapshot_path);
}

int sw_control_new(struct sw_control **out, struct sw_err *err)
{
    struct sw_control *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "control socket", sizeof *c);

    c->listen_fd = -1;
    for (int i = 0; i < CLIENTS; i++)
        c->clients[i].fd = -1;
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0) {
        sw_free(c);
        return sw_err_errno(err, errno, "cannot create an eventfd");
    }

    *out = c;
    return SW_OK;
}

/* Makes the address of a socket. A path may be longer than sun_path, so the address goes through
 * /proc/self/fd; the caller closes *folder after use. */
static int address_of(const char *path, struct sockaddr_un *to, int *folder, struct sw_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? sw_format("%.*s/", (int)(slash - path), path) : sw_strdup(".");
    if (!dir)
        return sw_err_nomem(err, "control socket", strlen(path));

    *folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    int reason = errno;
    sw_free(dir);
    if (*folder < 0)
        return sw_err_errno(err, reason, "control socket %s", path);

    *to = (struct sockaddr_un){.sun_family = AF_UNIX};

    int n = snprintf(to->sun_path, sizeof to->sun_path, "/proc/self/fd/%d/%s", *folder,
                     slash ? slash + 1 : path);
    if (n > 0 && (size_t)n < sizeof to->sun_path)
        return SW_OK;

    close(*folder);
    return sw_err_set(err, SW_ERR_INVALID, "control socket %s: the name is too long", path);
}

/* Sets the mode before the socket has a name, so that no other user can connect at any time. */
static int bind_private(int fd, const struct sockaddr_un *at)
{
    if (fchmod(fd, 0600) != 0)
        return errno;
    if (bind(fd, (const struct sockaddr *)at, sizeof *at) != 0 || listen(fd, CLIENTS) != 0)
        return errno;

    return 0;
}

int sw_control_listen(struct sw_control *c, const char *path, struct sw_err *err)
{
    struct sockaddr_un at;
    int folder;

    int rc = address_of(path, &at, &folder, err);
    if (rc != SW_OK)
        return rc;

    sw_os()->unlink(path); /* left by a run that crashed */

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int reason = fd < 0 ? errno : bind_private(fd, &at);
    close(folder);
    c->path = reason ? NULL : sw_strdup(path);
    if (c->path) {
        c->listen_fd = fd;
        return SW_OK;
    }

    if (fd >= 0)
        close(fd);
    sw_os()->unlink(path);

    return reason ? sw_err_errno(err, reason, "control socket %s", path)
                  : sw_err_nomem(err, "control socket", strlen(path));
}

static void drop(struct client *client)
{
    close(client->fd);
    client->fd = -1;
}

void sw_control_free(struct sw_control *c)
{
    if (!c)
        return;

    if (c->path)
        sw_os()->unlink(c->path);

    for (int i = 0; i < CLIENTS; i++)
        if (c->clients[i].fd >= 0)
            drop(&c->clients[i]);

    if (c->listen_fd >= 0)
        close(c->listen_fd);
    close(c->wake_fd);
    sw_free(c->path);
    sw_free(c);
}

void sw_control_wake(struct sw_control *c)
{
    uint64_t one = 1;
    ssize_t n = write(c->wake_fd, &one, sizeof one);
    (void)n; /* it fails only if the eventfd is already readable */
}

/* ---- clients ---- */

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* Returns a free slot. If there is none, drops the client that connected first. */
static struct client *free_slot(struct sw_control *c)
{
    struct client *oldest = &c->clients[0];

    for (int i = 0; i < CLIENTS; i++) {
        if (c->clients[i].fd < 0)
            return &c->clients[i];
        if (c->clients[i].until_ns < oldest->until_ns)
            oldest = &c->clients[i];
    }

    drop(oldest);
    return oldest;
}

/* Accepts one client per poll, after all others have been read: a client that sends its line at
 * once is served even if many silent ones follow. */
static void accept_client(struct sw_control *c)
{
    int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (!is_same_user(fd)) {
        close(fd);
        return;
    }

    *free_slot(c) = (struct client){
        .fd = fd, .until_ns = sw_os()->monotonic_ns() + (int64_t)CLIENT_TIMEOUT_MS * 1000000};
}

/* Whether a line is UTF-8 without control characters, as the history and terminals require. */
static bool is_text(const char *line)
{
    for (const char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return false;
    return sw_utf8_is_valid(line);
}

/* Sends a short line without waiting: if it does not fit into the socket buffer, the client does
 * not read. */
static void send_line(int fd, const char *text)
{
    char line[SW_CONTROL_LINE + 1];
    size_t n = strnlen(text, SW_CONTROL_LINE - 1);

    memcpy(line, text, n);
    line[n] = '\n';

    ssize_t sent = send(fd, line, n + 1, MSG_NOSIGNAL);
    (void)sent;
}

/* Handles a complete line of `length` bytes and closes the connection. */
static void serve(struct client *client, size_t length, sw_control_handle *handle, void *user)
{
    char answer[SW_CONTROL_LINE] = "error: a line must be UTF-8 text without control characters";

    client->line[length] = '\0';
    if (length > 0 && client->line[length - 1] == '\r')
        client->line[length - 1] = '\0';
    if (strlen(client->line) + 1 >= length && is_text(client->line))
        handle(user, client->line, answer, sizeof answer);
    send_line(client->fd, answer);
    drop(client);
}

static void receive(struct client *client, sw_control_handle *handle, void *user)
{
    ssize_t n =
        recv(client->fd, client->line + client->length, sizeof client->line - client->length, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            drop(client);
        return;
    }

    const char *end = memchr(client->line + client->length, '\n', (size_t)n);
    client->length += (size_t)n;

    if (end) {
        serve(client, (size_t)(end - client->line), handle, user);
    } else if (client->length == sizeof client->line) {
        send_line(client->fd, "error: a line must have at most 511 bytes");
        drop(client);
    } else if (n == 0 && client->length > 0) {
        serve(client, client->length, handle, user);
    } else if (n == 0) {
        drop(client);
    }
}

void sw_control_poll(struct sw_control *c, int timeout_ms, sw_control_handle *handle, void *user)
{
    struct pollfd fds[CLIENTS + 2] = {{.fd = c->wake_fd, .events = POLLIN},
                                      {.fd = c->listen_fd, .events = POLLIN}};
    uint64_t wakes;

    for (int i = 0; i < CLIENTS; i++)
        fds[i + 2] = (struct pollfd){.fd = c->clients[i].fd, .events = POLLIN};

    if (poll(fds, CLIENTS + 2, timeout_ms) > 0) {
        for (int i = 0; i < CLIENTS; i++)
            if (fds[i + 2].revents)
                receive(&c->clients[i], handle, user);

        if (fds[1].revents)
            accept_client(c);

        if (fds[0].revents) {
            ssize_t n = read(c->wake_fd, &wakes, sizeof wakes);
            (void)n;
        }
    }

    int64_t now_ns = sw_os()->monotonic_ns();
    for (int i = 0; i < CLIENTS; i++)
        if (c->clients[i].fd >= 0 && now_ns > c->clients[i].until_ns)
            drop(&c->clients[i]);
}

/* ---- the client ---- */

static int send_and_receive(int fd, const char *line, char *answer, size_t bytes)
{
    size_t got = 0;

    if (send(fd, line, strlen(line), MSG_NOSIGNAL) < 0 || send(fd, "\n", 1, MSG_NOSIGNAL) < 0)
        return errno;

    while (got + 1 < bytes) {
        ssize_t n = recv(fd, answer + got, bytes - 1 - got, 0);
        if (n < 0)
            return errno;
        if (n == 0)
            break;

        got += (size_t)n;
    }

    answer[got] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    return got > 0 ? 0 : ECONNRESET;
}

int sw_control_ask(const char *path, const char *line, char *answer, size_t bytes,
                   struct sw_err *err)
{
    struct timeval timeout = {.tv_sec = REQUEST_TIMEOUT_MS / 1000};
    struct sockaddr_un to;
    int folder;

    if (strlen(line) >= SW_CONTROL_LINE - 1 || !is_text(line))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "a request must be one line of at most %d bytes, UTF-8 without control characters",
            SW_CONTROL_LINE - 2);

    int rc = address_of(path, &to, &folder, err);
    if (rc != SW_OK)
        return rc;

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int reason = fd < 0 ? errno : 0;
    if (!reason && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
                    connect(fd, (const struct sockaddr *)&to, sizeof to) != 0))
        reason = errno;

    if (reason == ECONNREFUSED)
        reason = ENOENT;
    if (!reason)
        reason = send_and_receive(fd, line, answer, bytes);
    if (fd >= 0)
        close(fd);
    close(folder);

    return reason ? sw_err_errno(err, reason, "control socket %s", path) : SW_OK;
}
