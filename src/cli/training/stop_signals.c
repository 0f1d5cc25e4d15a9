/* Handlers of SIGINT and SIGTERM: they count requests to stop and restore the default action when
 * there are too many. At its end the process raises the signal again, so that its parent sees how
 * it ended. The contract is in cli/training/stop_signals.h. */
#include "cli/training/stop_signals.h"

#include "base/stop.h"
#include "cli/cli.h"
#include <signal.h>

static void on_signal(int number)
{
    const int answered = sw_stop_is_held() ? 2 : 1;
    if (sw_stop_request(number) <= answered)
        return;

    signal(number, SIG_DFL);
    raise(number); /* delivered after this handler returns */
}

void sw_stop_signals_install(void)
{
    static const int handled[] = {SIGINT, SIGTERM};

    for (int i = 0; i < (int)(sizeof handled / sizeof *handled); i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(handled[i], &action, NULL);
    }
}

void sw_stop_signals_leave(int code)
{
    const int number = sw_stop_signal();
    if (number == 0 || code != SW_EXIT_SIGNAL + number)
        return;

    signal(number, SIG_DFL);
    raise(number);
}
