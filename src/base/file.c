/* The file helpers of base/os.h: everything here goes through the table, so that a test can fail
 * any single call. */
#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

/* The kernel transfers at most about 2 GiB per call. */
enum { MAX_IO_BYTES = 1 << 30 };
/* The initial buffer for a file of unknown size; small, since callers have limits of 256 bytes. */
enum { GUESS_BYTES = 256 };

static size_t io_size(size_t bytes)
{
    return bytes < MAX_IO_BYTES ? bytes : MAX_IO_BYTES;
}

int sw_os_write_all(int fd, const void *buf, size_t bytes, const char *what, struct sw_err *err)
{
    const unsigned char *p = buf;

    while (bytes) {
        ssize_t n = sw_os()->write(fd, p, io_size(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sw_err_errno(err, n < 0 ? errno : ENOSPC, "cannot write %s", what);

        p += n;
        bytes -= (size_t)n;
    }

    return SW_OK;
}

int sw_os_pwrite_all(int fd, const void *buf, size_t bytes, off_t offset, const char *what,
                     struct sw_err *err)
{
    const unsigned char *p = buf;

    while (bytes) {
        ssize_t n = sw_os()->pwrite(fd, p, io_size(bytes), offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sw_err_errno(err, n < 0 ? errno : ENOSPC, "cannot write %s", what);

        p += n;
        offset += n;
        bytes -= (size_t)n;
    }

    return SW_OK;
}

int sw_os_need_regular(const char *path, const struct stat *st, struct sw_err *err)
{
    if (S_ISREG(st->st_mode))
        return SW_OK;
    return sw_err_set(err, SW_ERR_FORMAT, "%s is %s, not a regular file", path,
                      S_ISDIR(st->st_mode)    ? "a directory"
                      : S_ISFIFO(st->st_mode) ? "a pipe"
                      : S_ISSOCK(st->st_mode) ? "a socket"
                                              : "a device");
}

/* O_NONBLOCK has no effect on a regular file; without it, opening a pipe would wait for its writer.
 * Opening a socket fails with ENXIO. */
int sw_os_open_regular(const char *path, int *fd, uint64_t *file_bytes, struct sw_err *err)
{
    struct stat st;

    *fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (*fd < 0)
        return sw_err_errno(err, errno, "cannot open %s", path);

    int rc = sw_os()->fstat(*fd, &st) == 0 ? sw_os_need_regular(path, &st, err)
                                           : sw_err_errno(err, errno, "cannot stat %s", path);
    if (rc != SW_OK) {
        sw_os()->close(*fd);
        *fd = -1;
        return rc;
    }

    *file_bytes = (uint64_t)st.st_size;
    return SW_OK;
}

/* Large data and weights are read here, so a request to stop is checked between pieces. */
int sw_os_pread_all(int fd, void *buf, size_t bytes, off_t offset, const char *what,
                    struct sw_err *err)
{
    enum { PIECE_BYTES = 16 << 20 };

    unsigned char *p = buf;
    while (bytes) {
        int rc = sw_stop_check(err);
        if (rc != SW_OK)
            return rc;

        ssize_t n = sw_os()->pread(fd, p, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sw_err_errno(err, errno, "cannot read %s", what);
        if (n == 0)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s is truncated: it ends at byte %lld, %zu bytes are missing", what,
                              (long long)offset, bytes);

        p += n;
        offset += n;
        bytes -= (size_t)n;
    }

    return SW_OK;
}

/* Reads to the end of the file. The first size is a guess; a file that grows or has no size (a
 * pipe, /proc) is read until read returns 0. */
static int read_to_end(int fd, const char *path, size_t max_bytes, size_t guess, char **text,
                       size_t *bytes, struct sw_err *err)
{
    size_t room = guess < max_bytes ? guess + 1 : max_bytes, used = 0;
    char *buf = sw_realloc_array(NULL, room + 1, 1);
    if (!buf)
        return sw_err_nomem(err, path, room + 1);

    for (;;) {
        if (used == room && room < max_bytes) {
            size_t grown = room > max_bytes / 2 ? max_bytes : 2 * room;
            char *more = sw_realloc_array(buf, grown + 1, 1);
            if (!more) {
                sw_free(buf);
                return sw_err_nomem(err, path, grown + 1);
            }

            buf = more;
            room = grown;
        }

        /* At the limit one extra byte (the place of the zero) is requested, which detects a file
         * that is too large. */
        ssize_t n = sw_os()->read(fd, buf + used, used < room ? io_size(room - used) : 1);
        if (n < 0 && errno == EINTR)
            continue;

        if (n < 0) {
            int reason = errno;
            sw_free(buf);
            return sw_err_errno(err, reason, "cannot read %s", path);
        }

        if (n == 0)
            break;

        if (used == room) {
            sw_free(buf);
            return sw_err_set(err, SW_ERR_INVALID, "%s is larger than the limit of %zu bytes", path,
                              max_bytes);
        }

        used += (size_t)n;
    }

    buf[used] = '\0';
    *text = buf;
    *bytes = used;

    return SW_OK;
}

/* Whether path names an open descriptor: /dev/stdin, or /dev/fd/63 of the shell's <(COMMAND). A
 * pipe there already has a writer. */
static bool is_descriptor(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0;
}

int sw_os_read_file(const char *path, size_t max_bytes, char **text, size_t *bytes,
                    struct sw_err *err)
{
    uint64_t file_bytes = GUESS_BYTES;
    int fd, rc = SW_OK;

    if (is_descriptor(path)) {
        fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC, 0);
        rc = fd < 0 ? sw_err_errno(err, errno, "cannot open %s", path) : SW_OK;
    } else {
        rc = sw_os_open_regular(path, &fd, &file_bytes, err);
    }

    if (rc != SW_OK)
        return rc;

    if (file_bytes > max_bytes)
        rc = sw_err_set(err, SW_ERR_INVALID, "%s has %llu bytes, the limit is %zu", path,
                        (unsigned long long)file_bytes, max_bytes);
    else
        rc = read_to_end(fd, path, max_bytes, (size_t)file_bytes, text, bytes, err);

    sw_os()->close(fd);
    return rc;
}

static int make_one_dir(const char *path, mode_t mode, struct sw_err *err)
{
    struct stat st;

    if (sw_os()->mkdir(path, mode) == 0)
        return SW_OK;

    int reason = errno;

    /* mkdir also fails with EROFS and EACCES for directories that exist, so existence is checked
     * instead of EEXIST. */
    if (sw_os()->stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return SW_OK;
        reason = ENOTDIR;
    }

    return sw_err_errno(err, reason, "cannot create directory %s", path);
}

int sw_os_mkdirs(const char *path, mode_t mode, struct sw_err *err)
{
    char *part = sw_strdup(path);
    if (!part)
        return sw_err_nomem(err, path, strlen(path) + 1);

    int rc = SW_OK;
    for (char *p = part; *p; p++) {
        if (p == part || *p != '/' || p[-1] == '/')
            continue;

        *p = '\0';
        rc = make_one_dir(part, mode, err);
        *p = '/';
        if (rc != SW_OK)
            goto out;
    }

    rc = make_one_dir(part, mode, err);

out:
    sw_free(part);
    return rc;
}

/* "user ada (uid 1000)", or without the name where the system does not know it. */
static const char *user_text(uid_t uid, char *out, size_t bytes)
{
    char text[1024];
    struct passwd entry, *found = NULL;

    if (getpwuid_r(uid, &entry, text, sizeof text, &found) == 0 && found)
        snprintf(out, bytes, "user %s (uid %lld)", entry.pw_name, (long long)uid);
    else
        snprintf(out, bytes, "uid %lld", (long long)uid);

    return out;
}

int sw_os_check_private_dir(const char *path, mode_t forbidden, const char *advice,
                            struct sw_err *err)
{
    struct stat st;
    char owner[128], self[128];

    if (sw_os()->stat(path, &st) != 0)
        return sw_err_errno(err, errno, "cannot stat directory %s", path);
    if (!S_ISDIR(st.st_mode))
        return sw_err_set(err, SW_ERR_IO, "%s is not a directory; remove it, or %s", path, advice);

    if (st.st_uid != geteuid())
        return sw_err_set(err, SW_ERR_IO,
                          "directory %s belongs to %s, and this process runs as %s; %s", path,
                          user_text(st.st_uid, owner, sizeof owner),
                          user_text(geteuid(), self, sizeof self), advice);

    if (st.st_mode & forbidden)
        return sw_err_set(
            err, SW_ERR_IO,
            "directory %s is open to other users (mode %04o); run `chmod %s %s`, or %s", path,
            st.st_mode & 07777, forbidden & 0055 ? "700" : "go-w", path, advice);

    return SW_OK;
}

int sw_os_sync_dir_of(const char *path, struct sw_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == path ? sw_strdup("/")
                : slash       ? sw_format("%.*s", (int)(slash - path), path)
                              : sw_strdup(".");
    if (!dir)
        return sw_err_nomem(err, path, strlen(path) + 1);

    int rc = SW_OK, fd = sw_os()->open(dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        rc = sw_err_errno(err, errno, "cannot open directory %s", dir);
    else if (sw_os()->fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        rc = sw_err_errno(err, errno, "cannot sync directory %s", dir);

    if (fd >= 0)
        sw_os()->close(fd);
    sw_free(dir);

    return rc;
}

static void release(struct sw_new_file *f)
{
    sw_free(f->path);
    sw_free(f->temp);
    *f = (struct sw_new_file){.fd = -1};
}

int sw_os_new_file_begin(struct sw_new_file *f, const char *path, mode_t mode, struct sw_err *err)
{
    uint64_t word;

    *f = (struct sw_new_file){.fd = -1};
    if (sw_os()->random_bytes(&word, sizeof word) != 0)
        return sw_err_errno(err, errno, "cannot choose a name for a temporary file beside %s",
                            path);

    f->path = sw_strdup(path);
    f->temp = sw_format("%s.tmp-%016llx", path, (unsigned long long)word);
    if (!f->path || !f->temp) {
        release(f);
        return sw_err_nomem(err, path, 2 * strlen(path) + 22);
    }
    f->fd = sw_os()->open(f->temp, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (f->fd < 0) {
        int reason = errno;
        release(f);
        return sw_err_errno(err, reason, "cannot create %s", path);
    }

    return SW_OK;
}

int sw_os_new_file_commit(struct sw_new_file *f, struct sw_err *err)
{
    int rc = SW_OK;

    if (sw_os()->fsync(f->fd) != 0)
        rc = sw_err_errno(err, errno, "cannot sync %s", f->path);

    /* close may report a delayed write error (NFS, quota); the descriptor is gone either way. */
    if (sw_os()->close(f->fd) != 0 && rc == SW_OK && errno != EINTR)
        rc = sw_err_errno(err, errno, "cannot close %s", f->path);
    f->fd = -1;
    if (rc == SW_OK && sw_os()->rename(f->temp, f->path) != 0)
        rc = sw_err_errno(err, errno, "cannot move the new file to %s", f->path);

    if (rc != SW_OK)
        sw_os()->unlink(f->temp);
    else
        rc = sw_os_sync_dir_of(f->path, err);

    release(f);
    return rc;
}

void sw_os_new_file_abandon(struct sw_new_file *f)
{
    if (f->fd >= 0) {
        sw_os()->close(f->fd);
        sw_os()->unlink(f->temp);
    }

    release(f);
}

int sw_os_replace_file(const char *path, const void *buf, size_t bytes, mode_t mode,
                       struct sw_err *err)
{
    struct sw_new_file f;

    int rc = sw_os_new_file_begin(&f, path, mode, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_os_write_all(f.fd, buf, bytes, path, err);
    if (rc == SW_OK)
        rc = sw_os_new_file_commit(&f, err);
    else
        sw_os_new_file_abandon(&f);

    return rc;
}
