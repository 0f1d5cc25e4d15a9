/* The meeting of hosts. Each connection is a contact, whose state says what it waits for: that it
 * is connected, the next step of the TLS handshake, or a note (tcp_notes.h). Who connects says
 * hello, and who listens answers. Who has connected is a guest until its hello has shown which host
 * it is: of guests there are few, for a short time, and few of one address, since they may be
 * anybody. A host that is turned away for that reason, or that comes before the other one listens,
 * tries again. */
#include "exchange/hosts/tcp_meet.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include "exchange/hosts/frame.h"
#include "exchange/hosts/tcp.h"
#include "exchange/hosts/tcp_notes.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
    GUESTS = 32,
    GUESTS_OF_ADDRESS = 4,
    GUEST_MS = 2000,
    RETRY_MS = 100,
    DIAL_MS = 3000, /* for one of several addresses */
    WAIT_MS = 5000, /* until it is told who is awaited */
    MORE_WAIT_MS = 60000,
    CONTACTS = 2 * SW_MOST_HOSTS + GUESTS,
};

enum state { ABSENT, DIALS, SHAKES_HANDS, READS_NOTE, READS_TABLE, READY };

struct contact {
    struct sw_tcp_stream stream;
    enum state state;
    short events; /* what poll waits for */
    int host;     /* -1: a guest */
    bool welcome; /* the other host has answered */
    struct sw_tcp_address address;
    int64_t due_ns; /* absent: when to connect; a guest: when its time is over */
    unsigned char note[SW_TCP_NOTE_BYTES];
    int have;          /* bytes of the note, or of the table */
    struct sw_err why; /* of the last attempt to connect; code 0: none failed */
};

struct meeting {
    const struct sw_fabric_wire *up;
    const struct sw_tcp_conf *conf;
    struct sw_tls_context *context;
    int own, count, listener; /* listener: owned; -1: none */
    int64_t begin_ns, deadline_ns;
    int64_t word_ns;                                /* when it is told who is awaited */
    struct contact contact[CONTACTS];               /* to hosts, from hosts, guests */
    struct contact *out, *in, *guest;               /* in `contact` */
    struct sw_tcp_address first[SW_TCP_CANDIDATES]; /* of host 0 */
    int candidates, tried;
    bool has_table;
    struct sw_tcp_address table[SW_MOST_HOSTS];
    unsigned char table_bytes[SW_MOST_HOSTS * SW_TCP_ENTRY_BYTES];
    uint64_t missing; /* bits of hosts that have not come to host 0, or have gone again */
    uint64_t gave_up; /* host 0: bits of hosts that have gone again */
    int strangers;
    struct sw_err stranger; /* the last one */
};

static int64_t in_ms(int ms)
{
    return sw_os()->monotonic_ns() + (int64_t)ms * 1000000;
}

static const char *name_of(const struct meeting *m, int host)
{
    return m->up->hosts->host[host].name;
}

static bool is_guest(const struct meeting *m, const struct contact *c)
{
    return c >= m->guest;
}

static bool is_outgoing(const struct meeting *m, const struct contact *c)
{
    return c < m->in;
}

/* Is it this host's connection to the leader, which is not host 0 itself? */
static bool is_leader(const struct meeting *m, const struct contact *c)
{
    return m->own != 0 && c == &m->out[0];
}

static void hang_up(struct contact *c)
{
    sw_tcp_close(&c->stream);
    c->state = ABSENT;
    c->have = 0;
    c->welcome = false;
}

static void try_again(struct contact *c, const char *why)
{
    sw_err_set(&c->why, SW_ERR_IO, "%s", why);
    hang_up(c);
    c->due_ns = in_ms(RETRY_MS);
}

static void turn_away(struct meeting *m, struct contact *guest, const char *why)
{
    char address[SW_TCP_TEXT];

    m->strangers++;
    sw_err_set(&m->stranger, SW_ERR_IO, "%s: %s", sw_tcp_address_text(&guest->address, address),
               why);
    hang_up(guest);
}

/* Says a note; it fits into the buffer of the socket, or the connection is broken. */
static bool say(const struct meeting *m, const struct contact *c, enum sw_tcp_note_kind kind,
                uint64_t value)
{
    unsigned char bytes[SW_TCP_NOTE_BYTES];

    sw_tcp_note_write(&(struct sw_tcp_note){kind, m->own, value}, bytes);
    return sw_tcp_write(&c->stream, bytes, sizeof bytes) == sizeof bytes;
}

/* ---- Listening ---- */

/* Without a key everybody who can connect is believed. */
static int check_exposure(const struct meeting *m, const struct sw_tcp_address *a,
                          struct sw_err *err)
{
    char text[SW_TCP_TEXT];

    if (m->context || m->conf->trusted || sw_tcp_is_loopback(a))
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID,
                      "without a key host %s does not listen at %s, where others can connect",
                      name_of(m, m->own), sw_tcp_address_text(a, text));
}

/* The name of this machine may stand for one of its loopback addresses, at which no one else would
 * find it. A number chooses one of several networks. */
static bool is_name(const char *address)
{
    struct in6_addr number;

    return address && strcmp(address, "localhost") != 0 &&
           inet_pton(AF_INET, address, &number) != 1 && inet_pton(AF_INET6, address, &number) != 1;
}

static int listen_as_leader(struct meeting *m, struct sw_err *err)
{
    uint16_t port = m->conf->port;
    int rc = SW_OK;

    if (m->listener >= 0)
        return SW_OK;
    if (m->context || (m->conf->trusted && is_name(m->up->hosts->host[0].address)))
        return sw_tcp_listen(NULL, &port, &m->listener, err);

    rc = sw_tcp_resolve(m->up->hosts->host[0].address ? m->up->hosts->host[0].address : "127.0.0.1",
                        port, m->first, &m->candidates, err);
    if (rc == SW_OK)
        rc = check_exposure(m, &m->first[0], err);
    return rc == SW_OK ? sw_tcp_listen_at(&m->first[0], &m->listener, err) : rc;
}

/* The other hosts listen as soon as they have reached host 0: without a key only at the address by
 * which they reach it. */
static int listen_as_other(struct meeting *m, struct sw_err *err)
{
    struct sw_tcp_address own = sw_tcp_own_end(m->out[0].stream.fd);
    uint16_t port = 0;

    if (m->listener >= 0)
        return SW_OK;
    if (m->context)
        return sw_tcp_listen(NULL, &port, &m->listener, err);

    own.port = 0;
    int rc = check_exposure(m, &own, err);
    return rc == SW_OK ? sw_tcp_listen_at(&own, &m->listener, err) : rc;
}

static void stop_listening(struct meeting *m)
{
    if (m->listener >= 0)
        sw_os()->close(m->listener);
    m->listener = -1;
}

/* Room for a guest, or NULL; *same: guests of that address (NULL: none is looked for). */
static struct contact *room_for_guest(struct meeting *m, const struct sw_tcp_address *a, int *same)
{
    struct contact *room = NULL;

    for (struct contact *c = m->guest; c < m->guest + GUESTS; c++)
        if (c->state == ABSENT)
            room = c;
        else if (a && memcmp(c->address.ip, a->ip, sizeof a->ip) == 0)
            ++*same;
    return room;
}

/* ---- Connecting ---- */

static void dial(struct meeting *m, struct contact *c)
{
    c->address = is_leader(m, c) ? m->first[m->tried++ % m->candidates] : m->table[c->host];
    c->stream.fd = sw_tcp_dial(&c->address);
    c->state = DIALS;
    c->events = POLLOUT;
    c->due_ns = in_ms(DIAL_MS);
    if (c->stream.fd < 0)
        try_again(c, strerror(errno));
}

/* The connection is encrypted, or need not be. */
static void begin_notes(struct meeting *m, struct contact *c)
{
    uint16_t port = m->listener >= 0 ? sw_tcp_own_end(m->listener).port : 0;

    c->state = READS_NOTE;
    c->events = POLLIN;
    c->have = 0;
    if (is_outgoing(m, c) && !say(m, c, SW_TCP_HELLO, (uint64_t)m->count | (uint64_t)port << 16))
        try_again(c, "the connection is closed");
}

static int begin_handshake(struct meeting *m, struct contact *c, struct sw_err *err)
{
    sw_tcp_set_options(c->stream.fd, m->up->silence_ms, 2 * SW_FABRIC_CHUNK);
    c->state = SHAKES_HANDS;
    c->events = POLLIN;

    if (m->context)
        return sw_tls_new(m->context, c->stream.fd, is_outgoing(m, c), &c->stream.tls, err);
    begin_notes(m, c);
    return SW_OK;
}

static int end_dial(struct meeting *m, struct contact *c, struct sw_err *err)
{
    int code = sw_tcp_error(c->stream.fd);
    struct sw_tcp_address own = sw_tcp_own_end(c->stream.fd);

    if (code != 0) {
        try_again(c, strerror(code));
        return SW_OK;
    }
    /* TCP connects a socket to itself where its own free port happens to be the one it looks for.
     */
    if (memcmp(&own, &c->address, sizeof own) == 0) {
        try_again(c, strerror(ECONNREFUSED));
        return SW_OK;
    }

    int rc = is_leader(m, c) ? listen_as_other(m, err) : SW_OK;
    return rc == SW_OK ? begin_handshake(m, c, err) : rc;
}

static int shake_hands(struct meeting *m, struct contact *c, struct sw_err *err)
{
    struct sw_err why;
    int rc = sw_tls_handshake(c->stream.tls, &c->events, &why);

    if (rc == SW_ERR_BUSY)
        return SW_OK;
    if (rc == SW_OK)
        begin_notes(m, c);
    else if (is_guest(m, c))
        turn_away(m, c, why.text);
    else if (rc == SW_ERR_IO)
        try_again(c, why.text);
    else
        return sw_err_set(err, SW_ERR_NOTFOUND, "host %s: %s", name_of(m, c->host), why.text);

    return SW_OK;
}

static int accept_guests(struct meeting *m, struct sw_err *err)
{
    struct contact *c;
    int rc = SW_OK;

    while (rc == SW_OK && (c = room_for_guest(m, NULL, NULL))) {
        int same = 0, fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (fd < 0 && is_full)
            return sw_err_errno(err, errno, "cannot accept a connection of another host");
        if (fd < 0)
            break;

        *c = (struct contact){.stream = {.fd = fd},
                              .host = -1,
                              .address = sw_tcp_other_end(fd),
                              .due_ns = in_ms(GUEST_MS)};
        room_for_guest(m, &c->address, &same);
        if (same >= GUESTS_OF_ADDRESS)
            turn_away(m, c, "too many connections of one address");
        else
            rc = begin_handshake(m, c, err);
    }

    return rc;
}

/* ---- Notes ---- */

/* Host 0 tells all who have come who is missing. */
static void tell_missing(struct meeting *m)
{
    m->missing = 0;
    for (int i = 1; i < m->count; i++)
        if (m->in[i].state != READY)
            m->missing |= (uint64_t)1 << i;

    for (int i = 1; i < m->count; i++)
        if (m->in[i].state == READY)
            say(m, &m->in[i], SW_TCP_WELCOME, m->missing); /* poll reports who has gone */
}

/* Host 0: all have come. */
static void send_table(struct meeting *m)
{
    size_t bytes = (size_t)sw_tcp_table_bytes(m->count);

    m->has_table = true;
    stop_listening(m);
    sw_tcp_table_write(m->table, m->count, m->table_bytes);

    for (int i = 1; i < m->count; i++)
        if (say(m, &m->in[i], SW_TCP_TABLE, 0)) /* or the host will not be reached, either */
            sw_tcp_write(&m->in[i].stream, m->table_bytes, bytes);
}

/* Has the other side closed the connection, or broken it? */
static bool has_ended(const struct contact *c)
{
    struct pollfd fd = {.fd = c->stream.fd, .events = POLLRDHUP};

    return poll(&fd, 1, 0) > 0;
}

/* Is the guest a host that is missing here? One that has a wrong idea of the job is told so. */
static int check_hello(const struct meeting *m, const struct contact *guest, struct sw_tcp_note *n,
                       struct sw_err *why)
{
    int rc = sw_tcp_note_parse(guest->note, m->count, n, why);
    if (rc != SW_OK)
        return rc;
    if (n->kind != SW_TCP_HELLO)
        return sw_err_set(why, SW_ERR_FORMAT, "it did not say hello first");

    if (sw_tcp_note_hosts(n) != m->count) {
        say(m, guest, SW_TCP_OTHER_JOB, (uint64_t)m->count);
        return sw_err_set(why, SW_ERR_INVALID, "its job has %d hosts", sw_tcp_note_hosts(n));
    }
    if (n->host == m->own || n->host >= m->count || (m->own == 0 && sw_tcp_note_port(n) == 0))
        return sw_err_set(why, SW_ERR_INVALID, "it says that it is host %d", n->host);
    if (m->in[n->host].state == READY && !has_ended(&m->in[n->host])) {
        say(m, guest, SW_TCP_TAKEN, 0);
        return sw_err_set(why, SW_ERR_INVALID, "it is a second host %d", n->host);
    }

    return SW_OK;
}

static void take_hello(struct meeting *m, struct contact *guest)
{
    struct sw_tcp_note n;
    struct sw_err why;

    if (check_hello(m, guest, &n, &why) != SW_OK) {
        turn_away(m, guest, why.text);
        return;
    }

    struct contact *c = &m->in[n.host];
    hang_up(c);
    *c = *guest;
    *guest = (struct contact){.stream = {.fd = -1}, .host = -1};
    c->state = READY;
    c->host = n.host;
    if (m->own != 0) {
        say(m, c, SW_TCP_WELCOME, 0); /* or the host comes again */
        return;
    }

    m->table[n.host] = c->address;
    m->table[n.host].port = sw_tcp_note_port(&n);
    tell_missing(m);
    if (m->missing == 0)
        send_table(m);
}

static int take_answer(struct meeting *m, struct contact *c, struct sw_err *err)
{
    const char *name = name_of(m, c->host), *own = name_of(m, m->own);
    char address[SW_TCP_TEXT];
    struct sw_tcp_note n = {.host = -1};
    struct sw_err why = {.text = "it is another host"};

    sw_tcp_address_text(&c->address, address);
    if (sw_tcp_note_parse(c->note, m->count, &n, &why) != SW_OK || n.host != c->host ||
        n.kind == SW_TCP_HELLO || (n.kind == SW_TCP_TABLE && !(is_leader(m, c) && c->welcome)))
        return sw_err_set(err, SW_ERR_NOTFOUND, "host %s is not at %s: %s", name, address,
                          why.text);
    if (n.kind == SW_TCP_TAKEN)
        return sw_err_set(err, SW_ERR_INVALID,
                          "host %s is connected to another process that is host %d, as %s is", name,
                          m->own, own);
    if (n.kind == SW_TCP_OTHER_JOB)
        return sw_err_set(err, SW_ERR_INVALID, "the job has %d hosts on host %s, and %d on host %s",
                          (int)n.value, name, m->count, own);

    c->welcome = true;
    c->have = 0;
    if (is_leader(m, c))
        m->missing = n.value;
    c->state = n.kind == SW_TCP_TABLE ? READS_TABLE : is_leader(m, c) ? READS_NOTE : READY;
    return SW_OK;
}

static int take_table(struct meeting *m, struct contact *c, struct sw_err *err)
{
    int rc = sw_tcp_table_parse(m->table_bytes, m->count, m->table, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "host %s", name_of(m, c->host));

    /* What host 0 sees at its loopback address is on its machine. */
    for (int i = 1; i < m->count; i++)
        if (sw_tcp_is_loopback(&m->table[i]))
            memcpy(m->table[i].ip, c->address.ip, sizeof c->address.ip);

    m->has_table = true;
    c->state = READY;
    return SW_OK;
}

/* The first host, if there is one, that did not come to host 0, as far as this host knows; one that
 * gave up is named only if nobody else is missing. -1: none. */
static int first_missing(const struct meeting *m)
{
    uint64_t never_came = m->missing & ~m->gave_up, bits = never_came ? never_came : m->missing;

    return bits ? __builtin_ctzll(bits) : -1;
}

/* Nothing more can be read. */
static int take_end(struct meeting *m, struct contact *c, struct sw_err *err)
{
    if (is_guest(m, c)) {
        turn_away(m, c, "it closed the connection");
        return SW_OK;
    }
    if (!c->welcome) {
        try_again(c, "it closed the connection; does it have the same key?");
        return SW_OK;
    }

    int missing = first_missing(m);
    if (missing >= 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "host %s did not come, and host %s gave up",
                          name_of(m, missing), name_of(m, 0));
    return sw_err_set(err, SW_ERR_NOTFOUND, "host %s ended while hosts connected", name_of(m, 0));
}

/* Reads what has come, note by note. */
static int read_notes(struct meeting *m, struct contact *c, struct sw_err *err)
{
    int rc = SW_OK;

    while (rc == SW_OK && (c->state == READS_NOTE || c->state == READS_TABLE)) {
        bool is_table = c->state == READS_TABLE;
        int want = is_table ? sw_tcp_table_bytes(m->count) : SW_TCP_NOTE_BYTES;
        unsigned char *to = is_table ? m->table_bytes : c->note;

        ssize_t n = sw_tcp_read(&c->stream, to + c->have, (size_t)(want - c->have));
        if (n < 0 && errno == EAGAIN)
            return SW_OK;
        if (n <= 0)
            return take_end(m, c, err);

        c->have += (int)n;
        if (c->have < want)
            continue;
        if (is_table)
            rc = take_table(m, c, err);
        else if (is_guest(m, c))
            take_hello(m, c);
        else
            rc = take_answer(m, c, err);
    }

    return rc;
}

static int go_on(struct meeting *m, struct contact *c, struct sw_err *err)
{
    int rc = SW_OK;

    if (c->state == DIALS)
        rc = end_dial(m, c, err);
    if (rc == SW_OK && c->state == SHAKES_HANDS)
        rc = shake_hands(m, c, err);
    if (rc == SW_OK && (c->state == READS_NOTE || c->state == READS_TABLE))
        rc = read_notes(m, c, err);
    return rc;
}

/* ---- All together ---- */

/* The first host to which (from which) there is no connection yet; -1: none. */
static int first_unconnected(const struct meeting *m, const struct contact *contacts)
{
    for (int i = 0; i < m->count; i++)
        if (i != m->own && contacts[i].state != READY)
            return i;
    return -1;
}

static bool is_complete(const struct meeting *m)
{
    return first_unconnected(m, m->in) < 0 && first_unconnected(m, m->out) < 0;
}

/* Does what the time demands, and sets the milliseconds until it demands something again. */
static int look_at_clock(struct meeting *m)
{
    int64_t now_ns = sw_os()->monotonic_ns(), next_ns = now_ns + 200000000;

    for (struct contact *c = m->contact; c < m->contact + CONTACTS; c++) {
        bool waits = is_guest(m, c) ? c->state != ABSENT
                                    : is_outgoing(m, c) && c->state <= DIALS && c->host >= 0 &&
                                          (is_leader(m, c) || m->has_table);
        if (waits && c->due_ns <= now_ns && is_guest(m, c))
            turn_away(m, c, "it did not say hello in time");
        else if (waits && c->due_ns <= now_ns && c->state == DIALS)
            try_again(c, "it does not answer");
        else if (waits && c->due_ns <= now_ns)
            dial(m, c);
        else if (waits && c->due_ns < next_ns)
            next_ns = c->due_ns;
    }

    next_ns = m->word_ns < next_ns ? m->word_ns : next_ns;
    next_ns = m->deadline_ns < next_ns ? m->deadline_ns : next_ns;
    return next_ns > now_ns ? (int)((next_ns - now_ns + 999999) / 1000000) : 0;
}

/* Host 0: a host that came has gone before all were there; it may come again. */
static void forget(struct meeting *m, struct contact *c)
{
    m->gave_up |= (uint64_t)1 << c->host;
    hang_up(c);
    tell_missing(m);
}

static int serve(struct meeting *m, int timeout_ms, struct sw_err *err)
{
    struct pollfd fd[CONTACTS + 1];
    struct contact *of[CONTACTS];
    int count = 0, rc = SW_OK;

    for (struct contact *c = m->contact; c < m->contact + CONTACTS; c++) {
        bool may_go = c->state == READY && m->own == 0 && !m->has_table;
        if (c->state == ABSENT || (c->state == READY && !may_go))
            continue;

        of[count] = c;
        fd[count++] = (struct pollfd){.fd = c->stream.fd, .events = may_go ? POLLRDHUP : c->events};
    }
    fd[count] =
        (struct pollfd){.fd = room_for_guest(m, NULL, NULL) ? m->listener : -1, .events = POLLIN};

    if (poll(fd, (nfds_t)count + 1, timeout_ms) <= 0)
        return SW_OK;

    for (int i = 0; i < count && rc == SW_OK; i++)
        if (fd[i].revents && fd[i].fd == of[i]->stream.fd && of[i]->state == READY)
            forget(m, of[i]);
        else if (fd[i].revents && fd[i].fd == of[i]->stream.fd)
            rc = go_on(m, of[i], err);
    if (rc == SW_OK && fd[count].revents && m->listener >= 0)
        rc = accept_guests(m, err);

    return rc;
}

/* Names who is missing. */
static int fail_late(const struct meeting *m, struct sw_err *err)
{
    bool knows = m->own == 0 || m->out[0].welcome;
    int host = knows && !m->has_table ? first_missing(m) : -1;
    double seconds = m->up->connect_ms / 1e3;
    char address[SW_TCP_TEXT];
    struct sw_err strangers = {0};

    if (m->strangers > 0)
        sw_err_set(&strangers, SW_ERR_IO, "; %d other connections were refused, the last from %s",
                   m->strangers, m->stranger.text);
    if (host >= 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "host %s did not come within %g s%s",
                          name_of(m, host), seconds, strangers.text);

    host = first_unconnected(m, m->out);
    if (host < 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "host %s did not connect within %g s%s",
                          name_of(m, first_unconnected(m, m->in)), seconds, strangers.text);

    const struct contact *c = &m->out[host];
    return sw_err_set(err, SW_ERR_NOTFOUND, "host %s was not reached within %g s at %s%s%s%s",
                      name_of(m, host), seconds, sw_tcp_address_text(&c->address, address),
                      c->why.code ? ": " : "", c->why.text, strangers.text);
}

/* Tells who is awaited; host 0 tells it for those that have reached it. */
static void tell_wait(struct meeting *m)
{
    const int64_t now_ns = sw_os()->monotonic_ns();
    const int seconds = (int)((now_ns - m->begin_ns) / 1000000000);
    struct sw_bytes names = {0};
    int count = 0;

    if (now_ns < m->word_ns)
        return;

    m->word_ns = now_ns + (int64_t)MORE_WAIT_MS * 1000000;
    if (m->own != 0 && m->out[0].welcome && !m->has_table)
        return;

    for (int i = 0; i < m->count; i++)
        if (i != m->own && (m->in[i].state != READY || m->out[i].state != READY) &&
            (m->own == 0 || m->has_table || i == 0))
            sw_bytes_printf(&names, "%s%s", count++ ? ", " : "", name_of(m, i));
    sw_log_write(m->up->log, SW_LOG_INFO, "network",
                 "waiting for host%s %s since %d s, for %d s more", count > 1 ? "s" : "",
                 sw_bytes_text(&names), seconds, (int)((m->deadline_ns - now_ns) / 1000000000));
    sw_bytes_fini(&names);
}

static int meet(struct meeting *m, struct sw_err *err)
{
    int rc = SW_OK;

    if (m->own == 0)
        rc = listen_as_leader(m, err);
    else if (!m->up->hosts->host[0].address)
        rc = sw_err_set(err, SW_ERR_INVALID, "host %s has no address", name_of(m, 0));
    else
        rc = sw_tcp_resolve(m->up->hosts->host[0].address, m->conf->port, m->first, &m->candidates,
                            err);

    while (rc == SW_OK && !is_complete(m)) {
        int timeout_ms = look_at_clock(m);
        if (sw_os()->monotonic_ns() >= m->deadline_ns)
            return fail_late(m, err);
        tell_wait(m);
        rc = serve(m, timeout_ms, err);
        if (rc == SW_OK)
            rc = sw_stop_check(err);
    }

    return rc;
}

static void begin(struct meeting *m, const struct sw_fabric_wire *up,
                  struct sw_tls_context *context)
{
    m->up = up;
    m->conf = up->conf;
    m->context = context;
    m->own = up->hosts->own;
    m->count = up->hosts->count;
    m->begin_ns = sw_os()->monotonic_ns();
    m->deadline_ns = in_ms(up->connect_ms);
    m->word_ns = in_ms(WAIT_MS);
    m->out = m->contact;
    m->in = m->out + SW_MOST_HOSTS;
    m->guest = m->in + SW_MOST_HOSTS;

    for (int i = 1; i < m->count; i++)
        m->missing |= (uint64_t)(m->own == 0) << i;
    for (int i = 0; i < CONTACTS; i++)
        m->contact[i] = (struct contact){.stream = {.fd = -1}, .host = -1};
    for (int i = 0; i < m->count; i++)
        m->out[i].host = i == m->own ? -1 : i;
    if (m->listener >= 0)
        sw_tcp_set_blocking(m->listener, false);
}

/* Hands the streams over, or closes them. */
static void end(struct meeting *m, struct sw_tcp_pair *pair)
{
    for (int i = 0; i < m->count && pair; i++) {
        if (i == m->own)
            continue;
        pair[i] = (struct sw_tcp_pair){.in = m->in[i].stream, .out = m->out[i].stream};
        m->in[i].stream = m->out[i].stream = (struct sw_tcp_stream){.fd = -1};
        sw_tcp_set_blocking(pair[i].in.fd, true);
        sw_tcp_set_blocking(pair[i].out.fd, true);
    }

    for (int i = 0; i < CONTACTS; i++)
        hang_up(&m->contact[i]);
    stop_listening(m);
    if (m->strangers > 0)
        sw_log_write(m->up->log, SW_LOG_WARN, "network",
                     "%d connections were refused while the hosts connected, the last from %s",
                     m->strangers, m->stranger.text);
}

int sw_tcp_meet(const struct sw_fabric_wire *up, struct sw_tls_context *context, int *listener,
                struct sw_tcp_pair *pair, struct sw_err *err)
{
    struct meeting *m = sw_calloc(1, sizeof *m);

    if (!m)
        return sw_err_nomem(err, "connections to other hosts", sizeof *m);

    m->listener = *listener;
    *listener = -1;
    begin(m, up, context);
    int rc = meet(m, err);
    end(m, rc == SW_OK ? pair : NULL);
    sw_free(m);
    return rc;
}
