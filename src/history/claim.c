/* The lock file of a run's folder: opens it without following links, takes the flock, checks that
 * the path still names that file, and writes the owner into it. The error of a refused claim names
 * the owner, if the file and /proc tell it. */
#include "history/claim.h"

#include "base/os.h"
#include "base/str.h"
#include "history/process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum {
    TEXT = 512,        /* size of the file in bytes; it is fixed, so writing needs no truncation */
    OWNER_TRIES = 500, /* how often the file is read until its new owner has written it */
    OWNER_PAUSE_MS = 10,
};

/* The owner that the file names. */
struct owner {
    long long pid, start_ticks, since, run_id;
    char boot_id[SW_BOOT_ID_TEXT], host[256];
};

/* A field of the file is one word; "-" stands for an unknown value. */
static const char *word(const char *text)
{
    return *text ? text : "-";
}

void sw_claim_write_owner(const struct sw_claim *c, int64_t run_id)
{
    char text[TEXT + 1];
    struct sw_process me;

    if (!c->path)
        return;

    sw_process_self(&me);

    int n = snprintf(text, sizeof text, "pid %lld start %lld since %lld run %lld boot %s host %s",
                     (long long)me.pid, (long long)me.start_ticks, (long long)sw_os()->unix_time(),
                     (long long)run_id, word(me.boot_id), word(me.host));
    memset(text + n, ' ', (size_t)(TEXT - n));
    text[TEXT - 1] = '\n';

    /* The claim is valid even if the owner cannot be written. */
    ssize_t written = sw_os()->pwrite(c->fd, text, TEXT, 0);
    (void)written;
}

static bool read_owner(int fd, struct owner *o)
{
    char text[TEXT + 1];
    ssize_t n = sw_os()->pread(fd, text, TEXT, 0);

    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "pid %lld start %lld since %lld run %lld boot %39s host %255s", &o->pid,
                  &o->start_ticks, &o->since, &o->run_id, o->boot_id, o->host) == 6;
}

/* Reads the owner of the lock. For a moment after a process has taken the lock, the file is empty
 * or names a dead owner; then it is read again. An owner on another host cannot be checked and is
 * believed. */
static bool find_owner(int fd, struct owner *o)
{
    struct sw_process me;

    sw_process_self(&me);

    for (int i = 0; i < OWNER_TRIES; i++) {
        if (read_owner(fd, o) &&
            (!sw_str_eq(o->host, me.host) || sw_process_alive(o->pid, o->start_ticks, NULL)))
            return true;
        nanosleep(&(struct timespec){0, OWNER_PAUSE_MS * 1000000l}, NULL);
    }

    return false;
}

static int refuse(int fd, const char *folder, const char *advice, struct sw_err *err)
{
    struct owner o;
    char run[32] = "a run", since[32];

    if (!find_owner(fd, &o))
        return sw_err_set(err, SW_ERR_INVALID, "%s is in use by another process; %s", folder,
                          advice);

    time_t at = (time_t)o.since;
    struct tm tm;
    if (!localtime_r(&at, &tm) || !strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(since, sizeof since, "--");
    if (o.run_id > 0)
        snprintf(run, sizeof run, "run %lld", o.run_id);

    return sw_err_set(err, SW_ERR_INVALID,
                      "%s is in use: pid %lld on %s has been training %s there since %s; %s",
                      folder, o.pid, o.host, run, since, advice);
}

/* Opens the lock file. A symbolic link or a pipe of that name is not ours: it is neither followed
 * nor waited for. */
static int open_file(const char *path, int *fd, struct sw_err *err)
{
    struct stat st;

    *fd = sw_os()->open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (*fd < 0)
        return sw_err_errno(err, errno, "cannot open the lock file %s", path);
    if (sw_os()->fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return SW_OK;

    sw_os()->close(*fd);
    *fd = -1;
    return sw_err_set(err, SW_ERR_IO, "the lock file %s is not a regular file; remove it", path);
}

/* Whether the previous owner has removed the file between our open and our lock. */
static bool is_removed(int fd, const char *path)
{
    struct stat opened, there;
    return sw_os()->fstat(fd, &opened) != 0 || sw_os()->stat(path, &there) != 0 ||
           opened.st_dev != there.st_dev || opened.st_ino != there.st_ino;
}

/* Returns 0 or an errno: EWOULDBLOCK if another process has the lock. */
static int lock(int fd)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

/* Locks the file that currently has this path. *fd is open afterwards only on SW_OK; it stays -1 on
 * a file system without locks. */
static int lock_file(const char *path, const char *folder, const char *advice, struct sw_log *log,
                     int *fd, struct sw_err *err)
{
    for (;;) {
        int rc = open_file(path, fd, err);
        if (rc != SW_OK)
            return rc;

        int reason = lock(*fd);
        if (!reason && !is_removed(*fd, path))
            return SW_OK;

        if (reason == EWOULDBLOCK)
            rc = refuse(*fd, folder, advice, err);
        sw_os()->close(*fd);
        *fd = -1;
        if (rc != SW_OK)
            return rc;
        if (!reason)
            continue;

        sw_log_write(log, SW_LOG_WARN, "history",
                     "%s cannot be locked (%s): do not start a second run in this folder", path,
                     strerror(reason));
        return SW_OK;
    }
}

int sw_claim_take(struct sw_claim *c, const char *folder, int64_t run_id, const char *advice,
                  struct sw_log *log, struct sw_err *err)
{
    if (c->path)
        return SW_OK;

    char *path = sw_format("%s/" SW_CLAIM_FILE, folder);
    int fd = -1;
    if (!path)
        return sw_err_nomem(err, "path of a run's lock", strlen(folder) + 10);

    int rc = lock_file(path, folder, advice, log, &fd, err);
    if (rc != SW_OK || fd < 0) {
        sw_free(path);
        return rc;
    }

    *c = (struct sw_claim){path, fd};
    sw_claim_write_owner(c, run_id);
    return SW_OK;
}

void sw_claim_release(struct sw_claim *c)
{
    if (!c->path)
        return;

    /* The file is removed before the lock is released, so the next process that locks it sees that
     * it is gone. */
    if (!is_removed(c->fd, c->path))
        sw_os()->unlink(c->path);
    sw_os()->close(c->fd);
    sw_free(c->path);
    *c = (struct sw_claim){0};
}
