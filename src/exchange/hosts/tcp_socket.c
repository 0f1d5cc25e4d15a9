/* Sockets, addresses and streams of engine `tcp`. */
#include "exchange/hosts/tcp_socket.h"

#include "base/os.h"
#include "exchange/hosts/tcp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum { BACKLOG = 128, IPV4 = 12 /* where the bytes of an IPv4 address are in a mapped one */ };

static const unsigned char mapped[IPV4] = {[10] = 0xff, [11] = 0xff};

/* ---- Addresses ---- */

static bool is_ipv4(const struct sw_tcp_address *a)
{
    return memcmp(a->ip, mapped, sizeof mapped) == 0;
}

bool sw_tcp_is_loopback(const struct sw_tcp_address *a)
{
    return is_ipv4(a) ? a->ip[IPV4] == 127 : memcmp(a->ip, &in6addr_loopback, sizeof a->ip) == 0;
}

const char *sw_tcp_address_text(const struct sw_tcp_address *a, char out[SW_TCP_TEXT])
{
    char ip[INET6_ADDRSTRLEN];
    bool ipv4 = is_ipv4(a);

    if (!inet_ntop(ipv4 ? AF_INET : AF_INET6, a->ip + (ipv4 ? IPV4 : 0), ip, sizeof ip))
        strcpy(ip, "?");
    snprintf(out, SW_TCP_TEXT, "%s port %d", ip, a->port);
    return out;
}

static struct sw_tcp_address from_system(const struct sockaddr_storage *s)
{
    struct sw_tcp_address a = {0};

    if (s->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)s;
        memcpy(a.ip, mapped, sizeof mapped);
        memcpy(a.ip + IPV4, &v4->sin_addr, sizeof v4->sin_addr);
        a.port = ntohs(v4->sin_port);
    } else if (s->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)s;
        memcpy(a.ip, &v6->sin6_addr, sizeof a.ip);
        a.port = ntohs(v6->sin6_port);
    }

    return a;
}

static socklen_t to_system(const struct sw_tcp_address *a, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){0};

    if (is_ipv4(a)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(a->port);
        memcpy(&v4->sin_addr, a->ip + IPV4, sizeof v4->sin_addr);
        return sizeof *v4;
    }

    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(a->port);
    memcpy(&v6->sin6_addr, a->ip, sizeof a->ip);
    return sizeof *v6;
}

int sw_tcp_resolve(const char *name, uint16_t port, struct sw_tcp_address *out, int *count,
                   struct sw_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int n = 0, rc = getaddrinfo(name, NULL, &hints, &found);

    if (rc != 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "the address \"%s\" was not found: %s", name,
                          rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));

    for (const struct addrinfo *i = found; i && n < SW_TCP_CANDIDATES; i = i->ai_next) {
        struct sockaddr_storage s = {0};
        if (i->ai_family != AF_INET && i->ai_family != AF_INET6)
            continue;

        memcpy(&s, i->ai_addr, i->ai_addrlen);
        out[n] = from_system(&s);
        out[n++].port = port;
    }

    freeaddrinfo(found);
    *count = n;
    return n > 0 ? SW_OK
                 : sw_err_set(err, SW_ERR_NOTFOUND, "\"%s\" has no address of IPv4 or IPv6", name);
}

struct sw_tcp_address sw_tcp_own_end(int fd)
{
    struct sockaddr_storage s = {0};
    socklen_t bytes = sizeof s;

    /* An unknown family gives an address of zeros. */
    getsockname(fd, (struct sockaddr *)&s, &bytes);
    return from_system(&s);
}

struct sw_tcp_address sw_tcp_other_end(int fd)
{
    struct sockaddr_storage s = {0};
    socklen_t bytes = sizeof s;

    getpeername(fd, (struct sockaddr *)&s, &bytes);
    return from_system(&s);
}

/* ---- Sockets ---- */

static int new_socket(const struct sw_tcp_address *a, struct sockaddr_storage *s, socklen_t *bytes)
{
    *bytes = to_system(a, s);
    return socket(s->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void set_number(int fd, int level, int option, int value)
{
    /* What a system lacks costs speed or time, and nothing else. */
    setsockopt(fd, level, option, &value, sizeof value);
}

int sw_tcp_listen_at(const struct sw_tcp_address *a, int *out, struct sw_err *err)
{
    char text[SW_TCP_TEXT];
    struct sockaddr_storage s;
    socklen_t bytes;
    int fd = new_socket(a, &s, &bytes);

    if (fd >= 0) {
        set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if (s.ss_family == AF_INET6)
            set_number(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&s, bytes) != 0 || listen(fd, BACKLOG) != 0) {
        int code = errno;
        if (fd >= 0)
            sw_os()->close(fd);
        sw_err_errno(err, code, "cannot listen at %s", sw_tcp_address_text(a, text));
        return SW_ERR_IO;
    }

    *out = fd;
    return SW_OK;
}

int sw_tcp_listen(const char *address, uint16_t *port, int *fd, struct sw_err *err)
{
    struct sw_tcp_address a[SW_TCP_CANDIDATES] = {{.port = *port}, {.port = *port}};
    int count = 2, rc = SW_OK;

    /* All addresses: those of IPv6 and IPv4, or of IPv4 where there is nothing else. */
    memcpy(a[1].ip, mapped, sizeof mapped);
    if (address)
        rc = sw_tcp_resolve(address, *port, a, &count, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < count; i++) {
        rc = sw_tcp_listen_at(&a[i], fd, err);
        if (rc == SW_OK) {
            *port = sw_tcp_own_end(*fd).port;
            return SW_OK;
        }
    }

    return rc;
}

int sw_tcp_dial(const struct sw_tcp_address *a)
{
    struct sockaddr_storage s;
    socklen_t bytes;
    int fd = new_socket(a, &s, &bytes);

    if (fd < 0 || connect(fd, (struct sockaddr *)&s, bytes) == 0 || errno == EINPROGRESS)
        return fd;

    int code = errno;
    sw_os()->close(fd);
    errno = code;
    return -1;
}

int sw_tcp_error(int fd)
{
    int code = 0;
    socklen_t bytes = sizeof code;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes) == 0 ? code : errno;
}

void sw_tcp_set_options(int fd, int silence_ms, int unsent_bytes)
{
    set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_number(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
    set_number(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes);
}

void sw_tcp_set_blocking(int fd, bool blocks)
{
    int flags = fcntl(fd, F_GETFL);

    fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/* ---- Streams ---- */

ssize_t sw_tcp_read(const struct sw_tcp_stream *s, void *to, size_t bytes)
{
    ssize_t n;

    if (s->tls)
        return sw_tls_read(s->tls, to, bytes);

    do
        n = recv(s->fd, to, bytes, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

ssize_t sw_tcp_write(const struct sw_tcp_stream *s, const void *from, size_t bytes)
{
    ssize_t n;

    if (s->tls)
        return sw_tls_write(s->tls, from, bytes);

    do
        n = send(s->fd, from, bytes, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Sets the error of a call that moved n bytes, none. */
static int broken(ssize_t n, struct sw_err *err)
{
    if (n == 0 || errno == EPIPE || errno == ECONNRESET)
        return sw_err_set(err, SW_ERR_IO, "the connection is closed");

    sw_err_errno(err, errno, "the connection is broken");
    return SW_ERR_IO;
}

int sw_tcp_read_all(const struct sw_tcp_stream *s, void *to, size_t bytes, struct sw_err *err)
{
    for (unsigned char *at = to; bytes > 0;) {
        ssize_t n = sw_tcp_read(s, at, bytes);
        if (n <= 0)
            return broken(n, err);

        at += n;
        bytes -= (size_t)n;
    }

    return SW_OK;
}

int sw_tcp_write_all(const struct sw_tcp_stream *s, const void *from, size_t bytes,
                     struct sw_err *err)
{
    for (const unsigned char *at = from; bytes > 0;) {
        ssize_t n = sw_tcp_write(s, at, bytes);
        if (n <= 0)
            return broken(n, err);

        at += n;
        bytes -= (size_t)n;
    }

    return SW_OK;
}

void sw_tcp_close(struct sw_tcp_stream *s)
{
    sw_tls_free(s->tls);
    if (s->fd >= 0)
        sw_os()->close(s->fd);
    *s = (struct sw_tcp_stream){.fd = -1};
}
