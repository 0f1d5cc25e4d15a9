/* Sums of files, and copies of them that come through a pipe. A file is read and written in pieces,
 * so that its size does not matter. */
#include "run/host_files.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/str.h"
#include "history/history.h"
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };

/* A piece of a file, and the sum of all pieces so far. */
struct piece {
    char *data; /* owned [PIECE_BYTES] */
    struct sw_hash_state *hash;
};

static int piece_init(struct piece *p, struct sw_err *err)
{
    p->data = sw_calloc(PIECE_BYTES, 1);
    p->hash = sw_hash_new();
    return p->data && p->hash ? SW_OK : sw_err_nomem(err, "a piece of a file", PIECE_BYTES);
}

static void piece_fini(struct piece *p)
{
    sw_free(p->data);
    sw_hash_free(p->hash);
}

static size_t next_bytes(int64_t left)
{
    return left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
}

static int sum_up(int fd, const char *path, int64_t bytes, struct piece *p, struct sw_err *err)
{
    for (int64_t at = 0; at < bytes;) {
        const size_t n = next_bytes(bytes - at);

        int rc = sw_os_pread_all(fd, p->data, n, (off_t)at, path, err);
        if (rc != SW_OK)
            return rc;
        sw_hash_update(p->hash, p->data, n);
        at += (int64_t)n;
    }

    return SW_OK;
}

int sw_host_file_read(const char *path, struct sw_host_file *out, struct sw_err *err)
{
    struct piece p = {NULL};
    uint64_t bytes;
    int fd;

    int rc = sw_os_open_regular(path, &fd, &bytes, err);
    if (rc != SW_OK)
        return rc;

    rc = piece_init(&p, err);
    if (rc == SW_OK)
        rc = sum_up(fd, path, (int64_t)bytes, &p, err);
    if (rc == SW_OK) {
        out->bytes = (int64_t)bytes;
        sw_hash_hex(sw_hash_finish(p.hash), out->sum);
    }

    piece_fini(&p);
    (void)sw_os()->close(fd);
    return rc;
}

bool sw_host_file_is_here(const struct sw_host_file *f)
{
    struct sw_host_file own;
    struct sw_err ignored;
    struct stat st;

    return sw_os()->stat(f->path, &st) == 0 && (int64_t)st.st_size == f->bytes &&
           sw_host_file_read(f->path, &own, &ignored) == SW_OK && own.bytes == f->bytes &&
           strcmp(own.sum, f->sum) == 0;
}

/* Reads the next bytes of a pipe, *n of them and at most `most`. */
static int read_some(int fd, char *to, size_t most, size_t *n, struct sw_err *err)
{
    ssize_t got;

    do
        got = sw_os()->read(fd, to, most);
    while (got < 0 && errno == EINTR);

    if (got < 0)
        return sw_err_errno(err, errno, "cannot read a file from its host");
    if (got == 0)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "the connection ended before the file was complete");
    *n = (size_t)got;
    return SW_OK;
}

static int copy(const struct sw_host_file *f, int from, const struct sw_new_file *to,
                struct piece *p, struct sw_err *err)
{
    for (int64_t left = f->bytes; left > 0;) {
        size_t n = 0;

        int rc = read_some(from, p->data, next_bytes(left), &n, err);
        if (rc == SW_OK)
            rc = sw_os_write_all(to->fd, p->data, n, to->path, err);
        if (rc != SW_OK)
            return rc;
        sw_hash_update(p->hash, p->data, n);
        left -= (int64_t)n;
    }

    return SW_OK;
}

static int check_sum(const struct sw_host_file *f, const struct piece *p, const char *path,
                     struct sw_err *err)
{
    char sum[SW_HOST_FILE_SUM];

    sw_hash_hex(sw_hash_finish(p->hash), sum);
    if (strcmp(sum, f->sum) == 0)
        return SW_OK;
    return sw_err_set(err, SW_ERR_FORMAT, "%s was damaged on its way: its sum is %s, not %s", path,
                      sum, f->sum);
}

int sw_host_file_receive(const struct sw_host_file *f, int fd, const char *path, struct sw_err *err)
{
    struct sw_new_file file = {.fd = -1};
    struct piece p = {NULL};

    int rc = piece_init(&p, err);
    if (rc == SW_OK)
        rc = sw_os_new_file_begin(&file, path, 0600, err);
    if (rc == SW_OK)
        rc = copy(f, fd, &file, &p, err);
    if (rc == SW_OK)
        rc = check_sum(f, &p, path, err);
    if (rc == SW_OK)
        rc = sw_os_new_file_commit(&file, err);

    sw_os_new_file_abandon(&file);
    piece_fini(&p);
    return rc;
}

int sw_host_files_folder(const char *uid, char **folder, struct sw_err *err)
{
    char *state = NULL;

    int rc = sw_history_state_dir(&state, err);
    if (rc != SW_OK)
        return rc;

    char *path = sw_format("%s/hosts/%s", state, uid);
    sw_free(state);
    if (!path)
        return sw_err_nomem(err, "the folder of a run", 0);

    rc = sw_os_mkdirs(path, 0700, err);
    if (rc == SW_OK)
        *folder = path;
    else
        sw_free(path);
    return rc;
}

void sw_host_files_remove(const char *folder)
{
    DIR *dir = folder ? opendir(folder) : NULL;

    if (!dir)
        return;

    for (const struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    (void)closedir(dir);
    (void)rmdir(folder);
}
