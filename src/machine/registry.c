/* The registry of cores and GPUs in use. The contract is in machine/registry.h.
 *
 * FOLDER/lock    locked by the process that has the registry open
 * FOLDER/HEX.run what one run uses; locked by that run as long as it lives
 *
 * The folder has mode 1777 like /tmp and the files 0644, so every user can read all of them, and
 * nobody can change or remove those of another user. */
#include "machine/registry.h"

#include "base/os.h"
#include "history/history.h"
#include "machine/reserved.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { OPEN_MS = 10000, RETRY_MS = 5 };

static const char run_suffix[] = ".run";
static const char shared_parent[] = "/run/lock";

struct sw_registry {
    char *folder; /* owned */
    int lock_fd;
    struct sw_reserved *items; /* owned; by ticket */
    int count;
};

struct sw_registration {
    char *path; /* owned */
    char file[sizeof((struct sw_reserved *)0)->file];
    int fd; /* holds the lock */
};

/* ---- The folder ---- */

/* Creates the folder if it is missing. False if it cannot be used: it is no folder, or this user
 * may not create files there. */
static bool make_folder(const char *path, mode_t mode)
{
    struct stat st;

    if (sw_os()->mkdir(path, mode) == 0)
        (void)!chmod(path, mode); /* the umask may have removed bits */
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(path, W_OK | X_OK) == 0;
}

/* The folder in the state directory, for one user only. */
static int make_own_folder(char **out, struct sw_err *err)
{
    char *state = NULL;

    int rc = sw_history_state_dir(&state, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_os_mkdirs(state, 0700, err);

    *out = rc == SW_OK ? sw_format("%s/registry", state) : NULL;
    sw_free(state);
    if (rc == SW_OK && !*out)
        rc = sw_err_nomem(err, "path of the registry of runs", 0);
    if (rc == SW_OK && !make_folder(*out, 0700)) {
        rc = sw_err_set(err, SW_ERR_IO, "the folder %s cannot be used", *out);
        sw_free(*out);
    }

    return rc;
}

static int find_folder(char **out, struct sw_err *err)
{
    const char *chosen = getenv("SINGA_REGISTRY");

    if (chosen && *chosen) {
        if (!make_folder(chosen, 01777))
            return sw_err_set(err, SW_ERR_IO,
                              "SINGA_REGISTRY=%s must be a folder in which files can be created",
                              chosen);

        *out = sw_strdup(chosen);
        return *out ? SW_OK : sw_err_nomem(err, "path of the registry of runs", 0);
    }

    *out = sw_format("%s/singa-ws", shared_parent);
    if (!*out)
        return sw_err_nomem(err, "path of the registry of runs", 0);
    if (make_folder(*out, 01777))
        return SW_OK;

    sw_free(*out);
    return make_own_folder(out, err);
}

/* ---- Locks ---- */

/* Opens a file that is neither a link nor a pipe; creates it if it is missing. A file of another
 * user can only be read, which is enough for a lock. -1 and errno on failure. */
static int open_lock(const char *path)
{
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = -1;

    for (int tries = 0; fd < 0 && tries < 3; tries++) {
        fd = sw_os()->open(path, O_RDWR | flags, 0);
        if (fd < 0 && errno == EACCES)
            fd = sw_os()->open(path, O_RDONLY | flags, 0);
        if (fd < 0 && errno == ENOENT) {
            fd = sw_os()->open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0644);
            if (fd >= 0)
                (void)!fchmod(fd, 0644);
        }
    }

    return fd;
}

/* Returns 0, EWOULDBLOCK if another process has the lock, or another errno. */
static int try_lock(int fd, int how)
{
    while (flock(fd, how | LOCK_NB) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static int lock_folder(struct sw_registry *r, int patience_ms, struct sw_err *err)
{
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)patience_ms * 1000000;
    char *path = sw_format("%s/lock", r->folder);
    if (!path)
        return sw_err_nomem(err, "path of the registry of runs", 0);

    r->lock_fd = open_lock(path);

    int reason = r->lock_fd < 0 ? errno : try_lock(r->lock_fd, LOCK_EX);
    while (reason == EWOULDBLOCK && sw_os()->monotonic_ns() < until_ns) {
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
        reason = try_lock(r->lock_fd, LOCK_EX);
    }

    int rc = reason == 0 ? SW_OK
             : reason == EWOULDBLOCK
                 ? sw_err_set(err, SW_ERR_BUSY, "another process has held %s for more than %d s",
                              path, patience_ms / 1000)
                 : sw_err_errno(err, reason, "cannot lock %s", path);
    sw_free(path);

    return rc;
}

/* ---- Reading ---- */

/* Reads the file of a run that is alive; false if it has no content that can be understood. */
static bool read_file(int fd, struct sw_reserved *out)
{
    char text[SW_RESERVED_FILE_BYTES];
    struct stat st;
    struct sw_err ignored;
    ssize_t n = sw_os()->pread(fd, text, sizeof text, 0);

    if (n <= 0 || sw_os()->fstat(fd, &st) != 0 ||
        sw_reserved_parse(text, (size_t)n, out, &ignored) != SW_OK)
        return false;

    out->user = st.st_uid;
    return true;
}

/* Adds the run of a file, or removes the file if its run has ended. */
static int read_run(struct sw_registry *r, const char *name, struct sw_err *err)
{
    struct sw_reserved found;
    struct stat st;
    char *path = sw_format("%s/%s", r->folder, name);
    if (!path)
        return sw_err_nomem(err, "path of the registry of runs", 0);

    int rc = SW_OK;
    int fd = sw_os()->open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 || sw_os()->fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        goto out;

    if (try_lock(fd, LOCK_SH) != EWOULDBLOCK) {
        sw_os()->unlink(path); /* of another user it stays, and means nothing */
        goto out;
    }

    if (!read_file(fd, &found))
        goto out;

    snprintf(found.file, sizeof found.file, "%s", name);
    struct sw_reserved *item = sw_array_add(&r->items, &r->count, sizeof *item);
    if (item)
        *item = found;
    else
        rc = sw_err_nomem(err, "the registry of runs", sizeof *item);

out:
    if (fd >= 0)
        sw_os()->close(fd);
    sw_free(path);
    return rc;
}

static int by_ticket(const void *a, const void *b)
{
    const struct sw_reserved *x = a, *y = b;
    return x->ticket != y->ticket ? (x->ticket < y->ticket ? -1 : 1) : strcmp(x->file, y->file);
}

static int read_all(struct sw_registry *r, struct sw_err *err)
{
    int rc = SW_OK;
    DIR *folder = opendir(r->folder);
    if (!folder)
        return sw_err_errno(err, errno, "cannot read %s", r->folder);

    for (struct dirent *e; rc == SW_OK && (e = readdir(folder));)
        if (sw_str_ends(e->d_name, run_suffix) &&
            strlen(e->d_name) < sizeof((struct sw_reserved *)0)->file)
            rc = read_run(r, e->d_name, err);
    closedir(folder);

    if (r->count > 1)
        qsort(r->items, (size_t)r->count, sizeof *r->items, by_ticket);
    return rc;
}

static int open_within(int patience_ms, struct sw_registry **out, struct sw_err *err)
{
    struct sw_registry *r = sw_calloc(1, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "the registry of runs", sizeof *r);

    r->lock_fd = -1;

    int rc = find_folder(&r->folder, err);
    if (rc != SW_OK)
        goto out;
    rc = lock_folder(r, patience_ms, err);
    if (rc != SW_OK)
        goto out;
    rc = read_all(r, err);
    if (rc != SW_OK)
        goto out;

    *out = r;
    return SW_OK;

out:
    sw_registry_close(r);
    return sw_err_prefix(err, rc, "the registry of runs");
}

int sw_registry_open(struct sw_registry **out, struct sw_err *err)
{
    return open_within(OPEN_MS, out, err);
}

int sw_registry_try_open(struct sw_registry **out, struct sw_err *err)
{
    return open_within(0, out, err);
}

void sw_registry_close(struct sw_registry *r)
{
    if (!r)
        return;

    if (r->lock_fd >= 0)
        sw_os()->close(r->lock_fd); /* releases the lock */
    sw_free(r->folder);
    sw_free(r->items);
    sw_free(r);
}

int sw_registry_count(const struct sw_registry *r)
{
    return r->count;
}

const struct sw_reserved *sw_registry_at(const struct sw_registry *r, int index)
{
    return &r->items[index];
}

/* ---- Registering ---- */

bool sw_registration_is(const struct sw_registration *registration, const struct sw_reserved *of)
{
    return registration && sw_str_eq(registration->file, of->file);
}

int sw_registration_write(struct sw_registration *registration, const struct sw_reserved *reserved,
                          struct sw_err *err)
{
    struct sw_bytes text = {0};

    sw_reserved_write(reserved, &text);

    int rc = text.failed ? sw_err_nomem(err, "the registry of runs", text.length)
                         : sw_os_pwrite_all(registration->fd, text.text, text.length, 0,
                                            registration->path, err);
    if (rc == SW_OK && sw_os()->ftruncate(registration->fd, (off_t)text.length) != 0)
        rc = sw_err_errno(err, errno, "cannot write %s", registration->path);
    sw_bytes_fini(&text);

    return rc;
}

static int create(struct sw_registry *r, struct sw_registration *n, struct sw_err *err)
{
    uint64_t number;

    if (sw_os()->random_bytes(&number, sizeof number) != 0)
        return sw_err_errno(err, errno, "the system has no random number");

    snprintf(n->file, sizeof n->file, "%016llx%s", (unsigned long long)number, run_suffix);
    n->path = sw_format("%s/%s", r->folder, n->file);
    if (!n->path)
        return sw_err_nomem(err, "path of the registry of runs", 0);

    n->fd = sw_os()->open(n->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (n->fd < 0)
        return sw_err_errno(err, errno, "cannot create %s", n->path);

    (void)!fchmod(n->fd, 0644); /* the umask may have removed bits */

    int reason = try_lock(n->fd, LOCK_EX);
    return reason ? sw_err_errno(err, reason, "cannot lock %s", n->path) : SW_OK;
}

int sw_registry_add(struct sw_registry *r, struct sw_reserved *reserved,
                    struct sw_registration **out, struct sw_err *err)
{
    struct sw_registration *n = sw_calloc(1, sizeof *n);
    if (!n)
        return sw_err_nomem(err, "the registry of runs", sizeof *n);

    n->fd = -1;
    reserved->ticket = r->count > 0 ? r->items[r->count - 1].ticket + 1 : 1;
    reserved->pid = getpid();
    reserved->user = geteuid();
    reserved->since = sw_os()->unix_time();

    int rc = create(r, n, err);
    if (rc == SW_OK)
        rc = sw_registration_write(n, reserved, err);
    if (rc != SW_OK) {
        sw_registration_free(n);
        return rc;
    }

    *out = n;
    return SW_OK;
}

void sw_registration_free(struct sw_registration *registration)
{
    if (!registration)
        return;

    if (registration->fd >= 0) {
        sw_os()->unlink(registration->path); /* before the lock is released */
        sw_os()->close(registration->fd);
    }

    sw_free(registration->path);
    sw_free(registration);
}
