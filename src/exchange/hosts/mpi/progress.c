/* What the thread of engine `mpi` does. No other thread calls MPI, but for the name.
 *
 * While the thread is in the wire, or hands memory of the fabric to MPI, `busy` names the host:
 * drop and close by other threads wait for it (enter, leave). */
#include "exchange/hosts/mpi/link.h"

#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

/* "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\n...". */
const char *sw_mpi_name(char *out, size_t bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;

    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS || !text[0])
        snprintf(text, sizeof text, "MPI");
    text[strcspn(text, ",\n")] = '\0';

    size_t words = strcspn(text, "0123456789"), name = words;
    while (name > 0 && strchr(" \tv:", text[name - 1]))
        name--;
    if (name > 8 && memcmp(text + name - 8, " Version", 8) == 0)
        name -= 8;

    snprintf(out, bytes, "%.*s%s%s", (int)name, text, text[words] ? " " : "", text + words);
    return out;
}

static int library_error(struct sw_err *err, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error", name[80];
    int length;

    MPI_Error_string(code, text, &length);
    return sw_err_set(err, SW_ERR_LIBRARY, "%s: %s", sw_mpi_name(name, sizeof name), text);
}

/* ---- The fabric ---- */

/* False: the fabric wants nothing of that host any more. */
static bool enter(struct sw_mpi_link *m, int host)
{
    sw_mutex_lock(&m->lock);
    bool open = m->up && !m->peers[host].dropped;
    m->busy = open ? host : -1;
    sw_mutex_unlock(&m->lock);

    return open;
}

static void leave(struct sw_mpi_link *m)
{
    sw_mutex_lock(&m->lock);
    m->busy = -1;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);
}

/* Tells the fabric, once, that the connection is broken. */
static void tell_failed(struct sw_mpi_link *m, int host, const struct sw_err *why)
{
    struct sw_mpi_peer *p = &m->peers[host];

    if (p->told)
        return;

    p->told = true;
    if (enter(m, host)) {
        m->up->failed(m->up->user, host, why);
        leave(m);
    }
}

/* ---- Requests ---- */

static MPI_Request *request_of(struct sw_mpi_link *m, int host, int which)
{
    return &m->request[host * REQUESTS + which];
}

static int tag_of(const struct sw_mpi_peer *p, int what)
{
    return p->openings % OPENINGS * TAGS + what;
}

/* The fabric is told in the next round, since it may be in a call. */
static void note_error(struct sw_mpi_link *m, int host, int code)
{
    if (code != MPI_SUCCESS && m->peers[host].why.code == SW_OK)
        library_error(&m->peers[host].why, code);
}

static void post_receive(struct sw_mpi_link *m, int host, int which, void *to, int bytes)
{
    static const int tag[] = {[HEAD_IN] = TAG_HEAD, [BODY_IN] = TAG_BODY, [BYE_IN] = TAG_BYE};

    note_error(m, host,
               MPI_Irecv(to, bytes, MPI_BYTE, host, tag_of(&m->peers[host], tag[which]),
                         MPI_COMM_WORLD, request_of(m, host, which)));
}

static void post_send(struct sw_mpi_link *m, int host, int which, int what, const void *data,
                      int bytes)
{
    note_error(m, host,
               MPI_Isend(data, bytes, MPI_BYTE, host, tag_of(&m->peers[host], what), MPI_COMM_WORLD,
                         request_of(m, host, which)));
}

/* ---- Sending ---- */

static void begin_chunk(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];
    int at = (int)(p->begun++ % WINDOW);
    const struct sw_mpi_slot *s = &p->slot[at];

    post_send(m, host, CHUNKS_OUT + 2 * at, TAG_HEAD, s->head, s->head_bytes);
    if (s->body_bytes > 0)
        post_send(m, host, CHUNKS_OUT + 2 * at + 1, TAG_BODY, s->body, s->body_bytes);
}

static bool is_out(struct sw_mpi_link *m, int host, int at)
{
    return *request_of(m, host, CHUNKS_OUT + 2 * at) == MPI_REQUEST_NULL &&
           *request_of(m, host, CHUNKS_OUT + 2 * at + 1) == MPI_REQUEST_NULL;
}

/* Tells the fabric which chunks are out, the oldest first. */
static bool tell_sent(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];
    bool moved = false;

    while (p->active && p->sent < p->begun && is_out(m, host, (int)(p->sent % WINDOW))) {
        moved = true;
        sw_mutex_lock(&m->lock);
        p->sent++;
        sw_mutex_unlock(&m->lock);

        if (enter(m, host)) {
            m->up->sent(m->up->user, host);
            leave(m);
        }
    }

    return moved;
}

static void say_bye(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];

    p->bye_said = true;
    sw_frame_put64(p->bye_out, p->sent);
    sw_frame_put64(p->bye_out + 8, p->begun);
    post_send(m, host, BYE_OUT, TAG_BYE, p->bye_out, BYE_BYTES);
}

/* ---- Receiving ---- */

/* After a bye: has all come that was to come? */
static void check_bye(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];
    struct sw_err why;

    if (!p->bye_came)
        return;

    if (p->received >= p->whole) {
        sw_err_set(&why, SW_ERR_IO, "the connection is closed");
        tell_failed(m, host, &why);
    }

    /* No head follows; that which said that the host is here may be complete, which is fine. */
    MPI_Request *head = request_of(m, host, HEAD_IN);
    if (p->received == p->total && *head != MPI_REQUEST_NULL) {
        note_error(m, host, MPI_Cancel(head));
        note_error(m, host, MPI_Wait(head, MPI_STATUS_IGNORE));
    }
}

static void take_bye(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];

    p->whole = sw_frame_get64(p->bye_in);
    p->total = sw_frame_get64(p->bye_in + 8);
    sw_mutex_lock(&m->lock);
    p->bye_came = p->here = true;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);

    check_bye(m, host);
}

static void await_head(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];

    if (p->received < p->total)
        post_receive(m, host, HEAD_IN, p->head, sizeof p->head);
}

static void take_here(struct sw_mpi_link *m, int host)
{
    sw_mutex_lock(&m->lock);
    m->peers[host].here = true;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);

    await_head(m, host);
}

/* A chunk is complete. */
static void next_chunk(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];

    p->received++;
    await_head(m, host);
    check_bye(m, host);
}

/* The bytes of a chunk are in place; in a call. An error means that the fabric has dropped the
 * host: there is nothing left to do. */
static void end_chunk(struct sw_mpi_link *m, int host)
{
    if (m->up->end(m->up->user, host) != SW_OK)
        return;
}

static void take_head(struct sw_mpi_link *m, int host, int count)
{
    struct sw_mpi_peer *p = &m->peers[host];
    struct sw_fabric_frame frame;
    struct sw_err err;
    void *to = NULL;
    size_t bytes;

    if (count == 0) {
        take_here(m, host);
        return;
    }

    int rc = count < SW_FRAME_HEAD ? SW_ERR_FORMAT : sw_frame_parse(p->head, &frame, &err);
    int rest = rc != SW_OK || frame.bytes > INLINE ? 0 : (int)frame.bytes;
    if (rc != SW_OK || count != SW_FRAME_HEAD + rest) {
        sw_err_set(&p->why, SW_ERR_FORMAT, "it sent a message of %d bytes that is no chunk", count);
        return;
    }

    bool called = p->received < p->whole && enter(m, host);
    p->placed = called && m->up->begin(m->up->user, host, p->head, &to, &bytes) == SW_OK;

    if (frame.bytes > INLINE)
        post_receive(m, host, BODY_IN, p->placed ? to : p->scratch, (int)frame.bytes);
    if (p->placed && rest > 0)
        memcpy(to, p->head + SW_FRAME_HEAD, (size_t)rest);
    if (p->placed && frame.bytes <= INLINE)
        end_chunk(m, host);
    if (called)
        leave(m);

    if (frame.bytes <= INLINE)
        next_chunk(m, host);
}

static void take_body(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];

    if (p->placed && p->received < p->whole && enter(m, host)) {
        end_chunk(m, host);
        leave(m);
    }

    next_chunk(m, host);
}

/* ---- Rounds ---- */

static bool is_null(struct sw_mpi_link *m, int host, int first, int count)
{
    for (int i = first; i < first + count; i++)
        if (*request_of(m, host, i) != MPI_REQUEST_NULL)
            return false;
    return true;
}

/* What the thread does for a host before it looks what has come. */
static bool serve(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];
    bool moved = false;

    sw_mutex_lock(&m->lock);
    bool fresh = p->used && !p->active, dropped = p->dropped;
    uint64_t pushed = p->pushed;
    p->active = p->used;
    sw_mutex_unlock(&m->lock);

    if (!p->active)
        return false;
    if (p->why.code != SW_OK) {
        tell_failed(m, host, &p->why);
        return false;
    }
    if (fresh) {
        await_head(m, host);
        post_receive(m, host, BYE_IN, p->bye_in, BYE_BYTES);
        post_send(m, host, HERE_OUT, TAG_HEAD, NULL, 0);
    }

    for (; p->begun < pushed && enter(m, host); moved = true) {
        begin_chunk(m, host);
        leave(m);
    }
    if (dropped && !p->bye_said)
        say_bye(m, host);

    return moved;
}

/* Notes what MPI does not use any more. */
static void settle(struct sw_mpi_link *m, int host)
{
    struct sw_mpi_peer *p = &m->peers[host];

    if (!p->active || !p->bye_said)
        return;

    bool quiet = is_null(m, host, BYE_OUT, REQUESTS - BYE_OUT) &&
                 (!p->placed || is_null(m, host, BODY_IN, 1));
    bool over = p->received == p->total && is_null(m, host, 0, REQUESTS);

    sw_mutex_lock(&m->lock);
    if (quiet != p->quiet || over)
        sw_cond_broadcast(&m->changed);
    p->quiet = quiet;
    p->used = p->active = !over;
    sw_mutex_unlock(&m->lock);
}

static void take(struct sw_mpi_link *m, int host, int which, const MPI_Status *status)
{
    int count;

    if (which == BYE_IN) {
        take_bye(m, host);
    } else if (which == BODY_IN) {
        take_body(m, host);
    } else if (which == HEAD_IN) {
        MPI_Get_count(status, MPI_BYTE, &count);
        take_head(m, host, count);
    }
}

/* Takes what is complete. A bye comes first, because it says which chunks are whole. */
static bool take_complete(struct sw_mpi_link *m)
{
    int count = 0;
    int rc = MPI_Testsome(m->size * REQUESTS, m->request, &count, m->done, m->status);

    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS)
        for (int host = 0; host < m->size; host++)
            note_error(m, host, rc);
    if (count == MPI_UNDEFINED || (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS))
        return false;

    for (int byes = 1; byes >= 0; byes--)
        for (int i = 0; i < count; i++) {
            int host = m->done[i] / REQUESTS, which = m->done[i] % REQUESTS;
            int code = rc == MPI_ERR_IN_STATUS ? m->status[i].MPI_ERROR : MPI_SUCCESS;
            if ((which == BYE_IN) != byes)
                continue;

            note_error(m, host, code);
            if (code == MPI_SUCCESS)
                take(m, host, which, &m->status[i]);
        }

    return count > 0;
}

bool sw_mpi_round(struct sw_mpi_link *m)
{
    bool moved = false;

    for (int host = 0; host < m->size; host++)
        moved = serve(m, host) || moved;

    moved = take_complete(m) || moved;

    for (int host = 0; host < m->size; host++) {
        moved = tell_sent(m, host) || moved;
        settle(m, host);
    }

    return moved;
}

void sw_mpi_pause(struct sw_mpi_link *m, int rounds)
{
    bool awaited = false;

    if (enter(m, m->own)) {
        awaited = m->up->awaited(m->up->user);
        leave(m);
    }

    if (awaited)
        sw_thread_yield();
    else
        sw_thread_nap(rounds > 1000 ? 2 * NAP_NS : NAP_NS);
}
