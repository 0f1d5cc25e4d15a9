/* Turns SIGINT and SIGTERM into requests to stop (base/stop.h), from the start of a verb that takes
 * time to the end of the process; such a verb has no other handlers for them. The first signal
 * requests a stop, and work in setup or reading is abandoned. A signal beyond those that are
 * handled gets its default action and ends the process, so that code that fails to check cannot
 * ignore it. A job in training handles two: the first with a checkpoint, the second by ending at
 * once. Main thread. */
#pragma once

/* Before the verb runs. */
void sw_stop_signals_install(void);
/* To be called at the very end of main. If the code is 128 and the number of a signal, the process
 * ends by that signal, so that a shell that runs it in a loop stops too. */
void sw_stop_signals_leave(int code);
