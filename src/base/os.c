/* The POSIX implementation of the table of system calls, the pointer to the current table, and the
 * allocation helpers on top of it. sw_os_set may be called only before any thread is started;
 * everything else is safe in any thread. The contract is in base/os.h. */
#include "base/os.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void *posix_map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void *posix_map_file(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Binds pages with the system call, since libc has no mbind. The kernel reads one bit less than the
 * given count. The policy is only a preference, so that a full node does not end the process. */
static int posix_bind_pages(void *p, size_t bytes, uint64_t nodes)
{
    unsigned long mask = nodes;
    int policy = __builtin_popcountll(nodes) > 1 ? MPOL_INTERLEAVE : MPOL_PREFERRED;
    return (int)syscall(SYS_mbind, p, bytes, policy, &mask, 8 * sizeof mask + 1, MPOL_MF_MOVE);
}

/* open is variadic and stat may be a macro in libc, so the table gets plain functions. */
static int posix_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags | O_CLOEXEC, mode);
}

static int posix_stat(const char *path, struct stat *st)
{
    return stat(path, st);
}

static int posix_fstat(int fd, struct stat *st)
{
    return fstat(fd, st);
}

static int64_t posix_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double posix_unix_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int posix_random_bytes(void *buf, size_t bytes)
{
    unsigned char *p = buf;

    while (bytes) {
        ssize_t n = getrandom(p, bytes, 0);
        if (n < 0 && errno != EINTR)
            return -1;

        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        }
    }

    return 0;
}

/* The table in use: the only mutable global of the project besides signal state. It is replaced
 * before any thread exists, so plain reads are safe. */
static const struct sw_os *current_os = &sw_os_posix;

const struct sw_os *sw_os(void)
{
    return current_os;
}

void sw_os_set(const struct sw_os *os)
{
    current_os = os ? os : &sw_os_posix;
}

void *sw_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;

    void *p = sw_os()->alloc(bytes ? bytes : 1);
    if (p)
        memset(p, 0, bytes ? bytes : 1);

    return p;
}

void *sw_realloc_array(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return sw_os()->realloc(p, bytes ? bytes : 1);
}

int sw_grow(void *array, size_t item_bytes, int64_t count, int64_t *capacity, int64_t first,
            const char *what, struct sw_err *err)
{
    if (count < *capacity)
        return SW_OK;

    int64_t more = *capacity ? 2 * *capacity : first;
    void *items;
    memcpy(&items, array, sizeof items); /* copied as bytes: the item type is unknown */
    items = sw_realloc_array(items, (size_t)more, item_bytes);
    if (!items)
        return sw_err_nomem(err, what, (size_t)more * item_bytes);

    memcpy(array, &items, sizeof items);
    *capacity = more;
    return SW_OK;
}

void *sw_array_add(void *items, int *count, size_t size)
{
    const size_t n = (size_t)*count;
    void *array;

    memcpy(&array, items, sizeof array);

    if ((n & (n - 1)) == 0) { /* the capacity is the next power of two, so the array is full */
        array = sw_realloc_array(array, n ? 2 * n : 1, size);
        if (!array)
            return NULL;
        memcpy(items, &array, sizeof array);
    }

    ++*count;
    return memset((char *)array + n * size, 0, size);
}

void sw_free(void *p)
{
    if (p)
        sw_os()->free(p);
}

char *sw_strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = sw_os()->alloc(bytes);
    return copy ? memcpy(copy, s, bytes) : NULL;
}

static rlim_t limit_of(int which)
{
    struct rlimit r;
    return getrlimit(which, &r) == 0 ? r.rlim_cur : RLIM_INFINITY;
}

const char *sw_memory_limit(char *out, size_t bytes)
{
    const rlim_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
    const rlim_t least = space < data ? space : data;
    char text[32];

    if (least == RLIM_INFINITY)
        return "";

    snprintf(out, bytes, "; the memory of this process is limited to %s: raise ulimit -%c",
             sw_human_bytes(text, (double)least), least == space ? 'v' : 'd');
    return out;
}

int sw_err_nomem(struct sw_err *err, const char *what, size_t bytes)
{
    char limit[96];
    return sw_err_set(err, SW_ERR_NOMEM, "out of memory: %s (%zu bytes)%s", what, bytes,
                      sw_memory_limit(limit, sizeof limit));
}

const struct sw_os sw_os_posix = {
    .alloc = malloc,
    .realloc = realloc,
    .free = free,
    .map_pages = posix_map_pages,
    .map_file = posix_map_file,
    .unmap_pages = munmap,
    .bind_pages = posix_bind_pages,
    .open = posix_open,
    .close = close,
    .read = read,
    .pread = pread,
    .write = write,
    .pwrite = pwrite,
    .fsync = fsync,
    .ftruncate = ftruncate,
    .rename = rename,
    .unlink = unlink,
    .mkdir = mkdir,
    .stat = posix_stat,
    .fstat = posix_fstat,
    .monotonic_ns = posix_monotonic_ns,
    .unix_time = posix_unix_time,
    .random_bytes = posix_random_bytes,
};
