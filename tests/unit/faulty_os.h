/* An operating system that fails on demand: a table for sw_os_set that counts calls and lets the
 * n-th of the chosen kinds fail, once or for ever, moves few bytes per call, or ends the process
 * there. For tests with one thread; include once per program. */
#pragma once

#include "base/os.h"
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

enum {
    FAULTY_ALLOC = 1,
    FAULTY_OPEN = 2,
    FAULTY_READ = 4,
    FAULTY_WRITE = 8,
    FAULTY_SYNC = 16,
    FAULTY_RENAME = 32,
    FAULTY_DIR = 64, /* mkdir, stat, fstat */
    FAULTY_RANDOM = 128,
    FAULTY_CLOSE = 256,
    FAULTY_FILES = 510,
    FAULTY_ALL = 511,
};

struct faulty_plan {
    int kinds;       /* which calls count */
    int at;          /* the at-th of them (from 1) fails; 0: none */
    bool forever;    /* and all after it */
    bool dies;       /* ends the process there instead, in the middle of a write */
    int error;       /* errno of the failure */
    size_t io_bytes; /* most bytes per read or write; 0: no limit */
    bool interrupts; /* every other read and write says EINTR first */
};

static struct {
    struct faulty_plan plan;
    int calls, live_allocations, io_calls;
} faulty;

static bool faulty_hits(int kind)
{
    if (!(faulty.plan.kinds & kind))
        return false;
    int calls = __atomic_add_fetch(&faulty.calls, 1, __ATOMIC_RELAXED);
    bool hit = faulty.plan.at &&
               (calls == faulty.plan.at || (faulty.plan.forever && calls > faulty.plan.at));
    if (hit && faulty.plan.dies && kind != FAULTY_WRITE)
        _exit(9);
    if (hit)
        errno = faulty.plan.error;
    return hit;
}

static bool faulty_interrupts(void)
{
    if (!faulty.plan.interrupts || ++faulty.io_calls % 2 == 0)
        return false;
    errno = EINTR;
    return true;
}

static size_t faulty_io_size(size_t bytes)
{
    size_t most = faulty.plan.io_bytes;
    return most && bytes > most ? most : bytes;
}

static void *faulty_alloc(size_t bytes)
{
    void *p = faulty_hits(FAULTY_ALLOC) ? NULL : sw_os_posix.alloc(bytes);
    __atomic_add_fetch(&faulty.live_allocations, p != NULL, __ATOMIC_RELAXED);
    return p;
}

static void *faulty_realloc(void *old, size_t bytes)
{
    void *p = faulty_hits(FAULTY_ALLOC) ? NULL : sw_os_posix.realloc(old, bytes);
    __atomic_add_fetch(&faulty.live_allocations, p && !old, __ATOMIC_RELAXED);
    return p;
}

static void faulty_free(void *p)
{
    __atomic_sub_fetch(&faulty.live_allocations, p != NULL, __ATOMIC_RELAXED);
    sw_os_posix.free(p);
}

static int faulty_open(const char *path, int flags, mode_t mode)
{
    return faulty_hits(FAULTY_OPEN) ? -1 : sw_os_posix.open(path, flags, mode);
}

static int faulty_close(int fd)
{
    int rc = sw_os_posix.close(fd);
    return faulty_hits(FAULTY_CLOSE) ? -1 : rc;
}

static ssize_t faulty_read(int fd, void *buf, size_t bytes)
{
    if (faulty_hits(FAULTY_READ) || faulty_interrupts())
        return -1;
    return sw_os_posix.read(fd, buf, faulty_io_size(bytes));
}

static ssize_t faulty_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    if (faulty_hits(FAULTY_READ) || faulty_interrupts())
        return -1;
    return sw_os_posix.pread(fd, buf, faulty_io_size(bytes), offset);
}

static ssize_t faulty_write(int fd, const void *buf, size_t bytes)
{
    if (faulty_hits(FAULTY_WRITE)) {
        if (!faulty.plan.dies)
            return -1;
        if (sw_os_posix.write(fd, buf, bytes / 2) < 0)
            _exit(8);
        _exit(9);
    }
    return faulty_interrupts() ? -1 : sw_os_posix.write(fd, buf, faulty_io_size(bytes));
}

static ssize_t faulty_pwrite(int fd, const void *buf, size_t bytes, off_t offset)
{
    if (faulty_hits(FAULTY_WRITE)) {
        if (faulty.plan.dies)
            _exit(9);
        return -1;
    }
    return faulty_interrupts() ? -1 : sw_os_posix.pwrite(fd, buf, faulty_io_size(bytes), offset);
}

static void *faulty_map_file(int fd, size_t bytes)
{
    return faulty_hits(FAULTY_READ) ? NULL : sw_os_posix.map_file(fd, bytes);
}

static int faulty_fsync(int fd)
{
    return faulty_hits(FAULTY_SYNC) ? -1 : sw_os_posix.fsync(fd);
}

static int faulty_rename(const char *from, const char *to)
{
    return faulty_hits(FAULTY_RENAME) ? -1 : sw_os_posix.rename(from, to);
}

static int faulty_mkdir(const char *path, mode_t mode)
{
    return faulty_hits(FAULTY_DIR) ? -1 : sw_os_posix.mkdir(path, mode);
}

static int faulty_stat(const char *path, struct stat *st)
{
    return faulty_hits(FAULTY_DIR) ? -1 : sw_os_posix.stat(path, st);
}

static int faulty_fstat(int fd, struct stat *st)
{
    return faulty_hits(FAULTY_DIR) ? -1 : sw_os_posix.fstat(fd, st);
}

static int faulty_random(void *buf, size_t bytes)
{
    return faulty_hits(FAULTY_RANDOM) ? -1 : sw_os_posix.random_bytes(buf, bytes);
}

/* Puts the table in force with all counters at zero. */
static void faulty_begin(struct faulty_plan plan)
{
    static struct sw_os table;
    table = sw_os_posix;
    table.alloc = faulty_alloc;
    table.realloc = faulty_realloc;
    table.free = faulty_free;
    table.open = faulty_open;
    table.close = faulty_close;
    table.read = faulty_read;
    table.pread = faulty_pread;
    table.write = faulty_write;
    table.pwrite = faulty_pwrite;
    table.map_file = faulty_map_file;
    table.fsync = faulty_fsync;
    table.rename = faulty_rename;
    table.mkdir = faulty_mkdir;
    table.stat = faulty_stat;
    table.fstat = faulty_fstat;
    table.random_bytes = faulty_random;
    faulty.plan = plan;
    if (!faulty.plan.error)
        faulty.plan.error = EIO;
    faulty.calls = faulty.live_allocations = faulty.io_calls = 0;
    sw_os_set(&table);
}

/* Restores the real one; returns how many calls of the chosen kinds there were. */
static int faulty_end(void)
{
    sw_os_set(NULL);
    return faulty.calls;
}
