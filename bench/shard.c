/* Measures how fast records of a shard are read, each once, in random order: `ours` uses the format
 * shard (find, check, return a pointer), `cache` uses pread of the same bytes at the same offsets
 * into a buffer, which is the speed of the page cache. Both then read every byte once, as a
 * consumer does; otherwise `ours` would not even touch them. The file is in the page cache.
 *
 *     shard ours|cache FILE PASSES
 *
 * Prints gigabytes per second, of the first pass, which with ours checks every checksum, and of the
 * median of the others. */
#include "base/os.h"
#include "base/philox.h"
#include "data/format.h"
#include "data/permute.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PASSES = 1000 };

static void die(const char *what)
{
    fprintf(stderr, "shard: %s\n", what);
    exit(1);
}

/* The offsets of records of one size (data/shard.h). */
struct file {
    int fd;
    uint64_t first, stride, records;
};

static struct file open_plain(const char *path)
{
    struct file f = {.fd = sw_os()->open(path, O_RDONLY, 0)};
    uint64_t word[8];
    static char block[1 << 20];
    if (f.fd < 0 || sw_os()->pread(f.fd, word, sizeof word, 0) != sizeof word)
        die("cannot read the file");
    f.first = word[2];
    f.records = word[4];
    f.stride = (word[6] - f.first) / f.records;
    while (sw_os()->read(f.fd, block, sizeof block) > 0) {
    }
    return f;
}

static struct sw_records open_shard(const char *path)
{
    const struct sw_format *format = sw_format_find("shard");
    const struct sw_strings paths = {&path, 1};
    unsigned char conf[256] = {0};
    const struct sw_format_args args = {.conf = conf, .split = "train"};
    struct sw_records r;
    struct sw_err err = {0};
    memcpy(conf + format->base.opts[0].offset, &paths, sizeof paths);
    if (sw_records_open(&r, format, &args, &err))
        die(err.text);
    return r;
}

static uint64_t look_at(const void *bytes, size_t count)
{
    uint64_t sum = 0, word;
    size_t i = 0;
    for (; i + sizeof word <= count; i += sizeof word) {
        memcpy(&word, (const char *)bytes + i, sizeof word);
        sum += word;
    }
    return count > i ? sum + ((const unsigned char *)bytes)[count - 1] : sum;
}

static uint64_t read_ours(const struct sw_records *r, int64_t record)
{
    uint64_t sum = 0;
    const void *from = NULL;
    struct sw_err err = {0};
    for (int f = 0; f < r->field_count; f++) {
        const size_t bytes = sw_field_bytes(&r->field[f]);
        if (r->format->fetch(r, record, f, NULL, &from, &err))
            die(err.text);
        sum += look_at(from, bytes);
    }
    return sum;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double rate[MOST_PASSES];
    volatile uint64_t seen; /* volatile, so that the reads are not optimized away */
    uint64_t sum = 0;
    if (argc != 4)
        die("ours|cache FILE PASSES");
    const int passes = atoi(argv[3]);
    const bool ours = !strcmp(argv[1], "ours");
    if (passes < 2 || passes > MOST_PASSES)
        die("PASSES must be 2 to 1000");
    const struct file f = open_plain(argv[2]);
    struct sw_records r = open_shard(argv[2]);
    unsigned char *to = aligned_alloc(64, (f.stride + 63) / 64 * 64);
    if (!to)
        die("memory");
    for (int p = 0; p < passes; p++) {
        struct sw_permutation order;
        sw_permutation_init(&order, (struct sw_philox){.key = {1, 2}}, (uint64_t)p,
                            (int64_t)f.records);
        const int64_t began_ns = sw_os()->monotonic_ns();
        for (uint64_t i = 0; i < f.records; i++) {
            const int64_t record = sw_permutation_at(&order, (int64_t)i);
            const off_t at = (off_t)(f.first + (uint64_t)record * f.stride);
            if (ours) {
                sum += read_ours(&r, record);
                continue;
            }
            if (sw_os()->pread(f.fd, to, f.stride, at) != (ssize_t)f.stride)
                die("cannot read the file");
            sum += look_at(to, f.stride);
        }
        rate[p] = (double)(f.records * f.stride) / (double)(sw_os()->monotonic_ns() - began_ns);
    }
    seen = sum;
    (void)seen;
    qsort(rate + 1, (size_t)passes - 1, sizeof *rate, rising);
    printf("%.4f %.4f\n", rate[0], rate[1 + (passes - 1) / 2]);
    sw_records_close(&r);
    free(to);
    return 0;
}
