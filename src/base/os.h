/* The operating system as a table: files, clock, randomness, allocation. All code of this project
 * that touches them goes through sw_os(), so that a test can fail the n-th call, deliver short
 * writes, or run on a virtual clock. The table is set once at start (tests replace it before any
 * thread exists) and is frozen afterwards; its functions may be called from any thread.
 * Functions follow POSIX: -1 and errno on failure. */
#pragma once

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

struct sw_os {
    void *(*alloc)(size_t bytes); /* uninitialised; NULL when exhausted */
    void *(*realloc)(void *p, size_t bytes);
    void (*free)(void *p);
    void *(*map_pages)(size_t bytes);          /* anonymous private pages, zero, page aligned */
    void *(*map_file)(int fd, size_t bytes);   /* the first bytes of the file, read-only, shared */
    int (*unmap_pages)(void *p, size_t bytes); /* of map_pages or map_file */
    /* Binds whole pages to these NUMA nodes (bit i: node i of the system), interleaved over
     * several; pages that are already placed move. Pages go elsewhere when a node is full. */
    int (*bind_pages)(void *p, size_t bytes, uint64_t nodes);
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*read)(int fd, void *buf, size_t bytes);
    ssize_t (*pread)(int fd, void *buf, size_t bytes, off_t offset);
    ssize_t (*write)(int fd, const void *buf, size_t bytes);
    ssize_t (*pwrite)(int fd, const void *buf, size_t bytes, off_t offset);
    int (*fsync)(int fd);
    int (*ftruncate)(int fd, off_t bytes);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*stat)(const char *path, struct stat *st);
    int (*fstat)(int fd, struct stat *st);
    int64_t (*monotonic_ns)(void);                /* CLOCK_MONOTONIC */
    double (*unix_time)(void);                    /* seconds since 1970 */
    int (*random_bytes)(void *buf, size_t bytes); /* for names, never for training */
};

extern const struct sw_os sw_os_posix;

const struct sw_os *sw_os(void);
void sw_os_set(const struct sw_os *os); /* NULL restores sw_os_posix; borrowed until replaced */

/* Allocation helpers over the table. All return NULL when memory is exhausted or count*size
 * overflows; sw_free accepts NULL. */
void *sw_calloc(size_t count, size_t size); /* zeroed */
void *sw_realloc_array(void *p, size_t count, size_t size);
/* Makes room for another item in a growing array whose pointer is at `array`: if `count` items fill
 * it, doubles *capacity, which begins with `first`. Errors: SW_ERR_NOMEM naming `what`. */
int sw_grow(void *array, size_t item_bytes, int64_t count, int64_t *capacity, int64_t first,
            const char *what, struct sw_err *err) SW_MUST_CHECK;
/* Adds a zeroed element to the end of an array that *items (a T **) points to and that grows only
 * this way, from NULL and 0: increments *count and returns the element. The caller may lower
 * *count. NULL: memory is exhausted, and the array is unchanged. */
void *sw_array_add(void *items, int *count, size_t size);
void sw_free(void *p);

/* The next multiple of `to`. */
static inline size_t sw_aligned(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}
char *sw_strdup(const char *s);

/* Returns the end of a message: "; the memory of this process is limited to 200 MB: raise ulimit
 * -v" in out (96 bytes) if there is such a limit, else "". */
const char *sw_memory_limit(char *out, size_t bytes);
/* Sets SW_ERR_NOMEM: "out of memory: WHAT (BYTES bytes)" and sw_memory_limit. Returns SW_ERR_NOMEM.
 */
int sw_err_nomem(struct sw_err *err, const char *what, size_t bytes);

/* Writes all bytes (short writes and EINTR repeated). Errors: SW_ERR_IO naming what. */
int sw_os_write_all(int fd, const void *buf, size_t bytes, const char *what,
                    struct sw_err *err) SW_MUST_CHECK;
/* Writes all bytes at an offset without changing the file position. Errors: SW_ERR_IO naming what.
 */
int sw_os_pwrite_all(int fd, const void *buf, size_t bytes, off_t offset, const char *what,
                     struct sw_err *err) SW_MUST_CHECK;
/* Checks that st describes a regular file; else SW_ERR_FORMAT, which names the kind of file. For
 * files that a library opens by name, since opening a pipe would wait for its writer. */
int sw_os_need_regular(const char *path, const struct stat *st, struct sw_err *err) SW_MUST_CHECK;
/* Opens a regular file for reading, and never waits for another process. *fd is -1 on failure.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT when it is something else. */
int sw_os_open_regular(const char *path, int *fd, uint64_t *file_bytes,
                       struct sw_err *err) SW_MUST_CHECK;
/* Reads exactly bytes at offset. Errors: SW_ERR_IO, SW_ERR_FORMAT when the file ends before,
 * SW_ERR_CANCELLED (stop.h). */
int sw_os_pread_all(int fd, void *buf, size_t bytes, off_t offset, const char *what,
                    struct sw_err *err) SW_MUST_CHECK;
/* Reads a whole regular file, or an open descriptor by its name (/dev/stdin, /dev/fd/N), into a new
 * zero-terminated buffer that the caller frees with sw_free. Errors: those of sw_os_open_regular,
 * SW_ERR_INVALID when larger than max_bytes. */
int sw_os_read_file(const char *path, size_t max_bytes, char **text, size_t *bytes,
                    struct sw_err *err) SW_MUST_CHECK;
/* Creates a directory and its parents (mode for those created). An existing one is fine. */
int sw_os_mkdirs(const char *path, mode_t mode, struct sw_err *err) SW_MUST_CHECK;
/* Checks that a directory is safe from other users: it belongs to our user (a symbolic link is
 * followed), and its mode has none of the bits of `forbidden` (0022: others cannot write, 0077:
 * others cannot access it). The message names path, owner or mode; advice ends it: "set
 * XDG_STATE_HOME to a directory of your own". Errors: SW_ERR_NOTFOUND, SW_ERR_IO. */
int sw_os_check_private_dir(const char *path, mode_t forbidden, const char *advice,
                            struct sw_err *err) SW_MUST_CHECK;
/* Writes path so that a crash at any instant leaves the old file or the new one: temporary name in
 * the same directory, fsync, rename, fsync of the directory. Mode is that of the new file. */
int sw_os_replace_file(const char *path, const void *buf, size_t bytes, mode_t mode,
                       struct sw_err *err) SW_MUST_CHECK;
/* fsync of the directory that holds path. */
int sw_os_sync_dir_of(const char *path, struct sw_err *err) SW_MUST_CHECK;

/* sw_os_replace_file in steps, for files that are written as a stream: begin, write to fd, then
 * commit or abandon. The temporary name is PATH.tmp-HEX; after a kill such a file may remain and is
 * garbage. Initialize with {.fd = -1}; abandon accepts a struct that was never begun or is
 * committed. */
struct sw_new_file {
    int fd;     /* open for writing between begin and commit, else -1 */
    char *path; /* owned */
    char *temp; /* owned */
};
int sw_os_new_file_begin(struct sw_new_file *f, const char *path, mode_t mode,
                         struct sw_err *err) SW_MUST_CHECK;
/* fsync, rename, fsync of the directory. On an error before the rename the old file remains and the
 * temporary one is removed; f is released in any case. */
int sw_os_new_file_commit(struct sw_new_file *f, struct sw_err *err) SW_MUST_CHECK;
void sw_os_new_file_abandon(struct sw_new_file *f);
