/* Times searches of the library (search/), warm and without reading files:
 *
 *     search_times query INDEX QUERIES.npy K THREADS REPEATS
 *     search_times scan BITS MEGABYTES THREADS REPEATS
 *
 * query prints a line "SECONDS SHARE" for each repeat: of all queries, and the share of rows that
 * were compared with one. scan asks one query of so many megabytes of random codes and reads the
 * same memory as a sum of its words, in turn, with the same threads, and prints "SCAN READ" in
 * seconds. bench/search runs it. */
#include "base/os.h"
#include "base/philox.h"
#include "base/str.h"
#include "search/index.h"
#include "search/parallel.h"
#include "tensor/npy.h"
#include <stdlib.h>

enum { SHARD = 1 << 17, K = 50 };

static void die(const char *what)
{
    fprintf(stderr, "search_times: %s\n", what);
    exit(1);
}

static double seconds_since(int64_t began_ns)
{
    return (double)(sw_os()->monotonic_ns() - began_ns) * 1e-9;
}

/* ---- Queries ----------------------------------------------------------------------------------
 */

static struct sw_search_set read_queries(const char *path, const struct sw_index *x)
{
    struct sw_npy_file f;
    struct sw_err err;
    const bool codes = !x->has_vectors;

    if (sw_npy_open(&f, path, &err) != SW_OK)
        die(err.text);

    const int64_t rows = f.header.shape[0], columns = f.header.shape[1];
    void *values = sw_calloc((size_t)f.header.count, codes ? 1 : sizeof(float));
    if (!values || sw_npy_read_rows(&f, 0, rows, codes ? SW_U8 : SW_F32, values, &err) != SW_OK)
        die(values ? err.text : "out of memory");
    sw_npy_close(&f);

    if (!codes)
        return (struct sw_search_set){.vectors = {values, rows, (int)columns}};

    const int bits = (int)columns * 8, words = sw_code_words(bits);
    uint64_t *packed = sw_calloc((size_t)rows, (size_t)words * sizeof *packed);
    if (!packed)
        die("out of memory");
    sw_codes_from_bytes(values, rows, bits, packed);
    return (struct sw_search_set){.codes = {packed, rows, bits, words}};
}

static void time_queries(const char *index, const char *path, int64_t k, int threads, int repeats)
{
    struct sw_index x;
    struct sw_err err;

    if (sw_index_open(&x, index, &err) != SW_OK)
        die(err.text);

    const struct sw_search_set q = read_queries(path, &x);
    const int64_t count = q.codes.count ? q.codes.count : q.vectors.count;
    struct sw_neighbor *out = sw_calloc((size_t)count, (size_t)k * sizeof *out);
    if (!out)
        die("out of memory");

    for (int i = -1; i < repeats; i++) { /* the first one warms up */
        int64_t read;
        const int64_t began = sw_os()->monotonic_ns();

        if (sw_index_search(&x, &q, k, threads, out, &read, &err) != SW_OK)
            die(err.text);
        if (i >= 0)
            printf("%.9f %.9f\n", seconds_since(began),
                   (double)read / ((double)count * (double)x.count));
    }

    sw_index_close(&x);
}

/* ---- Scan -------------------------------------------------------------------------------------
 */

struct memory {
    const uint64_t *words;
    int64_t count;
    uint64_t *sums; /* [threads][8], one cache line each */
};

/* Sums the words of a shard: eight sums, so that additions do not wait for each other. */
static int read_shard(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct memory *m = user;
    const int64_t begin = task * SHARD;
    const int64_t end = begin + SHARD < m->count ? begin + SHARD : m->count;
    uint64_t sum[8] = {0};

    for (int64_t i = begin; i + 8 <= end; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += m->words[i + k];
    for (int k = 0; k < 8; k++)
        m->sums[thread * 8 + k] += sum[k];
    return SW_OK;
}

static void fill(uint64_t *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        words[i] = sw_mix64((uint64_t)i);
}

static void time_scan(int bits, int64_t megabytes, int threads, int repeats)
{
    const int words = sw_code_words(bits);
    const int64_t count = megabytes * 1000000 / (8 * words);
    uint64_t *at = sw_calloc((size_t)count * (size_t)words, sizeof *at), query[1024] = {1};
    struct memory m = {at, count * words, sw_calloc((size_t)threads * 8, sizeof(uint64_t))};
    const struct sw_codes codes = {at, count, bits, words}, one = {query, 1, bits, words};
    struct sw_neighbor out[K];
    struct sw_err err;

    if (!at || !m.sums || words > 1024 || bits % 64)
        die("out of memory, or bits that are not whole words");
    fill(at, count * words);

    for (int i = -1; i < repeats; i++) {
        int64_t began = sw_os()->monotonic_ns();
        if (sw_codes_search(&codes, &one, K, threads, out, &err) != SW_OK)
            die(err.text);
        const double scan = seconds_since(began);

        began = sw_os()->monotonic_ns();
        if (sw_search_parallel(threads, (m.count + SHARD - 1) / SHARD, read_shard, &m, &err) !=
            SW_OK)
            die(err.text);
        if (i >= 0)
            printf("%.9f %.9f\n", scan, seconds_since(began));
    }

    uint64_t sum = 0; /* which keeps the reads */
    for (int i = 0; i < threads * 8; i++)
        sum += m.sums[i];
    fprintf(stderr, "sum %llx\n", (unsigned long long)sum);
}

int main(int argc, char **argv)
{
    if (argc == 7 && sw_str_eq(argv[1], "query"))
        time_queries(argv[2], argv[3], atoll(argv[4]), atoi(argv[5]), atoi(argv[6]));
    else if (argc == 6 && sw_str_eq(argv[1], "scan"))
        time_scan(atoi(argv[2]), atoll(argv[3]), atoi(argv[4]), atoi(argv[5]));
    else
        die("expected query INDEX QUERIES.npy K THREADS REPEATS, or scan BITS MEGABYTES THREADS "
            "REPEATS");
    return 0;
}
