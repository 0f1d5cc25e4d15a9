/* TLS 1.3 with OpenSSL. Sessions read and write through a BIO of our own, since OpenSSL's would
 * raise SIGPIPE, and so that a stranger cannot send without end. */
#include "exchange/hosts/tcp_tls.h"

#include "base/os.h"
#include "exchange/hosts/tcp.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
    MOST_KEY = 64,
    /* Bytes under one key. AES-GCM allows 2^24.5 records (RFC 8446, 5.5); new keys cost little. */
    BYTES_PER_KEY = 64 << 20,
};

static const unsigned char identity[] = "singa-ws", aes_128_gcm[] = {0x13, 0x01};

struct sw_tls_context {
    SSL_CTX *ssl;    /* owned */
    BIO_METHOD *bio; /* owned */
    unsigned char key[MOST_KEY];
    size_t key_bytes;
};

struct sw_tls {
    struct sw_tls_context *context; /* borrowed */
    SSL *ssl;                       /* owned */
    int fd;                         /* borrowed */
    int error;                      /* errno of the socket; 0: none */
    bool ended;                     /* the other side has closed the connection */
    size_t budget;                  /* bytes that it may still send; only before it is known */
    bool is_known;
    size_t under_key; /* bytes */
};

bool sw_tcp_has_tls(void)
{
    return true;
}

/* ---- The socket ---- */

static int socket_read(BIO *bio, char *to, int bytes)
{
    struct sw_tls *s = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    if (!s->is_known && s->budget == 0) {
        s->error = EMSGSIZE;
        return -1;
    }

    size_t most = !s->is_known && s->budget < (size_t)bytes ? s->budget : (size_t)bytes;
    do
        n = recv(s->fd, to, most, 0);
    while (n < 0 && errno == EINTR);

    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (n < 0)
        s->error = errno;
    else if (n == 0)
        s->ended = true;
    else if (!s->is_known)
        s->budget -= (size_t)n;

    return (int)n;
}

static int socket_write(BIO *bio, const char *from, int bytes)
{
    struct sw_tls *s = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);

    do
        n = send(s->fd, from, (size_t)bytes, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);

    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    else if (n < 0)
        s->error = errno;

    return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    return command == BIO_CTRL_FLUSH;
}

/* ---- The key ---- */

/* OpenSSL takes an external key as if it were that of an earlier session. */
static SSL_SESSION *session_of_key(SSL *ssl)
{
    const struct sw_tls *s = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher &&
        SSL_SESSION_set1_master_key(session, s->context->key, s->context->key_bytes) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;

    SSL_SESSION_free(session);
    return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes,
                   SSL_SESSION **session)
{
    *id = identity;
    *id_bytes = sizeof identity;
    *session = session_of_key(ssl);
    return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
    *session = NULL;
    if (id_bytes != sizeof identity || memcmp(id, identity, sizeof identity) != 0)
        return 1;

    *session = session_of_key(ssl);
    return *session != NULL;
}

/* ---- Contexts ---- */

static bool set_up(struct sw_tls_context *c)
{
    c->ssl = SSL_CTX_new(TLS_method());
    c->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "singa-ws");
    if (!c->ssl || !c->bio)
        return false;

    BIO_meth_set_read(c->bio, socket_read);
    BIO_meth_set_write(c->bio, socket_write);
    BIO_meth_set_ctrl(c->bio, socket_control);

    /* No tickets: bytes that nobody reads reset a connection that is closed, and with it what was
     * sent last. */
    SSL_CTX_set_num_tickets(c->ssl, 0);
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_use_session_callback(c->ssl, use_key);
    SSL_CTX_set_psk_find_session_callback(c->ssl, find_key);

    return SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(c->ssl, "TLS_AES_128_GCM_SHA256");
}

static int library_error(struct sw_err *err)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    return sw_err_set(err, SW_ERR_LIBRARY, "OpenSSL cannot prepare TLS 1.3: %s",
                      reason ? reason : "unknown reason");
}

int sw_tls_context_new(const unsigned char *key, size_t bytes, struct sw_tls_context **out,
                       struct sw_err *err)
{
    struct sw_tls_context *c = sw_calloc(1, sizeof *c);

    if (!c || bytes > MOST_KEY) {
        sw_free(c);
        return sw_err_nomem(err, "the encryption of connections", sizeof *c);
    }

    memcpy(c->key, key, bytes);
    c->key_bytes = bytes;
    ERR_clear_error();
    if (!set_up(c)) {
        sw_tls_context_free(c);
        return library_error(err);
    }

    *out = c;
    return SW_OK;
}

void sw_tls_context_free(struct sw_tls_context *c)
{
    if (!c)
        return;

    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->bio);
    OPENSSL_cleanse(c->key, sizeof c->key);
    sw_free(c);
}

/* ---- Sessions ---- */

int sw_tls_new(struct sw_tls_context *c, int fd, bool connects, struct sw_tls **out,
               struct sw_err *err)
{
    struct sw_tls *s = sw_calloc(1, sizeof *s);
    BIO *bio = NULL;

    if (!s)
        return sw_err_nomem(err, "the encryption of a connection", sizeof *s);

    ERR_clear_error();
    *s = (struct sw_tls){.context = c, .fd = fd, .budget = SW_TLS_HANDSHAKE_BYTES};
    s->ssl = SSL_new(c->ssl);
    bio = s->ssl ? BIO_new(c->bio) : NULL;
    if (!bio) {
        sw_tls_free(s);
        return library_error(err);
    }

    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    SSL_set_app_data(s->ssl, s);
    if (connects) {
        SSL_set_verify(s->ssl, SSL_VERIFY_PEER, NULL); /* no certificate is trusted */
        SSL_set_connect_state(s->ssl);
    } else {
        SSL_set_accept_state(s->ssl);
    }

    *out = s;
    return SW_OK;
}

void sw_tls_free(struct sw_tls *s)
{
    if (!s)
        return;

    SSL_free(s->ssl);
    sw_free(s);
}

int sw_tls_handshake(struct sw_tls *s, short *events, struct sw_err *err)
{
    ERR_clear_error();

    int rc = SSL_do_handshake(s->ssl), code = SSL_get_error(s->ssl, rc);

    /* Both sides have proved the key exactly if this resumes the session that stands for it. */
    s->is_known = rc == 1 && SSL_session_reused(s->ssl);
    if (s->is_known)
        return SW_OK;
    if (rc != 1 && (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)) {
        *events = code == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return SW_ERR_BUSY;
    }
    if (s->error == EMSGSIZE)
        return sw_err_set(err, SW_ERR_INVALID, "it sent more than a handshake");
    if (s->error || s->ended)
        return sw_err_set(err, SW_ERR_IO, "%s",
                          s->error ? strerror(s->error) : "it closed the connection");

    const char *reason = ERR_reason_error_string(ERR_peek_error());
    return sw_err_set(err, SW_ERR_INVALID, "it does not have the key of this job (TLS: %s)",
                      reason ? reason : "no such key");
}

/* What a call that failed means for who uses a socket. */
static ssize_t result_of(const struct sw_tls *s, int rc)
{
    int code = SSL_get_error(s->ssl, rc);

    if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (code == SSL_ERROR_ZERO_RETURN || (s->ended && !s->error))
        return 0;

    errno = s->error ? s->error : EPROTO;
    return -1;
}

ssize_t sw_tls_read(struct sw_tls *s, void *to, size_t bytes)
{
    size_t n = 0;

    ERR_clear_error();
    int rc = SSL_read_ex(s->ssl, to, bytes, &n);
    return rc == 1 ? (ssize_t)n : result_of(s, rc);
}

ssize_t sw_tls_write(struct sw_tls *s, const void *from, size_t bytes)
{
    size_t n = 0;

    ERR_clear_error();
    if (s->under_key > BYTES_PER_KEY && SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        s->under_key = 0;

    int rc = SSL_write_ex(s->ssl, from, bytes, &n);
    s->under_key += n;
    return rc == 1 ? (ssize_t)n : result_of(s, rc);
}
