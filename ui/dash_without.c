/* Replaces dash.c in builds without ncurses. Text snapshots (`top --once`) work without it. */
#include "ui/dash.h"

int sw_dash_run(const struct sw_dash_args *args, int *ended_by, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "this program was built without ncurses (Debian: libncurses-dev); top --once "
                      "prints a text snapshot");
}
