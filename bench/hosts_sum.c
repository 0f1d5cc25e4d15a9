/* Measures sums over hosts (exchange/hosts/hosts_sum.h) by TCP. Run it once on each host:
 *
 *     hosts_sum HOST HOSTS ADDRESS PORT private|trusted [FLOATS [STEPS]]
 *
 * HOST: this host's number; ADDRESS and PORT: where host 0 listens; FLOATS: of an array, 61 million
 * as AlexNet has them; its items are those of 16 layers. A private network has a key that everybody
 * can read here: it is for measuring alone. Each host prints milliseconds per sum, the best and the
 * median of STEPS (10), and checks what it computed. */
#include "exchange/hosts/hosts_sum.h"
#include "base/os.h"
#include "exchange/hosts/tcp.h"
#include "thread/thread.h"
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 16, MOST_STEPS = 1000 };

struct bench {
    struct sw_mutex lock;
    struct sw_cond changed;
    int summed, lost; /* guarded by lock */
};

static void die(const char *what)
{
    fprintf(stderr, "hosts_sum: %s\n", what);
    exit(1);
}

static void on_summed(void *user, int item, uint64_t version)
{
    struct bench *b = user;
    sw_mutex_lock(&b->lock);
    b->summed++;
    sw_cond_broadcast(&b->changed);
    sw_mutex_unlock(&b->lock);
}

static void on_lost(void *user, int host, const struct sw_err *why)
{
    struct bench *b = user;
    fprintf(stderr, "hosts_sum: %s\n", why->text);
    sw_mutex_lock(&b->lock);
    b->lost++;
    sw_cond_broadcast(&b->changed);
    sw_mutex_unlock(&b->lock);
}

/* Sums all items, the last one first as in backward; returns milliseconds. */
static double step(struct bench *b, struct sw_hosts_sum *s, const struct sw_hosts_sum_item *items,
                   float *x, uint64_t version)
{
    struct sw_err err;
    int64_t begin_ns = sw_os()->monotonic_ns();

    b->summed = 0;
    for (int i = ITEMS - 1; i >= 0; i--)
        if (sw_hosts_sum_give(s, i, version, x + i * items[0].elements, &err) != SW_OK)
            die(err.text);

    sw_mutex_lock(&b->lock);
    while (b->summed < ITEMS && !b->lost)
        sw_cond_wait(&b->changed, &b->lock);
    sw_mutex_unlock(&b->lock);
    if (b->lost)
        exit(1);

    return (double)(sw_os()->monotonic_ns() - begin_ns) / 1e6;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void measure(struct bench *b, struct sw_hosts_sum *s, const struct sw_hosts_sum_item *items,
                    int hosts, int steps)
{
    static double ms[MOST_STEPS];
    size_t elements = (size_t)items[0].elements * ITEMS;
    float *x = malloc(elements * sizeof *x);
    double value = 0;
    struct sw_err err;

    if (!x)
        die("out of memory");

    for (int k = 0; k <= steps; k++) {
        for (size_t i = 0; i < elements; i++)
            x[i] = (float)(i % 100);
        if (sw_hosts_sum_small(s, SW_HOSTS_RESULTS, &value, 1, &err) !=
            SW_OK) /* all begin together */
            die(err.text);
        double t = step(b, s, items, x, (uint64_t)k + 1);
        if (k > 0) /* the first one touches its memory */
            ms[k - 1] = t;
        for (size_t i = 0; i < elements; i++)
            if (x[i] != (float)(i % 100) * (float)hosts)
                die("a sum is wrong");
    }

    qsort(ms, (size_t)steps, sizeof *ms, compare);
    printf("%.1f M floats, %d hosts: best %.2f ms, median %.2f ms\n", (double)elements / 1e6, hosts,
           ms[0], ms[steps / 2]);
    free(x);
}

int main(int argc, char **argv)
{
    static const unsigned char key[SW_FABRIC_KEY_BYTES] = "no secret";
    struct sw_host names[SW_MOST_HOSTS];
    struct sw_hosts_sum_item items[ITEMS];
    struct bench b = {.lost = 0};
    struct sw_hosts_sum *s;
    struct sw_fabric *f;
    struct sw_err err;

    if (argc < 6)
        die("hosts_sum HOST HOSTS ADDRESS PORT private|trusted [FLOATS [STEPS]]");

    bool private = strcmp(argv[5], "private") == 0;
    const struct sw_hosts hosts = {.host = names, .own = atoi(argv[1]), .count = atoi(argv[2])};
    const struct sw_tcp_conf conf = {
        .listener = -1, .port = (uint16_t)atoi(argv[4]), .trusted = true};
    int64_t elements = (argc > 6 ? atoll(argv[6]) : 61000000) / ITEMS;
    int steps = argc > 7 ? atoi(argv[7]) : 10;
    if (hosts.count < 2 || hosts.count > SW_MOST_HOSTS || elements < 1 || steps < 1 ||
        steps > MOST_STEPS)
        die("a number is out of range");

    for (int i = 0; i < hosts.count; i++)
        names[i] = (struct sw_host){.name = i ? "another" : "the first", .address = argv[3]};
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct sw_hosts_sum_item){.elements = elements, .urgency = (uint16_t)(i + 1)};
    sw_mutex_init(&b.lock);
    sw_cond_init(&b.changed);

    const struct sw_hosts_sum_args sums = {.hosts = hosts.count,
                                           .small_most = 1,
                                           .own = hosts.own,
                                           .items = items,
                                           .count = ITEMS,
                                           .summed = on_summed,
                                           .lost = on_lost,
                                           .user = &b};
    if (sw_hosts_sum_new(&sums, &s, &err) != SW_OK)
        die(err.text);
    const struct sw_fabric_args args = {.hosts = &hosts,
                                        .key = private ? key : NULL,
                                        .hello = "bench=1\n",
                                        .hello_bytes = 8,
                                        .room = sw_hosts_sum_room(s),
                                        .sink = sw_hosts_sum_sink(s),
                                        .conf = &conf};
    if (sw_fabric_open(&sw_fabric_tcp, &args, &f, &err) != SW_OK)
        die(err.text);
    sw_hosts_sum_start(s, f);
    measure(&b, s, items, hosts.count, steps);
    if (sw_fabric_leave(f, 10000, &err) != SW_OK)
        die(err.text);
    sw_fabric_free(f);
    sw_hosts_sum_free(s);
    return 0;
}
