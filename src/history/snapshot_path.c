/* Paths of live snapshots: in XDG_RUNTIME_DIR if that is safe, else below the state directory.
 * Finds the snapshot of a run, and removes files that dead processes left. */
#include "base/os.h"
#include "base/str.h"
#include "history/process.h"
#include "history/snapshot.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The two directories for live files. Either is NULL if its environment variable is not set. */
struct candidates {
    char *runtime, *state; /* owned */
    char *session;         /* owned; XDG_RUNTIME_DIR, the parent of runtime */
};

static const char runtime_advice[] = "set XDG_RUNTIME_DIR to a directory of your own";
static const char state_advice[] = "set XDG_STATE_HOME to a directory of your own";

static void candidates_fini(struct candidates *p)
{
    sw_free(p->runtime);
    sw_free(p->state);
    sw_free(p->session);
}

static int find_candidates(struct candidates *p, struct sw_err *err)
{
    *p = (struct candidates){0};

    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && runtime[0] == '/') {
        p->runtime = sw_format("%s/singa-ws", runtime);
        p->session = sw_strdup(runtime);
        if (!p->runtime || !p->session)
            return sw_err_nomem(err, "path of the live snapshot", 0);
    }

    char *state = NULL;
    int code = sw_history_state_dir(&state, err);
    if (code)
        return p->runtime && code != SW_ERR_NOMEM ? SW_OK : code;

    p->state = sw_format("%s/live", state);
    sw_free(state);
    return p->state ? SW_OK : sw_err_nomem(err, "path of the live snapshot", 0);
}

/* Creates a directory if it is missing, and checks that only our user can access it. */
static int make_private(const char *dir, const char *advice, struct sw_err *err)
{
    if (sw_os()->mkdir(dir, 0700) != 0 && errno != EEXIST)
        return sw_err_errno(err, errno, "cannot create directory %s", dir);

    int code = sw_os_check_private_dir(dir, 0077, advice, err);
    if (!code && access(dir, W_OK | X_OK) != 0)
        code = sw_err_errno(err, errno, "directory %s", dir);

    return code;
}

/* The base directory specification requires that XDG_RUNTIME_DIR belongs to the user with mode
 * 0700, and that a program warns about any other and uses a replacement. The directory is never
 * created; if it does not exist (in cron) there is no warning. */
static bool is_runtime_usable(const struct candidates *p, struct sw_log *log)
{
    struct sw_err why = {0};

    if (!p->runtime)
        return false;

    int code = sw_os_check_private_dir(p->session, 0077, runtime_advice, &why);
    if (code == SW_ERR_NOTFOUND)
        return false;

    if (!code)
        code = make_private(p->runtime, runtime_advice, &why);

    if (code)
        sw_log_write(log, SW_LOG_WARN, "snapshot", "%s; using the state directory for live files",
                     why.text);

    return code == SW_OK;
}

/* The pid in NAME.PID.tmp, or 0. */
static int64_t temporary_pid(const char *name)
{
    size_t n = strlen(name);

    if (!sw_str_ends(name, ".tmp"))
        return 0;

    size_t end = n - 4, start = end;
    while (start && name[start - 1] >= '0' && name[start - 1] <= '9')
        start--;

    return start && start < end && name[start - 1] == '.' ? strtoll(name + start, NULL, 10) : 0;
}

/* Whether a control socket is stale: it is created after the snapshot of its run and removed before
 * it. */
static bool has_no_snapshot(const char *sock)
{
    struct stat st;
    char *live = sw_format("%.*s.live", (int)strlen(sock) - 5, sock);
    bool gone = live && sw_os()->stat(live, &st) != 0 && errno == ENOENT;

    sw_free(live);
    return gone;
}

static bool is_stale(const char *path, const char *name)
{
    int64_t pid = temporary_pid(name);
    if (pid)
        return !sw_process_alive(pid, 0, NULL);
    if (sw_str_ends(name, ".sock"))
        return has_no_snapshot(path);

    struct sw_snapshot_reader *r;
    struct sw_snapshot_state state;
    if (!sw_str_ends(name, ".live") || sw_snapshot_reader_open(&r, path, NULL) != SW_OK)
        return false;

    bool dead = sw_snapshot_reader_state(r, &state) &&
                !sw_process_alive(state.pid, state.pid_start, state.boot_id);
    sw_snapshot_reader_close(r);

    return dead;
}

static void remove_stale(const char *dir, const char *ending)
{
    DIR *d = opendir(dir);
    if (!d)
        return;

    for (struct dirent *e; (e = readdir(d));) {
        char *path = sw_str_ends(e->d_name, ending) ? sw_format("%s/%s", dir, e->d_name) : NULL;
        if (path && is_stale(path, e->d_name))
            sw_os()->unlink(path);
        sw_free(path);
    }

    closedir(d);
}

/* Chooses the first directory that is safe. *dir is borrowed from p. */
static int choose_dir(const struct candidates *p, struct sw_log *log, const char **dir,
                      struct sw_err *err)
{
    *dir = p->runtime;
    if (is_runtime_usable(p, log))
        return SW_OK;

    *dir = p->state;
    if (!p->state)
        return sw_err_set(err, SW_ERR_IO,
                          "cannot choose a directory for the live snapshot: %s is not usable",
                          p->runtime);

    int code = sw_os_mkdirs(p->state, 0700, err);
    return code ? code : make_private(p->state, state_advice, err);
}

int sw_snapshot_path(const char *run_uid, struct sw_log *log, char **path, struct sw_err *err)
{
    struct candidates p;
    const char *dir = NULL;
    int code = find_candidates(&p, err);

    *path = NULL;
    if (!code)
        code = choose_dir(&p, log, &dir, err);

    if (!code) {
        remove_stale(dir, ".tmp");
        remove_stale(dir, ".live");
        remove_stale(dir, ".sock"); /* after .live, since a snapshot may just have been removed */
        *path = sw_format("%s/%s.live", dir, run_uid);
        if (!*path)
            code = sw_err_nomem(err, "path of the live snapshot", 0);
    }

    candidates_fini(&p);
    return code;
}

int sw_snapshot_find(const char *run_uid, char **path, struct sw_err *err)
{
    struct candidates p;
    struct stat st;
    struct sw_err ignored;
    int code = find_candidates(&p, err);

    *path = NULL;

    const char *dirs[] = {p.runtime, p.state};
    for (int i = 0; !code && i < 2; i++)
        if (dirs[i] && sw_os_check_private_dir(dirs[i], 0077, "", &ignored) != SW_OK)
            dirs[i] = NULL; /* a directory that others can write is not trusted */

    for (int i = 0; !code && i < 2 && !*path; i++) {
        char *candidate = dirs[i] ? sw_format("%s/%s.live", dirs[i], run_uid) : NULL;

        if (dirs[i] && !candidate)
            code = sw_err_nomem(err, "path of the live snapshot", 0);
        else if (candidate && sw_os()->stat(candidate, &st) == 0)
            *path = candidate;
        else
            sw_free(candidate);
    }

    candidates_fini(&p);

    if (!code && !*path)
        code =
            sw_err_set(err, SW_ERR_NOTFOUND, "run %s has no live snapshot on this host", run_uid);

    return code;
}
