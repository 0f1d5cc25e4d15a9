/* Lines on the control socket: for any bytes in any pieces, each client gets one line or is
 * dropped, the answer to a valid text is valid text (UTF-8 without control characters), and the
 * next client is served. Input: a byte, whose bits 0 to 5 give where the rest is split in two (in
 * sixteenths; not above 15) and whose bit 6 adds a newline; then the bytes to send. */
#include "base/os.h"
#include "base/str.h"
#include "history/control.h"
#include "monitor/requests.h"
#include "run/job_private.h"
#include "worker/gate.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_BYTES = 2048 };

static struct sw_control *control; /* made for the first input, and served for all */
static char path[100];

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static bool is_text(const char *s, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        size_t n = sw_utf8_length(s + i, bytes - i);
        if (!n || (unsigned char)s[i] < ' ' || s[i] == 127)
            return false;
        i += n;
    }
    return true;
}

/* Notes need a history, which this job does not have. */
static void handle(void *user, const char *line, char *answer, size_t bytes)
{
    struct sw_job *job = user;
    demand(strlen(line) < SW_CONTROL_LINE);
    if (strncmp(line, "note", 4) != 0)
        sw_request_answer(&job->requests, line, answer, bytes);
    demand(memchr(answer, '\0', bytes) != NULL);
}

static void remove_socket(void)
{
    sw_control_free(control);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static void open_socket(void)
{
    struct sw_err err;
    strcpy(path, "/tmp/fuzz-control-XXXXXX");
    demand(mkdtemp(path) != NULL);
    strcat(path, "/run.sock");
    demand(sw_control_new(&control, &err) == SW_OK);
    demand(sw_control_listen(control, path, &err) == SW_OK);
    demand(atexit(remove_socket) == 0);
}

static int join(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(to.sun_path, path);
    demand(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n, struct sw_job *job)
{
    if (n && send(fd, bytes, n, MSG_NOSIGNAL) < 0)
        return; /* the client was answered or dropped */
    sw_control_poll(control, 0, handle, job);
}

/* Reads the answer: one line, nothing, or a reset if more was sent than was read. */
static void hear(int fd, bool said_text)
{
    char answer[SW_CONTROL_LINE + 16];
    ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (got <= 0)
        return;
    demand(got <= SW_CONTROL_LINE && answer[got - 1] == '\n');
    demand(!said_text || is_text(answer, (size_t)got - 1));
    demand(recv(fd, answer, sizeof answer, MSG_DONTWAIT) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const int64_t steps = 0;
    struct sw_job job = {.events = {.steps = &steps}};
    if (!control)
        open_socket();
    if (bytes < 1 || bytes > MAX_BYTES)
        return 0;
    const size_t n = bytes - 1, part = data[0] & 63, first = part < 16 ? n * part / 16 : n;
    int fd = join();
    sw_control_poll(control, 0, handle, &job); /* accepts the client */
    say(fd, data + 1, first, &job);
    say(fd, data + 1 + first, n - first, &job);
    if (data[0] & 64)
        say(fd, "\n", 1, &job);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 8; i++) /* a long text is read in pieces */
        sw_control_poll(control, 0, handle, &job);
    hear(fd, is_text((const char *)data + 1, n));
    close(fd);
    return 0;
}
