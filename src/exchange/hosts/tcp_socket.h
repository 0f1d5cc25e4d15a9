/* Sockets of engine `tcp`: addresses, connecting, and streams of bytes that may be encrypted. No
 * function raises SIGPIPE; an interrupted call is repeated. */
#pragma once

#include "exchange/hosts/tcp_tls.h"
#include <stdint.h>

/* An IPv6 address, or an IPv4 address in its mapped form ::ffff:a.b.c.d. */
struct sw_tcp_address {
    unsigned char ip[16];
    uint16_t port;
};

enum { SW_TCP_TEXT = 64, SW_TCP_CANDIDATES = 8 };

bool sw_tcp_is_loopback(const struct sw_tcp_address *a);
/* "10.0.0.7 port 4711". Returns out. */
const char *sw_tcp_address_text(const struct sw_tcp_address *a, char out[SW_TCP_TEXT]);
/* The addresses of a name, or the numeric address itself; SW_TCP_CANDIDATES at most. Errors:
 * SW_ERR_NOTFOUND. */
int sw_tcp_resolve(const char *name, uint16_t port, struct sw_tcp_address *out, int *count,
                   struct sw_err *err) SW_MUST_CHECK;
/* The address at this or at the other end of a connected socket; all zero if it is unknown. */
struct sw_tcp_address sw_tcp_own_end(int fd);
struct sw_tcp_address sw_tcp_other_end(int fd);

/* A socket that listens at an address, and that does not block. Errors: SW_ERR_IO. */
int sw_tcp_listen_at(const struct sw_tcp_address *a, int *fd, struct sw_err *err) SW_MUST_CHECK;
/* Begins to connect; returns a socket that does not block, or -1 and errno. The socket is connected
 * when poll reports that it can be written and sw_tcp_error returns 0. */
int sw_tcp_dial(const struct sw_tcp_address *a);
int sw_tcp_error(int fd); /* an errno */
/* Options of a connected socket: unacknowledged data breaks it after silence_ms, small messages are
 * not delayed, and at most unsent_bytes wait in the system, so that what comes later and is more
 * urgent waits for no more than these. */
void sw_tcp_set_options(int fd, int silence_ms, int unsent_bytes);
void sw_tcp_set_blocking(int fd, bool blocks);

struct sw_tcp_stream {
    int fd;             /* owned; -1: none */
    struct sw_tls *tls; /* owned; NULL: not encrypted */
};

/* As recv and send. */
ssize_t sw_tcp_read(const struct sw_tcp_stream *s, void *to, size_t bytes);
ssize_t sw_tcp_write(const struct sw_tcp_stream *s, const void *from, size_t bytes);
/* All bytes, of a socket that blocks. Errors: SW_ERR_IO. */
int sw_tcp_read_all(const struct sw_tcp_stream *s, void *to, size_t bytes,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_tcp_write_all(const struct sw_tcp_stream *s, const void *from, size_t bytes,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_tcp_close(struct sw_tcp_stream *s); /* once more does nothing */
