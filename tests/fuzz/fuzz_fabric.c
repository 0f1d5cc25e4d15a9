/* Frames from two other hosts that may send anything: whatever comes, every byte goes where the
 * sink said, a message is complete once, nothing follows the loss of a host, and what a head says
 * is checked. Input: frames, each an operation and its data:
 *
 *     bits 0     which of the two hosts sends it
 *     bits 1..7  0: the 40 bytes of a head follow
 *                else: 5 bytes follow, of which a head is made that may be right: kind, urgency,
 *                version, chunks of the message (bits 0 to 1) and the bytes of its last (bits 2 to
 *                7), the chunk. Bit 1: the kind is a control message; bit 2: the offset is wrong */
#include "base/os.h"
#include "exchange/hosts/fabric.h"
#include "thread/thread.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { HOSTS = 3, MOST = 3 * SW_FABRIC_CHUNK + 64, URGENCIES = 4, CONTROL = 0xff00 };

static unsigned char room[HOSTS][URGENCIES][MOST];
static const struct sw_fabric_wire *wire;
static bool lost[HOSTS];

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* ---- An engine that answers a hello, and then says nothing by itself ---- */

static void say(int from, int kind, const void *data, size_t bytes)
{
    unsigned char head[SW_FRAME_HEAD];
    const struct sw_fabric_frame frame = {
        .tag = {.kind = (uint16_t)(CONTROL + kind), .item = (uint32_t)from},
        .total = bytes,
        .bytes = (uint32_t)bytes};
    size_t room_bytes;
    void *to;
    sw_frame_write(&frame, head);
    if (wire->begin(wire->user, from, head, &to, &room_bytes) != SW_OK)
        return;
    demand(room_bytes == bytes);
    if (bytes > 0)
        memcpy(to, data, bytes);
    demand(wire->end(wire->user, from) == SW_OK);
}

static int open_stub(const struct sw_fabric_wire *up, void **link, struct sw_err *err)
{
    wire = up;
    *link = room;
    return SW_OK;
}

static int push(void *link, int to, const struct sw_fabric_frame *head, const void *data)
{
    int kind = head->tag.kind - CONTROL;
    if (kind == 0 || kind == 1) /* hello, ready */
        say(to, kind, data, head->bytes);
    wire->sent(wire->user, to);
    return SW_OK;
}

static void drop(void *link, int host)
{
}

static void close_stub(void *link)
{
}

static const char *name(char *out, size_t bytes)
{
    return out;
}

static const struct sw_fabric_engine stub = {.abi = SW_FABRIC_ABI,
                                             .name = name,
                                             .open = open_stub,
                                             .push = push,
                                             .drop = drop,
                                             .close = close_stub};

/* ---- A clock that stands ---- */

static int64_t now(void *user)
{
    return 1000000000;
}

static const struct sw_fabric_clock stands = {.monotonic_ns = now, .wall_ns = now};

/* ---- The sink ---- */

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    demand(!lost[from]);
    if (tag->urgency >= URGENCIES || bytes > MOST)
        return sw_err_set(err, SW_ERR_INVALID, "refused");
    *to = room[from][tag->urgency] + MOST - bytes; /* its end is the array's */
    return SW_OK;
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    demand(!lost[from] && (unsigned char *)data + bytes == room[from][tag->urgency] + MOST);
    return tag->version == 255 ? sw_err_set(err, SW_ERR_INVALID, "not wanted") : SW_OK;
}

static void on_lost(void *user, int host, const struct sw_err *why)
{
    demand(!lost[host] && why->code < 0 && why->text[0]);
    lost[host] = true;
}

/* ---- Frames ---- */

static void make_head(int operation, int from, const uint8_t *in, unsigned char head[SW_FRAME_HEAD])
{
    struct sw_fabric_frame f = {
        .tag = {.kind = in[0], .urgency = in[1] % (URGENCIES + 1), .version = in[2]},
        .total = (uint64_t)(in[3] & 3) * SW_FABRIC_CHUNK + (in[3] >> 2),
        .offset = (uint64_t)in[4] * SW_FABRIC_CHUNK};
    if (operation & 2) {
        f.tag.kind = (uint16_t)(CONTROL + in[0] % 8);
        f.total = in[3];
        f.offset = 0;
    }
    f.offset += operation >> 2 & 1;
    f.tag.item = (uint32_t)from;
    f.bytes = f.offset <= f.total ? sw_frame_chunk(f.total, f.offset) : 0;
    sw_frame_write(&f, head);
}

static void feed(int from, const unsigned char head[SW_FRAME_HEAD])
{
    struct sw_fabric_frame f;
    unsigned char again[SW_FRAME_HEAD];
    size_t bytes;
    void *to;
    bool parses = sw_frame_parse(head, &f, NULL) == SW_OK;
    if (parses) {
        sw_frame_write(&f, again);
        demand(memcmp(head, again, sizeof again) == 0);
    }
    if (wire->begin(wire->user, from, head, &to, &bytes) != SW_OK)
        return;
    demand(parses && bytes == f.bytes);
    if (bytes > 0)
        memset(to, from, bytes);
    if (wire->end(wire->user, from) != SW_OK)
        return;
    demand(!lost[from]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct sw_host names[HOSTS] = {{"ada", NULL}, {"bob", NULL}, {"cyd", NULL}};
    const struct sw_hosts hosts = {.host = names, .count = HOSTS};
    const struct sw_fabric_args args = {
        .hosts = &hosts,
        .hello = "recipe=1\n",
        .hello_bytes = 9,
        .room = 2,
        .sink = {.place = place, .arrived = arrived, .lost = on_lost},
        .clock = &stands};
    struct sw_fabric *f;
    memset(lost, 0, sizeof lost);
    demand(sw_fabric_open(&stub, &args, &f, NULL) == SW_OK);
    for (size_t at = 0; at < bytes;) {
        int operation = data[at] >> 1, from = 1 + (data[at] & 1);
        size_t need = operation ? 5 : SW_FRAME_HEAD;
        unsigned char head[SW_FRAME_HEAD];
        if (bytes - ++at < need)
            break;
        if (operation)
            make_head(operation, from, data + at, head);
        else
            memcpy(head, data + at, sizeof head);
        at += need;
        feed(from, head);
        demand(!lost[from] || !(sw_fabric_alive(f) >> from & 1));
    }
    sw_fabric_free(f);
    return 0;
}
