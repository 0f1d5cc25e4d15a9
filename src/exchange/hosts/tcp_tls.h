/* TLS 1.3 over sockets of engine `tcp`. Both sides prove that they have the key of the job, an
 * external pre-shared key; there are no certificates. A session is used by one thread at a time,
 * and after its handshake in one direction only. Two files implement this: tcp_tls.c with OpenSSL,
 * and tcp_tls_without.c for builds without it. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

/* Bytes that the other side can send before its handshake must be complete. */
enum { SW_TLS_HANDSHAKE_BYTES = 64 << 10 };

struct sw_tls_context;
struct sw_tls;

/* Errors: SW_ERR_UNSUPPORTED (a build without TLS), SW_ERR_LIBRARY. The key is copied. */
int sw_tls_context_new(const unsigned char *key, size_t bytes, struct sw_tls_context **out,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_tls_context_free(struct sw_tls_context *c); /* after its sessions; NULL is accepted */
/* A session over a connected socket, which stays the caller's. Errors: SW_ERR_LIBRARY. */
int sw_tls_new(struct sw_tls_context *c, int fd, bool connects, struct sw_tls **out,
               struct sw_err *err) SW_MUST_CHECK;
void sw_tls_free(struct sw_tls *s); /* NULL is accepted */

/* Goes on with the handshake; the socket does not block. SW_ERR_BUSY: again when poll reports
 * *events. SW_ERR_IO: the connection broke. SW_ERR_INVALID: the other side has not proved the key.
 */
int sw_tls_handshake(struct sw_tls *s, short *events, struct sw_err *err) SW_MUST_CHECK;
/* As recv and send: -1 and errno, which is EPROTO for what is no TLS or was changed on its way. */
ssize_t sw_tls_read(struct sw_tls *s, void *to, size_t bytes);
ssize_t sw_tls_write(struct sw_tls *s, const void *from, size_t bytes);
