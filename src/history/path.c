/* Finds the path of the history: --db, SINGA_DB, the key of the recipe, else the state directory of
 * the XDG base directory specification, in which others must not be able to write. */
#include "base/os.h"
#include "base/str.h"
#include "history/history.h"
#include <stdlib.h>

const char *sw_run_status_name(enum sw_run_status s)
{
    static const char *const names[] = {"running", "done", "failed", "stopped", "crashed"};
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "?";
}

static bool is_set(const char *s)
{
    return s && *s;
}

int sw_history_state_dir(char **path, struct sw_err *err)
{
    *path = NULL;

    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    /* The base directory specification requires that a relative path is ignored. */
    if (is_set(state) && state[0] == '/')
        *path = sw_format("%s/singa-ws", state);
    else if (is_set(home))
        *path = sw_format("%s/.local/state/singa-ws", home);
    else
        return sw_err_set(
            err, SW_ERR_NOTFOUND,
            "cannot choose a path for the history: neither XDG_STATE_HOME nor HOME is set; "
            "set one, or give --db FILE");

    if (!*path)
        return sw_err_nomem(err, "path of the state directory", 0);

    struct sw_err why;
    int code =
        sw_os_check_private_dir(*path, 0022, "set XDG_STATE_HOME to a directory of your own", &why);
    if (code == SW_OK || code == SW_ERR_NOTFOUND)
        return SW_OK;

    sw_free(*path);
    *path = NULL;
    return sw_err_set(err, code, "%s", why.text);
}

int sw_history_default_path(const char *option, const char *job_db, char **path, struct sw_err *err)
{
    const char *env = getenv("SINGA_DB");
    const char *chosen = is_set(option)   ? option
                         : is_set(env)    ? env
                         : is_set(job_db) ? job_db
                                          : NULL;

    *path = NULL;
    if (chosen) {
        *path = sw_strdup(chosen);
        return *path ? SW_OK : sw_err_nomem(err, "path of the history", 0);
    }

    char *state;
    int code = sw_history_state_dir(&state, err);
    if (code)
        return code;

    *path = sw_format("%s/history.db", state);
    sw_free(state);
    return *path ? SW_OK : sw_err_nomem(err, "path of the history", 0);
}
