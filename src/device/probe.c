/* Probes whether copies and all-reduces of devices are correct, and how fast they are. A copy is
 * surrounded by guard bytes and compared byte by byte, from the streams of both ends; an all-reduce
 * uses small integers, whose sum is exact. A call can hang where hardware or driver are broken:
 * device/probe.h says which threads may call it. */
#include "device/probe.h"

#include "base/os.h"
#include <math.h>
#include <string.h>

enum {
    MAX_BYTES = 16 << 20,
    GUARD_BYTES = 64, /* after a copy: must not change */
    ROUNDS = 3,
    SMALL_BYTES = 4096,
    SMALL_ROUNDS = 20,
};

/* ---- Copies ---- */

struct copies {
    struct sw_device *end[2];      /* source and destination; NULL: the host */
    struct sw_stream *stream[2];   /* owned, of the devices */
    char *device_data[2];          /* owned device memory [bytes] */
    unsigned char *sent, *arrived; /* owned [bytes] */
    size_t bytes;
};

enum { FROM, TO };

static const char *name_of(const struct sw_device *dev)
{
    return dev ? dev->name : "the host";
}

static void fill(unsigned char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = (unsigned char)(seed >> 56);
    }
}

/* Queues the copy under test, on a stream of either device. */
static int queue_copy(struct copies *c, struct sw_stream *by, size_t at, size_t bytes,
                      struct sw_err *err)
{
    if (!c->end[FROM])
        return sw_copy(by, c->device_data[TO] + at, c->sent + at, bytes, err);
    if (!c->end[TO])
        return sw_copy(by, c->arrived + at, c->device_data[FROM] + at, bytes, err);

    return sw_copy_peer(by, c->end[TO], c->device_data[TO] + at, c->end[FROM],
                        c->device_data[FROM] + at, bytes, err);
}

static int copy(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err)
{
    int rc = sw_copy(s, dst, src, bytes, err);
    return rc != SW_OK ? rc : sw_stream_wait(s, err);
}

/* Fills the source with data and the destination with zeros. */
static int prepare(struct copies *c, size_t bytes, uint64_t seed, struct sw_err *err)
{
    fill(c->sent, bytes, seed);
    memset(c->arrived, 0, bytes);

    if (c->end[FROM]) {
        int rc = copy(c->stream[FROM], c->device_data[FROM], c->sent, bytes, err);
        if (rc != SW_OK)
            return rc;
    }

    if (!c->end[TO])
        return SW_OK;

    int rc = sw_fill_zero(c->stream[TO], c->device_data[TO], bytes, err);
    if (rc != SW_OK)
        return rc;

    return sw_stream_wait(c->stream[TO], err);
}

static int fetch(struct copies *c, size_t bytes, struct sw_err *err)
{
    return c->end[TO] ? copy(c->stream[TO], c->arrived, c->device_data[TO], bytes, err) : SW_OK;
}

static int compare(const struct copies *c, size_t at, size_t bytes, size_t all, struct sw_err *err)
{
    for (size_t i = 0; i < all; i++) {
        unsigned char expected = i >= at && i < at + bytes ? c->sent[i] : 0;
        if (c->arrived[i] != expected)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "a copy of %zu bytes from %s to %s was corrupted: byte %zu is %02x, not %02x",
                bytes, name_of(c->end[FROM]), name_of(c->end[TO]), i, c->arrived[i], expected);
    }

    return SW_OK;
}

static int probe_block(struct copies *c, struct sw_stream *by, size_t at, size_t bytes,
                       uint64_t seed, struct sw_err *err)
{
    size_t all = at + bytes + GUARD_BYTES;

    int rc = prepare(c, all, seed, err);
    if (rc != SW_OK)
        return rc;
    rc = queue_copy(c, by, at, bytes, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(by, err);
    if (rc != SW_OK)
        return rc;
    rc = fetch(c, all, err);
    if (rc != SW_OK)
        return rc;

    return compare(c, at, bytes, all, err);
}

static int probe_blocks(struct copies *c, struct sw_err *err)
{
    const struct {
        size_t at, bytes;
    } blocks[] = {{0, 4}, {4, 1000}, {0, SMALL_BYTES}, {12, c->bytes / 7}, {0, c->bytes - 256}};

    for (int by = FROM; by <= TO; by++)
        for (size_t i = 0; c->stream[by] && i < sizeof blocks / sizeof *blocks; i++) {
            int rc = probe_block(c, c->stream[by], blocks[i].at, blocks[i].bytes,
                                 10 * i + (size_t)by, err);
            if (rc != SW_OK)
                return rc;
        }

    return SW_OK;
}

static int time_copy(struct copies *c, size_t bytes, double *ns, struct sw_err *err)
{
    struct sw_stream *by = c->stream[TO] ? c->stream[TO] : c->stream[FROM];
    int64_t began_ns = sw_os()->monotonic_ns();

    int rc = queue_copy(c, by, 0, bytes, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(by, err);
    if (rc != SW_OK)
        return rc;

    *ns = fmin(*ns, (double)(sw_os()->monotonic_ns() - began_ns));
    return SW_OK;
}

static int time_copies(struct copies *c, struct sw_probe_result *out, struct sw_err *err)
{
    double large_ns = INFINITY, small_ns = INFINITY;

    for (int i = 0; i < ROUNDS; i++) {
        int rc = time_copy(c, c->bytes, &large_ns, err);
        if (rc != SW_OK)
            return rc;
    }

    for (int i = 0; i < SMALL_ROUNDS; i++) {
        int rc = time_copy(c, SMALL_BYTES, &small_ns, err);
        if (rc != SW_OK)
            return rc;
    }

    *out = (struct sw_probe_result){(double)c->bytes / large_ns, small_ns * 1e-3};
    return SW_OK;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int init_copies(struct copies *c, struct sw_err *err)
{
    c->bytes = MAX_BYTES;
    for (int i = FROM; i <= TO; i++)
        if (c->end[i])
            c->bytes = smaller(c->bytes, sw_device_bytes_of(c->end[i]).capacity / 8);

    c->sent = sw_calloc(1, c->bytes);
    c->arrived = sw_calloc(1, c->bytes);
    if (!c->sent || !c->arrived)
        return sw_err_nomem(err, "test data for copies", c->bytes);

    for (int i = FROM; i <= TO; i++) {
        void *p;

        if (!c->end[i])
            continue;

        int rc = sw_stream_new(c->end[i], 1, &c->stream[i], err);
        if (rc != SW_OK)
            return rc;
        rc = sw_device_alloc(c->end[i], c->bytes, "test data for copies", &p, err);
        if (rc != SW_OK)
            return rc;

        c->device_data[i] = p;
    }

    return SW_OK;
}

int sw_probe_copies(struct sw_device *from, struct sw_device *to, struct sw_probe_result *out,
                    struct sw_err *err)
{
    struct copies c = {.end = {from, to}};

    *out = (struct sw_probe_result){0};

    int rc = init_copies(&c, err);
    if (rc != SW_OK)
        goto out;
    rc = probe_blocks(&c, err);
    if (rc != SW_OK)
        goto out;

    rc = time_copies(&c, out, err);

out:
    for (int i = FROM; i <= TO; i++)
        sw_stream_free(c.stream[i]);

    for (int i = FROM; i <= TO; i++)
        if (c.end[i])
            sw_device_free(c.end[i], c.device_data[i], c.bytes);

    sw_free(c.sent);
    sw_free(c.arrived);
    return rc;
}

/* ---- Sums ---- */

struct sums {
    struct sw_device *const *devices;
    int count;
    struct sw_collective *library;                 /* owned */
    struct sw_stream *stream[SW_COLLECTIVE_RANKS]; /* owned */
    float *device_data[SW_COLLECTIVE_RANKS];       /* owned device memory [most] */
    float *host;                                   /* owned [most] */
    int64_t max_elements;
};

/* Small integers, whose sum is exact. */
static float test_value(int rank, int64_t i)
{
    return (float)((i * 7 + rank * 13) % 101 - 50);
}

static int run_all_reduce(struct sums *s, int64_t n, struct sw_err *err)
{
    struct sw_err ending;

    int rc = sw_collective_begin(s->library, err);
    if (rc != SW_OK)
        return rc;

    for (int r = 0; r < s->count && rc == SW_OK; r++)
        rc = sw_collective_sum(s->library, r, s->stream[r], s->device_data[r], n, err);

    int ended = sw_collective_end(s->library, &ending);
    if (rc == SW_OK && ended != SW_OK && err)
        *err = ending;
    rc = rc == SW_OK ? ended : rc;
    for (int r = 0; r < s->count && rc == SW_OK; r++)
        rc = sw_stream_wait(s->stream[r], err);

    return rc;
}

static int transfer(struct sums *s, int r, bool in, int64_t n, struct sw_err *err)
{
    size_t bytes = (size_t)n * sizeof(float);

    return in ? copy(s->stream[r], s->device_data[r], s->host, bytes, err)
              : copy(s->stream[r], s->host, s->device_data[r], bytes, err);
}

static int check_sums(struct sums *s, int r, int64_t n, struct sw_err *err)
{
    int rc = transfer(s, r, false, n, err);
    if (rc != SW_OK)
        return rc;

    for (int64_t i = 0; i < n; i++) {
        float expected = 0;

        for (int q = 0; q < s->count; q++)
            expected += test_value(q, i);
        if (s->host[i] != expected)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "an all-reduce over %d devices is wrong on %s: element %lld of %lld is %g, not %g",
                s->count, s->devices[r]->name, (long long)i, (long long)n, (double)s->host[i],
                (double)expected);
    }

    return SW_OK;
}

static int probe_size(struct sums *s, int64_t n, struct sw_probe_result *out, struct sw_err *err)
{
    for (int r = 0; r < s->count; r++) {
        for (int64_t i = 0; i < n; i++)
            s->host[i] = test_value(r, i);

        int rc = transfer(s, r, true, n, err);
        if (rc != SW_OK)
            return rc;
    }

    int64_t began_ns = sw_os()->monotonic_ns();
    int rc = run_all_reduce(s, n, err);
    if (rc != SW_OK)
        return rc;

    double ns = (double)(sw_os()->monotonic_ns() - began_ns);
    for (int r = 0; r < s->count; r++) {
        rc = check_sums(s, r, n, err);
        if (rc != SW_OK)
            return rc;
    }

    out->gb_per_s = fmax(out->gb_per_s, (double)n * sizeof(float) / ns);
    out->latency_us = out->latency_us > 0 ? fmin(out->latency_us, ns * 1e-3) : ns * 1e-3;
    return SW_OK;
}

static int init_sums(struct sums *s, int timeout_ms, struct sw_err *err)
{
    const struct sw_collective_args args = {
        .devices = s->devices, .ranks = s->count, .timeout_ms = timeout_ms};
    const struct sw_collective_ops *ops;

    int rc = sw_device_collectives(s->devices[0], &ops, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_collective_open(ops, &args, &s->library, err);
    if (rc != SW_OK)
        return rc;

    size_t bytes = MAX_BYTES;
    for (int r = 0; r < s->count; r++)
        bytes = smaller(bytes, sw_device_bytes_of(s->devices[r]).capacity / 8);
    s->max_elements = (int64_t)(bytes / sizeof(float));
    bytes = (size_t)s->max_elements * sizeof(float);

    s->host = sw_calloc((size_t)s->max_elements, sizeof *s->host);
    if (!s->host)
        return sw_err_nomem(err, "test data for an all-reduce", bytes);

    for (int r = 0; r < s->count; r++) {
        void *p;

        rc = sw_stream_new(s->devices[r], 1, &s->stream[r], err);
        if (rc != SW_OK)
            return rc;
        rc = sw_device_alloc(s->devices[r], bytes, "test data for an all-reduce", &p, err);
        if (rc != SW_OK)
            return rc;

        s->device_data[r] = p;
    }

    return SW_OK;
}

int sw_probe_allreduce(struct sw_device *const *devices, int count, int timeout_ms,
                       struct sw_probe_result *out, struct sw_err *err)
{
    struct sums s = {.devices = devices, .count = count};

    *out = (struct sw_probe_result){0};

    int rc = init_sums(&s, timeout_ms, err);
    if (rc != SW_OK)
        goto out;

    const int64_t sizes[] = {1, 1000, s.max_elements / 7, s.max_elements};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rc = probe_size(&s, sizes[i], out, err);
        if (rc != SW_OK)
            goto out;
    }

out:
    for (int r = 0; r < count; r++)
        sw_stream_free(s.stream[r]);
    sw_collective_close(s.library);
    for (int r = 0; r < count; r++)
        sw_device_free(devices[r], s.device_data[r], (size_t)s.max_elements * sizeof(float));
    sw_free(s.host);

    return rc;
}
