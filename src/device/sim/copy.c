/* Copies and host functions. When a copy runs, its destination is first filled with signaling NaN
 * and then written, so that a premature reader gets old data or NaN. */
#include "base/os.h"
#include "device/sim/memory.h"
#include "device/sim/stream.h"
#include <string.h>

enum { CORRUPT_MIN_BYTES = 256 };

static const char *const copy_pointers[] = {"dst", "src", NULL};

/* Resolves the pointer of one side: memory of a device, or of the host, which is checked just
 * before it is used. */
static int resolve_side(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, int i,
                        struct sw_sim_device *device, void **where, struct sw_err *err)
{
    if (device)
        return sw_sim_reach(device, copy_pointers[i], op->p[i], op->bytes[i], &op->block[i],
                            &where[i], err);

    where[i] = op->p[i];
    if (!on_thread)
        return SW_OK;

    return sw_sim_reach_host(s->device, copy_pointers[i], op->p[i], op->bytes[i], err);
}

static int resolve(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, void **where,
                   struct sw_err *err)
{
    int rc = resolve_side(s, op, on_thread, SW_SIM_DST, op->u.copy.dst, where, err);
    if (rc != SW_OK)
        return rc;
    return resolve_side(s, op, on_thread, SW_SIM_SRC, op->u.copy.src, where, err);
}

static void fill_nan(char *dst, size_t bytes)
{
    static const uint32_t signalling = 0x7fa00000u;
    for (; bytes >= sizeof signalling; bytes -= sizeof signalling, dst += sizeof signalling)
        memcpy(dst, &signalling, sizeof signalling);
    memcpy(dst, &signalling, bytes);
}

static int move(struct sw_sim_stream *s, const struct sw_sim_op *op, struct sw_err *err)
{
    const struct sw_sim_copy *c = &op->u.copy;

    if (atomic_load(&s->cancelled))
        return sw_err_set(err, SW_ERR_CANCELLED, "cancelled");
    if (c->rows == 1)
        return sw_copy(s->cpu, op->p[SW_SIM_DST], op->p[SW_SIM_SRC], c->width, err);

    return sw_copy_2d(s->cpu,
                      &(struct sw_copy_2d){op->p[SW_SIM_DST], c->dst_pitch, op->p[SW_SIM_SRC],
                                           c->src_pitch, c->width, c->rows},
                      err);
}

/* Corrupts a copy that is not small, as a bad peer link does, by flipping a bit of the last byte.
 */
static void corrupt(const struct sw_sim_op *op)
{
    char *dst = op->p[SW_SIM_DST];
    if (op->bytes[SW_SIM_DST] >= CORRUPT_MIN_BYTES)
        dst[op->bytes[SW_SIM_DST] - 1] ^= 1;
}

/* Runs a copy. Moving the bytes takes about as long as filling, and is part of the time of the
 * link. */
static int run_copy(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    const struct sw_sim_copy *c = &op->u.copy;
    const struct sw_sim_conf *conf = &s->device->conf;
    int64_t began_ns = sw_os()->monotonic_ns(), end_ns = began_ns;
    bool direct = sw_sim_link_direct(s->device, c->dst, c->src);
    if (direct && conf->peer == SW_SIM_PEER_HANG)
        return sw_sim_stream_hang(s, err);

    if (c->dst != c->src)
        end_ns = sw_sim_link_take(s->device, c->dst, c->src, c->width * (size_t)c->rows, began_ns);
    for (int64_t r = 0; r < c->rows; r++)
        fill_nan((char *)op->p[SW_SIM_DST] + (size_t)r * c->dst_pitch, c->width);

    int64_t filled_ns = sw_os()->monotonic_ns();
    if (conf->copy_delay_us > 0)
        sw_sim_stream_sleep(s, filled_ns + conf->copy_delay_us * 1000);
    sw_sim_stream_sleep(s, end_ns - (filled_ns - began_ns));

    int rc = move(s, op, err);
    if (rc == SW_OK && direct && conf->peer == SW_SIM_PEER_CORRUPT)
        corrupt(op);
    sw_sim_stream_sleep(s, end_ns);

    return rc;
}

#define COPY_TYPE(id)                                                                              \
    static const struct sw_sim_op_type id##_type = {.name = #id,                                   \
                                                    .pointers = copy_pointers,                     \
                                                    .counted = true,                               \
                                                    .moves = true,                                 \
                                                    .resolve = resolve,                            \
                                                    .run = run_copy}
COPY_TYPE(copy);
COPY_TYPE(copy_2d);
COPY_TYPE(copy_peer);

static bool overlap(const struct sw_sim_op *op)
{
    uintptr_t dst = (uintptr_t)op->p[SW_SIM_DST], src = (uintptr_t)op->p[SW_SIM_SRC];
    return dst < src + op->bytes[SW_SIM_SRC] && src < dst + op->bytes[SW_SIM_DST];
}

/* The rows of a 2-D copy may interleave, so that only single ones are checked for overlap. */
static int push_copy(struct sw_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_copy *c = &op->u.copy;
    if (c->rows < 0 || (c->rows > 1 && (c->dst_pitch < c->width || c->src_pitch < c->width)))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: %s: %lld rows of %zu bytes do not fit pitches of %zu and %zu bytes",
                          s->dev->name, op->type->name, (long long)c->rows, c->width, c->dst_pitch,
                          c->src_pitch);

    if (c->rows > 0 && c->width > 0) {
        op->bytes[SW_SIM_DST] = (size_t)(c->rows - 1) * c->dst_pitch + c->width;
        op->bytes[SW_SIM_SRC] = (size_t)(c->rows - 1) * c->src_pitch + c->width;
    }

    if (c->rows == 1 && c->dst == c->src && overlap(op))
        return sw_err_set(err, SW_ERR_INVALID, "%s: %s: dst and src overlap", s->dev->name,
                          op->type->name);

    return sw_sim_push(s, op, err);
}

/* A copy between this device and the host: an address outside the device is host memory. */
static int copy_with_host(struct sw_stream *s, const struct sw_sim_op_type *type, void *dst,
                          const void *src, struct sw_sim_copy c, struct sw_err *err)
{
    struct sw_sim_device *d = sw_sim_device_of(s->dev);
    struct sw_sim_op op = {.type = type, .p = {dst, (void *)src}, .written = 1u << SW_SIM_DST};

    c.dst = sw_sim_is_mine(d, dst) ? d : NULL;
    c.src = sw_sim_is_mine(d, src) ? d : NULL;
    op.u.copy = c;
    if (!c.dst && !c.src && c.width > 0 && c.rows > 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: %s: neither dst (%p) nor src (%p) is memory of %s", s->dev->name,
                          type->name, dst, src, s->dev->name);

    return push_copy(s, &op, err);
}

int sw_sim_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err)
{
    return copy_with_host(s, &copy_type, dst, src, (struct sw_sim_copy){.width = bytes, .rows = 1},
                          err);
}

int sw_sim_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err)
{
    return copy_with_host(s, &copy_2d_type, c->dst, c->src,
                          (struct sw_sim_copy){.dst_pitch = c->dst_pitch,
                                               .src_pitch = c->src_pitch,
                                               .width = c->width,
                                               .rows = c->rows},
                          err);
}

/* Stores the sim device in *out, or NULL for a device with host memory; false if it is neither. */
static bool side_of(struct sw_device *dev, struct sw_sim_device **out)
{
    /* Compared by function, since a test may have wrapped the table. */
    *out = dev->ops->copy_peer == sw_sim_copy_peer ? sw_sim_device_of(dev) : NULL;
    return *out || dev->host_memory;
}

int sw_sim_copy_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                     struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err)
{
    struct sw_sim_op op = {
        .type = &copy_peer_type, .p = {dst, (void *)src}, .written = 1u << SW_SIM_DST};
    struct sw_sim_copy *c = &op.u.copy;

    *c = (struct sw_sim_copy){.width = bytes, .rows = 1};
    if (!side_of(dst_dev, &c->dst) || !side_of(src_dev, &c->src) ||
        (dst_dev != s->dev && src_dev != s->dev))
        return sw_err_set(err, SW_ERR_INVALID, "%s: copy_peer: cannot copy from %s to %s",
                          s->dev->name, src_dev->name, dst_dev->name);

    return push_copy(s, &op, err);
}

/* ---- Host functions ---- */

static int run_call(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    op->u.call.fn(op->u.call.user);
    return SW_OK;
}

static const struct sw_sim_op_type call_type = {.name = "call", .run = run_call};

int sw_sim_call(struct sw_stream *s, void (*fn)(void *user), void *user, struct sw_err *err)
{
    const struct sw_sim_op op = {.type = &call_type, .u.call = {fn, user}};
    return sw_sim_push(s, &op, err);
}
