/* Shared by the sub-verbs of `singa-ws history` that write: merging pending rows, opening the
 * database for writing, and asking for confirmation. The contract is in cli/history/change.h. */
#include "cli/history/change.h"

#include "base/os.h"

#include <stdio.h>
#include <unistd.h>

int sw_history_change_open(struct sw_history_change *c, const struct sw_cli_common *o,
                           struct sw_err *err)
{
    struct sw_err ignored;
    struct sw_cli_common quiet = *o;
    char *path = NULL;

    quiet.quiet = true;

    int code = sw_history_default_path(o->db, NULL, &path, err);
    if (code)
        return code;

    /* Rows that cannot be merged now stay in their spool; the change concerns only stored rows. */
    if (sw_history_merge(path, NULL, NULL, &ignored) != SW_OK)
        ignored.code = SW_OK;
    code = sw_history_edit_open(&c->edit, path, err);
    sw_free(path);

    return code ? code : sw_history_view_open(&c->view, &quiet, err);
}

int sw_history_change_close(struct sw_history_change *c, int code, const struct sw_err *err)
{
    sw_history_edit_close(c->edit);
    return sw_history_view_close(&c->view, code, err);
}

int sw_history_confirm(bool yes, const char *question, struct sw_err *err)
{
    char answer[16];

    if (yes)
        return SW_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s Use --yes to confirm, or --dry-run to see what would be removed",
                          question);

    sw_cli_lines(question);
    sw_cli_lines(" [y/N] ");
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return SW_OK;

    return sw_err_set(err, SW_ERR_CANCELLED, "nothing was changed");
}
