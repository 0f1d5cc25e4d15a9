/* What arrives from a host. A head is parsed and checked against what the host may send now; then
 * the sink says where the bytes go, or they are a control message and go into a buffer of the peer.
 * Any violation loses the host. Chunks of different urgencies may be interleaved in any way; those
 * of one urgency belong to one message after the other. */
#include "exchange/hosts/fabric_private.h"

#include "exchange/hosts/hello.h"

/* ---- Heads ---- */

static bool is_control(const struct sw_fabric_frame *frame)
{
    return frame->tag.kind >= SW_CONTROL_FIRST;
}

/* Every sign of life counts. SW_ERR_CANCELLED: nothing more is read. */
static int hear(struct sw_fabric *f, int from)
{
    struct sw_peer *p = &f->peers[from];

    sw_mutex_lock(&f->lock);
    p->heard_ns = sw_fabric_now(f);
    int rc = p->lost || f->closed ? SW_ERR_CANCELLED : SW_OK;
    sw_mutex_unlock(&f->lock);

    return rc;
}

static int place_control(struct sw_peer *p, void **to, struct sw_err *err)
{
    static const uint64_t most[SW_CONTROLS] = {[SW_CONTROL_HELLO] = SW_FABRIC_HELLO_BYTES,
                                               [SW_CONTROL_ABORT] = SW_ERR_TEXT - 1,
                                               [SW_CONTROL_ECHO] = 8};
    const struct sw_fabric_frame *frame = &p->frame;
    int k = frame->tag.kind - SW_CONTROL_FIRST;

    if (k >= SW_CONTROLS)
        return sw_err_set(err, SW_ERR_FORMAT, "it sent an unknown control message (kind %d)",
                          frame->tag.kind);
    if (frame->total > most[k] || (k == SW_CONTROL_ECHO && frame->total != most[k]))
        return sw_err_set(err, SW_ERR_FORMAT, "it sent control message %d with %llu bytes", k,
                          (unsigned long long)frame->total);
    if (p->agreed == (k == SW_CONTROL_HELLO))
        return sw_err_set(err, SW_ERR_FORMAT,
                          p->agreed ? "it said hello twice" : "it did not say hello first");

    p->reading = NULL;
    *to = p->control_in;
    return SW_OK;
}

static struct sw_incoming *find(struct sw_peer *p, bool used, uint16_t urgency)
{
    int records = sizeof p->in / sizeof p->in[0];

    for (int i = 0; i < records; i++)
        if (p->in[i].used == used && (!used || p->in[i].tag.urgency == urgency))
            return &p->in[i];
    return NULL;
}

/* The first chunk of a message: asks the sink where it goes. */
static int begin_message(struct sw_fabric *f, int from, struct sw_err *err)
{
    struct sw_peer *p = &f->peers[from];
    const struct sw_fabric_frame *frame = &p->frame;
    const struct sw_fabric_sink *sink = &f->args.sink;
    struct sw_incoming *m = find(p, false, 0);
    void *to = NULL;

    if (!m || find(p, true, frame->tag.urgency))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "it began a message of urgency %d before the last one was complete",
                          frame->tag.urgency);

    int rc = sink->place(sink->user, from, &frame->tag, (size_t)frame->total, &to, err);
    if (rc != SW_OK)
        return rc;
    if (!to && frame->total > 0)
        return sw_err_set(err, SW_ERR_INVALID, "there is no room for a message of %llu bytes",
                          (unsigned long long)frame->total);

    *m = (struct sw_incoming){.tag = frame->tag, .to = to, .total = frame->total, .used = true};
    p->reading = m;
    return SW_OK;
}

static bool is_same(const struct sw_fabric_tag *a, const struct sw_fabric_tag *b)
{
    return a->kind == b->kind && a->urgency == b->urgency && a->item == b->item &&
           a->version == b->version;
}

static int continue_message(struct sw_peer *p, struct sw_err *err)
{
    const struct sw_fabric_frame *frame = &p->frame;
    struct sw_incoming *m = find(p, true, frame->tag.urgency);

    if (!m || !is_same(&m->tag, &frame->tag) || m->total != frame->total ||
        m->next != frame->offset)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "it sent a chunk at offset %llu that does not continue its message",
                          (unsigned long long)frame->offset);

    p->reading = m;
    return SW_OK;
}

static int place_message(struct sw_fabric *f, int from, void **to, struct sw_err *err)
{
    struct sw_peer *p = &f->peers[from];
    const struct sw_fabric_frame *frame = &p->frame;

    if (!p->agreed)
        return sw_err_set(err, SW_ERR_FORMAT, "it did not say hello first");
    if (frame->tag.kind >= SW_FABRIC_KINDS)
        return sw_err_set(err, SW_ERR_FORMAT, "it sent a message of unknown kind %d",
                          frame->tag.kind);

    int rc = frame->offset == 0 ? begin_message(f, from, err) : continue_message(p, err);
    if (rc == SW_OK)
        *to = p->reading->to ? p->reading->to + frame->offset : NULL;
    return rc;
}

/* A host that breaks the rules, or whose message is refused, is lost. */
static int refuse(struct sw_fabric *f, int from, struct sw_err *err)
{
    err->code = SW_ERR_LOST;
    sw_fabric_lose(f, from, err);
    return SW_ERR_LOST;
}

int sw_fabric_begin(void *fabric, int from, const unsigned char head[SW_FRAME_HEAD], void **to,
                    size_t *bytes)
{
    struct sw_fabric *f = fabric;
    struct sw_peer *p = &f->peers[from];
    struct sw_err err;

    int rc = hear(f, from);
    if (rc != SW_OK)
        return rc;
    rc = sw_frame_parse(head, &p->frame, &err);
    if (rc != SW_OK)
        return refuse(f, from, &err);
    rc = is_control(&p->frame) ? place_control(p, to, &err) : place_message(f, from, to, &err);
    if (rc != SW_OK)
        return refuse(f, from, &err);

    *bytes = p->frame.bytes;
    return SW_OK;
}

/* ---- Control messages ---- */

/* With the lock: when all hosts agree, tells all of them so. */
static void agree(struct sw_fabric *f, int from)
{
    f->peers[from].agreed = true;

    for (int i = 0; i < f->count; i++)
        if (i != f->own && !f->peers[i].agreed)
            return;

    for (int i = 0; i < f->count; i++)
        if (i != f->own)
            sw_fabric_want(f, i, SW_CONTROL_READY, 0);
}

/* A host that differs is not lost: it must get the chance to say so itself. */
static void take_hello(struct sw_fabric *f, int from)
{
    const struct sw_peer *p = &f->peers[from];
    const struct sw_hello own = {sw_fabric_name(f, f->own), f->hello, f->hello_bytes};
    const struct sw_hello other = {sw_fabric_name(f, from), (const char *)p->control_in,
                                   p->frame.bytes};
    struct sw_err err;

    int rc = sw_hello_compare(&own, &other, &err);
    if (rc == SW_OK && p->frame.tag.item != (uint32_t)from)
        rc = sw_err_set(&err, SW_ERR_INVALID, "hosts %s and %s: the latter is host %lu, not %d",
                        own.host, other.host, (unsigned long)p->frame.tag.item, from);

    sw_mutex_lock(&f->lock);
    if (rc == SW_OK)
        agree(f, from);
    else
        sw_fabric_fail(f, &err);
    sw_mutex_unlock(&f->lock);
}

/* The host ends because of an error. */
static void take_abort(struct sw_fabric *f, int from)
{
    const struct sw_peer *p = &f->peers[from];
    uint64_t code = p->frame.tag.version;
    struct sw_err why = {.code = code > 0 && code <= -SW_ERR_LOST ? -(int)code : SW_ERR_LIBRARY};

    for (uint32_t i = 0; i < p->frame.bytes; i++) {
        unsigned char c = p->control_in[i];
        why.text[i] = (c >= ' ' && c != 127) || c == '\n' ? (char)c : '?';
    }

    sw_fabric_lose(f, from, &why);
}

/* With the lock. A host has left when all that it sent before is here, too. */
static void check_left(struct sw_fabric *f, struct sw_peer *p)
{
    if (p->leaving && p->received >= p->leaves_after)
        p->left = true;
    sw_cond_broadcast(&f->changed);
}

static void take_control(struct sw_fabric *f, int from)
{
    struct sw_peer *p = &f->peers[from];
    enum sw_control_kind kind = p->frame.tag.kind - SW_CONTROL_FIRST;

    if (kind == SW_CONTROL_HELLO) {
        take_hello(f, from);
        return;
    }
    if (kind == SW_CONTROL_ABORT) {
        take_abort(f, from);
        return;
    }

    sw_mutex_lock(&f->lock);

    if (kind == SW_CONTROL_READY) {
        p->ready = true;
        sw_cond_broadcast(&f->changed);
    } else if (kind == SW_CONTROL_BEAT) {
        sw_fabric_want(f, from, SW_CONTROL_ECHO, p->frame.tag.version);
    } else if (kind == SW_CONTROL_ECHO) {
        sw_fabric_sample(f, from, (int64_t)p->frame.tag.version,
                         (int64_t)sw_frame_get64(p->control_in));
    } else {
        p->leaving = true;
        p->leaves_after = p->frame.tag.version;
        check_left(f, p);
    }

    sw_mutex_unlock(&f->lock);
}

/* ---- Complete chunks ---- */

static void count_received(struct sw_fabric *f, struct sw_peer *p, bool complete)
{
    struct sw_traffic *t = &p->traffic[p->frame.tag.kind];

    sw_mutex_lock(&f->lock);
    t->received_bytes += p->frame.bytes;
    t->received_messages += complete;
    p->received += complete;
    check_left(f, p);
    sw_mutex_unlock(&f->lock);
}

static int take_chunk(struct sw_fabric *f, int from, struct sw_err *err)
{
    struct sw_peer *p = &f->peers[from];
    const struct sw_fabric_sink *sink = &f->args.sink;
    struct sw_incoming *m = p->reading;
    int rc = SW_OK;

    m->next += p->frame.bytes;

    bool complete = m->next == m->total;
    if (complete) {
        m->used = false;
        rc = sink->arrived(sink->user, from, &m->tag, m->to, (size_t)m->total, err);
    }

    count_received(f, p, complete);
    return rc;
}

int sw_fabric_end(void *fabric, int from)
{
    struct sw_fabric *f = fabric;
    struct sw_err err;

    int rc = hear(f, from);
    if (rc != SW_OK)
        return rc;

    if (!f->peers[from].reading) {
        take_control(f, from);
        return hear(f, from); /* an abort ends the reading */
    }

    rc = take_chunk(f, from, &err);
    return rc == SW_OK ? SW_OK : refuse(f, from, &err);
}
