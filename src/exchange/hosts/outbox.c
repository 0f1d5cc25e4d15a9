/* What is to be sent to a host, and in which order. Control messages go first; then a heap gives
 * the message of the smallest urgency, of these the one that was begun, or else has the largest
 * change, or else is the oldest, and its next chunk is pushed. So a message that is more urgent
 * overtakes between two chunks of another, which goes on afterwards.
 * At most SW_FABRIC_BEGUN messages of several chunks are begun, because the receiver keeps a record
 * of each.
 *
 * With a limit of the throughput (pace.c) the choice is made when the time of a chunk has come.
 *
 * One thread at a time pushes chunks to a host, whoever has a reason: a sender, or the engine that
 * has room again. Others ask it to look again, and go on. */
#include "exchange/hosts/fabric_private.h"

/* ---- The heap ---- */

static bool goes_before(const struct sw_outgoing *a, const struct sw_outgoing *b)
{
    if (a->tag.urgency != b->tag.urgency)
        return a->tag.urgency < b->tag.urgency;
    if (a->picked != b->picked)
        return a->picked;
    if (a->tag.change != b->tag.change)
        return a->tag.change > b->tag.change;
    return a->number < b->number;
}

static void heap_add(struct sw_peer *p, int message)
{
    int at = p->heap_count++;

    while (at > 0 && goes_before(&p->out[message], &p->out[p->heap[(at - 1) / 2]])) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }

    p->heap[at] = message;
}

/* Takes out the message at a place of the heap: the last one fills its place, and then moves up or
 * down. */
static void heap_remove(struct sw_peer *p, int at)
{
    int moved = p->heap[--p->heap_count];

    if (at == p->heap_count)
        return;

    while (at > 0 && goes_before(&p->out[moved], &p->out[p->heap[(at - 1) / 2]])) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }

    for (int child = 2 * at + 1; child < p->heap_count; child = 2 * at + 1) {
        if (child + 1 < p->heap_count &&
            goes_before(&p->out[p->heap[child + 1]], &p->out[p->heap[child]]))
            child++;
        if (!goes_before(&p->out[p->heap[child]], &p->out[moved]))
            break;

        p->heap[at] = p->heap[child];
        at = child;
    }

    p->heap[at] = moved;
}

/* The place in the heap of the message whose chunk is next; -1: there is none. */
static int next_message(const struct sw_peer *p)
{
    const struct sw_outgoing *m = p->out;
    int best = -1;

    if (p->heap_count == 0)
        return -1;
    if (p->begun < SW_FABRIC_BEGUN || m[p->heap[0]].offset > 0 ||
        m[p->heap[0]].bytes <= SW_FABRIC_CHUNK)
        return 0;

    for (int i = 0; i < p->heap_count; i++)
        if (m[p->heap[i]].offset > 0 &&
            (best < 0 || goes_before(&m[p->heap[i]], &m[p->heap[best]])))
            best = i;

    return best;
}

/* ---- Chunks ---- */

/* Picks a control message that waits, unless the engine still has the one before. */
static bool pick_control(struct sw_fabric *f, struct sw_peer *p, struct sw_fabric_frame *frame,
                         const void **data)
{
    int k = 0;

    while (k < SW_CONTROLS && (!p->control[k].wanted || p->control[k].pushed))
        k++;
    if (k == SW_CONTROLS)
        return false;

    *frame = (struct sw_fabric_frame){.tag = {.kind = (uint16_t)(SW_CONTROL_FIRST + k),
                                              .item = (uint32_t)f->own,
                                              .version = p->control[k].version}};
    *data = NULL;

    if (k == SW_CONTROL_HELLO) {
        *data = f->hello;
        frame->total = f->hello_bytes;
    } else if (k == SW_CONTROL_ABORT) {
        *data = f->abort.text;
        frame->total = strlen(f->abort.text);
    } else if (k == SW_CONTROL_ECHO) {
        sw_frame_put64(p->echo, (uint64_t)sw_fabric_wall(f));
        *data = p->echo;
        frame->total = sizeof p->echo;
    } else if (k == SW_CONTROL_BEAT) {
        frame->tag.version = (uint64_t)sw_fabric_now(f);
    }

    frame->bytes = (uint32_t)frame->total;
    sw_fabric_charge(f, frame->bytes);
    p->control[k].wanted = false;
    p->control[k].pushed = true;
    p->pushed[(p->oldest + p->pushed_count++) % SW_FABRIC_WINDOW] =
        (struct sw_pushed){.message = -1 - k, .last = true};

    return true;
}

static bool pick_message(struct sw_fabric *f, struct sw_peer *p, struct sw_fabric_frame *frame,
                         const void **data)
{
    int at = next_message(p);

    if (at < 0 || !sw_fabric_may_send(f))
        return false;

    int message = p->heap[at];
    struct sw_outgoing *m = &p->out[message];
    *frame = (struct sw_fabric_frame){.tag = m->tag,
                                      .total = m->bytes,
                                      .offset = m->offset,
                                      .bytes = sw_frame_chunk(m->bytes, m->offset)};
    *data = m->bytes ? m->data + m->offset : NULL;
    sw_fabric_charge(f, frame->bytes);

    bool first = m->offset == 0, last = m->offset + frame->bytes == m->bytes;
    m->picked = true; /* it stays in its place: it was the first of its urgency */
    m->offset += frame->bytes;
    p->begun += (first && !last) - (last && !first);
    if (last)
        heap_remove(p, at);

    p->pushed[(p->oldest + p->pushed_count++) % SW_FABRIC_WINDOW] =
        (struct sw_pushed){.message = message, .last = last};

    return true;
}

/* Takes back the chunk that was picked last, since the engine has no room for it. */
static void put_back(struct sw_fabric *f, struct sw_peer *p, const struct sw_fabric_frame *frame)
{
    sw_fabric_refund(f, frame->bytes);

    const struct sw_pushed *c = &p->pushed[(p->oldest + --p->pushed_count) % SW_FABRIC_WINDOW];

    if (c->message < 0) {
        p->control[-1 - c->message].wanted = true;
        p->control[-1 - c->message].pushed = false;
        return;
    }

    bool first = frame->offset == 0;
    p->out[c->message].offset = frame->offset;
    p->begun -= (first && !c->last) - (c->last && !first);
    if (c->last)
        heap_add(p, c->message);
}

static void count_sent(struct sw_peer *p, const struct sw_fabric_frame *frame)
{
    if (frame->tag.kind >= SW_FABRIC_KINDS)
        return;

    struct sw_traffic *t = &p->traffic[frame->tag.kind];
    t->sent_bytes += frame->bytes;
    t->sent_messages += frame->offset + frame->bytes == frame->total;
}

static void push_chunks(struct sw_fabric *f, int to)
{
    struct sw_peer *p = &f->peers[to];
    struct sw_fabric_frame frame;
    const void *data;

    /* A closed fabric sends nothing but why it ends. */
    while (
        f->link && !p->lost && p->pushed_count < SW_FABRIC_WINDOW &&
        (pick_control(f, p, &frame, &data) || (!f->closed && pick_message(f, p, &frame, &data)))) {
        sw_mutex_unlock(&f->lock);
        int rc = f->engine->push(f->link, to, &frame, data);
        sw_mutex_lock(&f->lock);

        if (rc != SW_OK) {
            put_back(f, p, &frame);
            return;
        }

        count_sent(p, &frame);
    }
}

void sw_fabric_pump(struct sw_fabric *f, int to)
{
    struct sw_peer *p = &f->peers[to];

    if (p->pumping) {
        p->again = true;
        return;
    }

    p->pumping = true;

    do {
        p->again = false;
        push_chunks(f, to);
    } while (p->again);

    p->pumping = false;
    sw_fabric_settle(f, to);
}

/* ---- Messages ---- */

void sw_fabric_want(struct sw_fabric *f, int to, enum sw_control_kind kind, uint64_t version)
{
    struct sw_control_slot *slot = &f->peers[to].control[kind];

    if (f->peers[to].lost)
        return;

    slot->wanted = true;
    slot->version = version;
    sw_fabric_pump(f, to);
}

int sw_fabric_queue(struct sw_fabric *f, int to, const struct sw_outgoing *m)
{
    struct sw_peer *p = &f->peers[to];

    if (p->free_count == 0)
        return SW_ERR_BUSY;

    int message = p->free_list[--p->free_count];
    p->out[message] = *m;
    p->out[message].number = p->numbers++;
    p->out[message].used = true;
    heap_add(p, message);
    sw_fabric_pump(f, to);

    return SW_OK;
}

/* Frees a message whose last chunk is out, and says so. */
static void finish(struct sw_fabric *f, struct sw_peer *p, int message)
{
    struct sw_outgoing m = p->out[message];

    p->out[message].used = false;
    p->free_list[p->free_count++] = message;
    if (!m.done)
        return;

    sw_mutex_unlock(&f->lock);
    m.done(m.user, SW_OK);
    sw_mutex_lock(&f->lock);
}

void sw_fabric_pace(void *fabric)
{
    struct sw_fabric *f = fabric;

    sw_mutex_lock(&f->lock);
    __atomic_store_n(&f->paced_ns, INT64_MAX, __ATOMIC_RELAXED);

    /* One chunk can exhaust the limit: the next time the host after its receiver comes first. */
    for (int i = 0, first = f->turn; i < f->count; i++) {
        int to = (first + i) % f->count;
        int64_t before_ns = f->bucket.free_ns;

        if (to == f->own)
            continue;
        sw_fabric_pump(f, to);
        if (f->bucket.free_ns > before_ns)
            f->turn = to + 1;
    }

    sw_mutex_unlock(&f->lock);
}

void sw_fabric_sent(void *fabric, int to)
{
    struct sw_fabric *f = fabric;
    struct sw_peer *p = &f->peers[to];

    sw_mutex_lock(&f->lock);

    if (p->pushed_count > 0) {
        struct sw_pushed c = p->pushed[p->oldest];
        p->oldest = (p->oldest + 1) % SW_FABRIC_WINDOW;
        p->pushed_count--;

        if (c.message < 0)
            p->control[-1 - c.message].pushed = false;
        else if (c.last)
            finish(f, p, c.message);
    }

    sw_fabric_pump(f, to);
    sw_cond_broadcast(&f->changed);
    sw_mutex_unlock(&f->lock);
}
