/* Sums over the hosts of an MPI job, beside what MPI itself can carry:
 *
 *     mpirun -n 2 hosts_mpi ours|peer|bytes [FLOATS]
 *
 * `ours` sums FLOATS floats (61 million, in the layers of AlexNet, if it is not given) by
 * sw_hosts_sum over engine `mpi`, the top layer first. `peer` makes the same sums with MPI_Isend
 * and MPI_Irecv of whole shares, one layer after the other, and `bytes` moves these shares and adds
 * nothing. Host 0 prints the milliseconds of the fastest of some rounds, after one to warm up.
 * bench/hosts runs all in turn. */
#include "base/os.h"
#include "exchange/hosts/hosts_sum.h"
#include "exchange/hosts/mpi.h"
#include "thread/thread.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, LAYERS = 8 };

static const int64_t alexnet[LAYERS] = {34944,  307456,   663936,   885120,
                                        590080, 37752832, 16781312, 4097000};

struct bench {
    int rank, hosts;
    float *x;
    int64_t floats[LAYERS];
    double best_ms;
    /* Of ours. */
    struct sw_hosts_sum *sum;
    struct sw_mutex lock;
    struct sw_cond changed;
    int summed;
};

static void die(const char *what)
{
    fprintf(stderr, "hosts_mpi: %s\n", what);
    exit(1);
}

static void must(int rc, const struct sw_err *err)
{
    if (rc != SW_OK)
        die(err->text);
}

static void note(struct bench *b, int round, int64_t begin_ns)
{
    double ms = (double)(sw_os()->monotonic_ns() - begin_ns) / 1e6;

    if (round == 1 || (round > 1 && ms < b->best_ms))
        b->best_ms = ms;
}

/* ---- Ours ---- */

static void summed(void *user, int item, uint64_t version)
{
    struct bench *b = user;

    sw_mutex_lock(&b->lock);
    b->summed++;
    sw_cond_broadcast(&b->changed);
    sw_mutex_unlock(&b->lock);
}

static void lost(void *user, int host, const struct sw_err *why)
{
    die(why->text);
}

static void one_round(struct bench *b, struct sw_fabric *f, int round)
{
    struct sw_err err;
    float *x = b->x;

    b->summed = 0;
    for (int i = LAYERS - 1; i >= 0; x += b->floats[i--])
        must(sw_hosts_sum_give(b->sum, i, (uint64_t)round + 1, x, &err), &err);

    sw_fabric_await(f, 1);
    sw_mutex_lock(&b->lock);
    while (b->summed < LAYERS)
        sw_cond_wait(&b->changed, &b->lock);
    sw_mutex_unlock(&b->lock);
    sw_fabric_await(f, -1);
}

static void check(const struct bench *b, float expected)
{
    int64_t count = 0;

    for (int i = 0; i < LAYERS; i++)
        count += b->floats[i];
    for (int64_t i = 0; i < count; i += 997)
        if (b->x[i] != expected)
            die("a sum is wrong");
}

static void run_ours(struct bench *b, enum sw_mpi_kind kind)
{
    static struct sw_host names[SW_MOST_HOSTS];
    struct sw_hosts hosts = {.host = names, .count = b->hosts, .own = b->rank};
    struct sw_hosts_sum_item items[LAYERS];
    const struct sw_fabric_engine *engine;
    struct sw_fabric *f;
    struct sw_err err;
    double values[1] = {0};
    float expected = 1;

    for (int i = 0; i < b->hosts; i++)
        names[i].name = i == 0 ? "first" : "other";
    for (int i = 0; i < LAYERS; i++)
        items[i] = (struct sw_hosts_sum_item){b->floats[i], (uint16_t)i};

    sw_mutex_init(&b->lock);
    sw_cond_init(&b->changed);
    must(sw_mpi_engine_load(kind, &engine, &err), &err);
    must(sw_hosts_sum_new(&(struct sw_hosts_sum_args){.hosts = b->hosts,
                                                      .small_most = 1,
                                                      .own = b->rank,
                                                      .items = items,
                                                      .count = LAYERS,
                                                      .summed = summed,
                                                      .lost = lost,
                                                      .user = b},
                          &b->sum, &err),
         &err);
    must(sw_fabric_open(engine,
                        &(struct sw_fabric_args){.hosts = &hosts,
                                                 .hello = "bench=1\n",
                                                 .hello_bytes = 8,
                                                 .room = sw_hosts_sum_room(b->sum),
                                                 .sink = sw_hosts_sum_sink(b->sum)},
                        &f, &err),
         &err);
    sw_hosts_sum_start(b->sum, f);

    for (int round = 0; round <= ROUNDS; round++) {
        must(sw_hosts_sum_small(b->sum, SW_HOSTS_RESULTS, values, 1, &err),
             &err); /* all begin at once */
        int64_t begin_ns = sw_os()->monotonic_ns();
        one_round(b, f, round);
        note(b, round, begin_ns);
        expected *= (float)b->hosts;
        check(b, expected);
    }

    must(sw_fabric_leave(f, 60000, &err), &err);
    sw_fabric_free(f);
    sw_hosts_sum_free(b->sum);
}

/* ---- MPI's own ---- */

static void move(struct bench *b, char *in, const char *out, int64_t bytes)
{
    MPI_Request requests[2 * SW_MOST_HOSTS];
    MPI_Status status[2 * SW_MOST_HOSTS];
    int count = 0;

    for (int i = 1; i < b->hosts; i++)
        MPI_Irecv(in + (i - 1) * bytes, (int)bytes, MPI_BYTE, (b->rank + i) % b->hosts, 0,
                  MPI_COMM_WORLD, &requests[count++]);
    for (int i = 1; i < b->hosts; i++)
        MPI_Isend(out + (i - 1) * bytes, (int)bytes, MPI_BYTE, (b->rank + i) % b->hosts, 0,
                  MPI_COMM_WORLD, &requests[count++]);
    MPI_Waitall(count, requests, status);
}

static void add(struct bench *b, float *share, const float *in, int64_t floats)
{
    for (int host = 1; host < b->hosts; host++, in += floats)
        for (int64_t i = 0; i < floats; i++)
            share[i] += in[i];
}

static void run_peer(struct bench *b, bool adds)
{
    MPI_Init(NULL, NULL);

    int64_t most = 0;
    for (int i = 0; i < LAYERS; i++)
        most = b->floats[i] > most ? b->floats[i] : most;
    float *in = calloc((size_t)most, sizeof *in);
    if (!in)
        die("out of memory");

    for (int round = 0; round <= ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t begin_ns = sw_os()->monotonic_ns();
        float *x = b->x;
        for (int i = LAYERS - 1; i >= 0; x += b->floats[i--]) {
            int64_t floats = b->floats[i] / b->hosts;
            move(b, (char *)in, (char *)x, floats * (int64_t)sizeof(float));
            if (adds)
                add(b, x, in, floats);
            move(b, (char *)in, (char *)x, floats * (int64_t)sizeof(float));
        }
        note(b, round, begin_ns);
    }

    free(in);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    enum sw_mpi_kind kind;
    int64_t all = 0, most = argc > 2 ? atoll(argv[2]) : 0;

    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "ours") != 0 && strcmp(mode, "peer") != 0 && strcmp(mode, "bytes") != 0)
        die("mpirun -n 2 hosts_mpi ours|peer|bytes [FLOATS]");
    if (!sw_mpi_launched(&b.rank, &b.hosts, &kind) || b.hosts < 2 || b.hosts > SW_MOST_HOSTS)
        die("it was not started by mpirun -n 2");

    for (int i = 0; i < LAYERS; i++) {
        b.floats[i] = most > 0 ? most / LAYERS : alexnet[i];
        all += b.floats[i];
    }
    b.x = malloc((size_t)all * sizeof *b.x);
    if (!b.x)
        die("out of memory");
    for (int64_t i = 0; i < all; i++)
        b.x[i] = 1;

    if (strcmp(mode, "ours") == 0)
        run_ours(&b, kind);
    else
        run_peer(&b, strcmp(mode, "peer") == 0);

    if (b.rank == 0)
        printf("%.2f\n", b.best_ms);
    free(b.x);
    return 0;
}
