/* The measurement of links. The thread of the caller sends and waits; threads of the fabric answer
 * what comes and count it. A load is several messages that share one buffer; the receiver answers
 * the last one. */
#include "run/link_test.h"

#include "base/os.h"
#include "base/str.h"
#include "thread/thread.h"
#include <string.h>

enum { LOAD = 1, ANSWER, ROUND, FIGURES, ROW };
enum {
    PIECE_BYTES = 4 << 20,
    FIRST_BYTES = 16 << 10, /* of loads that grow */
    GROWTH = 4,
    PINGS = 20,
    LEAVE_MS = 5000,
    CLOCK_MS = 3000,
    NAP_MS = 100,
};

struct test {
    const struct sw_link_test_args *args;
    int hosts, own;
    struct sw_fabric *fabric; /* owned */
    char *out, *in;           /* owned [PIECE_BYTES] */
    struct sw_link *links;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    int answers[SW_MOST_HOSTS], rounds[SW_MOST_HOSTS], rows[SW_MOST_HOSTS]; /* that came */
    struct sw_err lost;                                                     /* code 0: none */
};

static size_t row_bytes(const struct test *t)
{
    return (size_t)t->hosts * sizeof *t->links;
}

/* ---- What comes; by threads of the fabric ---- */

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct test *t = user;

    if (tag->kind == LOAD && bytes <= PIECE_BYTES)
        *to = t->in;
    else if (tag->kind == FIGURES && bytes == sizeof *t->args->figures && t->args->figures)
        *to = t->args->figures[from];
    else if (tag->kind == ROW && bytes == row_bytes(t))
        *to = &t->links[from * t->hosts];
    else if (bytes > 0)
        return sw_err_set(err, SW_ERR_FORMAT, "a message that is not of a test of links");
    return SW_OK;
}

static int answer(struct test *t, int to, struct sw_err *err)
{
    const struct sw_fabric_tag tag = {.kind = ANSWER};
    return sw_fabric_send(t->fabric, to, &tag, NULL, 0, NULL, NULL, err);
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct test *t = user;

    if (tag->kind == LOAD)
        return tag->item == 0 ? answer(t, from, err) : SW_OK; /* 0: the last one */

    sw_mutex_lock(&t->lock);
    t->answers[from] += tag->kind == ANSWER;
    t->rounds[from] += tag->kind == ROUND;
    t->rows[from] += tag->kind == ROW;
    sw_cond_broadcast(&t->changed);
    sw_mutex_unlock(&t->lock);
    return SW_OK;
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct test *t = user;

    sw_mutex_lock(&t->lock);
    if (t->lost.code == SW_OK)
        t->lost = *why;
    sw_cond_broadcast(&t->changed);
    sw_mutex_unlock(&t->lock);
}

/* ---- What is sent ---- */

/* Waits until the counts of these hosts have reached `least`. */
static int wait_for(struct test *t, const int *counts, int first, int last, int least,
                    struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&t->lock);
    for (int i = first; i <= last; i++)
        while (i != t->own && counts[i] < least && t->lost.code == SW_OK)
            sw_cond_wait(&t->changed, &t->lock);
    if (t->lost.code != SW_OK) {
        *err = t->lost;
        rc = t->lost.code;
    }
    sw_mutex_unlock(&t->lock);

    return rc;
}

static int send_to(struct test *t, int to, int kind, uint32_t item, const void *data, size_t bytes,
                   struct sw_err *err)
{
    /* Answers do not wait for a load in their direction. */
    const struct sw_fabric_tag tag = {
        .kind = (uint16_t)kind, .urgency = kind == LOAD, .item = item};
    return sw_fabric_send(t->fabric, to, &tag, data, bytes, NULL, NULL, err);
}

static int send_to_all(struct test *t, int kind, const void *data, size_t bytes, struct sw_err *err)
{
    for (int i = 0; i < t->hosts; i++) {
        int rc = i == t->own ? SW_OK : send_to(t, i, kind, 0, data, bytes, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Sends bytes, in pieces, and waits for the answer to the last one. Sets *seconds. */
static int send_load(struct test *t, int to, size_t bytes, double *seconds, struct sw_err *err)
{
    const size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    const int pieces = bytes ? (int)((bytes + PIECE_BYTES - 1) / PIECE_BYTES) : 1;

    sw_mutex_lock(&t->lock);
    const int before = t->answers[to];
    sw_mutex_unlock(&t->lock);

    const int64_t begin_ns = sw_os()->monotonic_ns();
    for (int i = pieces - 1; i >= 0; i--) {
        int rc = send_to(t, to, LOAD, (uint32_t)i, bytes ? t->out : NULL, piece, err);
        if (rc != SW_OK)
            return rc;
    }

    int rc = wait_for(t, t->answers, to, to, before + 1, err);
    *seconds = (double)(sw_os()->monotonic_ns() - begin_ns) / 1e9;
    return rc;
}

/* Loads grow, because the rate of a slow link is not known before. The last one counts. */
static int send_growing(struct test *t, int to, struct sw_link *link, struct sw_err *err)
{
    const double most_s = t->args->seconds / (t->hosts - 1);
    double seconds = 0, all_s = 0;
    size_t bytes = FIRST_BYTES;

    for (;; bytes *= GROWTH) {
        int rc = send_load(t, to, bytes, &seconds, err);
        if (rc != SW_OK)
            return rc;

        all_s += seconds;
        link->bytes_per_s = (double)bytes / (seconds > 0 ? seconds : 1e-9);
        if (all_s + GROWTH * seconds > most_s || bytes * GROWTH > t->args->bytes)
            return SW_OK;
    }
}

static int send_all(struct test *t, int to, struct sw_link *link, struct sw_err *err)
{
    const size_t bytes = (t->args->bytes + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
    double seconds = 0;

    int rc = send_load(t, to, PIECE_BYTES, &seconds, err); /* connections become faster with use */
    if (rc == SW_OK)
        rc = send_load(t, to, bytes, &seconds, err);
    if (rc == SW_OK)
        link->bytes_per_s = (double)bytes / (seconds > 0 ? seconds : 1e-9);
    return rc;
}

static int measure(struct test *t, int to, struct sw_err *err)
{
    struct sw_link *link = &t->links[t->own * t->hosts + to];
    double seconds = 0, all_s = 0;

    for (int i = 0; i < PINGS; i++) {
        int rc = send_load(t, to, 0, &seconds, err);
        if (rc != SW_OK)
            return rc;

        all_s += seconds;
        if (i == 0 || seconds < link->round_trip_s)
            link->round_trip_s = seconds;
        if (t->args->seconds > 0 && all_s * (t->hosts - 1) * GROWTH > t->args->seconds)
            break;
    }

    return t->args->seconds > 0 ? send_growing(t, to, link, err) : send_all(t, to, link, err);
}

static int run_rounds(struct test *t, struct sw_err *err)
{
    for (int round = 1; round <= t->hosts; round++) {
        int rc = send_to_all(t, ROUND, NULL, 0, err);
        if (rc == SW_OK)
            rc = wait_for(t, t->rounds, 0, t->hosts - 1, round, err);
        if (rc == SW_OK && round < t->hosts)
            rc = measure(t, (t->own + round) % t->hosts, err);
        if (rc != SW_OK)
            return rc;
    }

    /* All have measured, so the links between others are not disturbed. */
    int rc = t->args->figures
                 ? send_to_all(t, FIGURES, t->args->figures[t->own], sizeof *t->args->figures, err)
                 : SW_OK;
    if (rc == SW_OK)
        rc = send_to_all(t, ROW, &t->links[t->own * t->hosts], row_bytes(t), err);
    return rc == SW_OK ? wait_for(t, t->rows, 0, t->hosts - 1, 1, err) : rc;
}

/* ---- The whole ---- */

static void read_clocks(const struct test *t, int64_t *offset_ns, int64_t *error_ns)
{
    for (int waited_ms = 0; offset_ns && error_ns; waited_ms += NAP_MS) {
        bool known = true;

        for (int i = 0; i < t->hosts; i++) {
            sw_fabric_clock(t->fabric, i, &offset_ns[i], &error_ns[i]);
            known = known && error_ns[i] >= 0;
        }
        if (known || waited_ms >= CLOCK_MS)
            return;

        sw_thread_nap(NAP_MS * 1000000);
    }
}

static int connect_hosts(struct test *t, const struct sw_bytes *hello, struct sw_err *err)
{
    const struct sw_fabric_args args = {
        .hosts = t->args->hosts,
        .key = t->args->key,
        .hello = sw_bytes_text(hello),
        .hello_bytes = hello->length,
        .connect_ms = t->args->connect_ms,
        .bytes_per_s = t->args->bytes_per_s,
        .log = t->args->log,
        .sink = {.place = place, .arrived = arrived, .lost = lost, .user = t},
        .conf = t->args->conf,
        .clock = t->args->clock,
    };

    t->out = sw_calloc(1, PIECE_BYTES);
    t->in = sw_calloc(1, PIECE_BYTES);
    if (!t->out || !t->in || hello->failed)
        return sw_err_nomem(err, "test of links", PIECE_BYTES);

    memset(t->links, 0, (size_t)t->hosts * row_bytes(t));
    return sw_fabric_open(t->args->engine, &args, &t->fabric, err);
}

int sw_link_test(const struct sw_link_test_args *args, struct sw_link *links, int64_t *offset_ns,
                 int64_t *error_ns, struct sw_err *err)
{
    struct test t = {
        .args = args, .hosts = args->hosts->count, .own = args->hosts->own, .links = links};
    struct sw_bytes hello = {0};
    struct sw_err own;

    err = err ? err : &own;
    sw_mutex_init(&t.lock);
    sw_cond_init(&t.changed);

    sw_bytes_printf(&hello, "%stask=test of links\n", args->hello ? args->hello : "");
    int rc = connect_hosts(&t, &hello, err);
    sw_bytes_fini(&hello);
    if (rc == SW_OK) {
        rc = run_rounds(&t, err);
        if (rc == SW_OK)
            read_clocks(&t, offset_ns, error_ns);
        if (rc == SW_OK)
            rc = sw_fabric_leave(t.fabric, LEAVE_MS, err);
        else
            sw_fabric_abort(t.fabric, err, LEAVE_MS);
    }

    sw_fabric_free(t.fabric);
    sw_free(t.out);
    sw_free(t.in);
    sw_cond_fini(&t.changed);
    sw_mutex_fini(&t.lock);
    return rc;
}

double sw_link_exchange_s(const struct sw_link *links, int hosts, int64_t parameters)
{
    const double bytes = 2.0 * (hosts - 1) / hosts * (double)parameters * sizeof(float);
    double slowest = 0, hops_s = 0;

    for (int i = 0; i < hosts * hosts; i++) {
        if (i / hosts == i % hosts)
            continue;
        if (slowest == 0 || links[i].bytes_per_s < slowest)
            slowest = links[i].bytes_per_s;
        if (links[i].round_trip_s > hops_s)
            hops_s = links[i].round_trip_s;
    }

    return slowest > 0 ? bytes / slowest + hops_s : 0;
}
