/* SIGINT and SIGTERM as the process's request to stop (base/stop.h), from the first moment of a
 * verb that takes time to the end of the process: the only handlers of these two in such a verb.
 * The first signal asks, and work in setup or reading is abandoned; one more than is answered has
 * the signal's usual meaning and ends the process, so nothing that fails to look can ignore it. A
 * job in training answers two: the first with a checkpoint, the second by ending at once. Main
 * thread. */
#pragma once

/* Before the verb runs. */
void sw_stop_signals_install(void);
/* At the very end of main. When the code says that a signal ended the verb (128 and its number),
 * the process ends by that signal, so that a shell that runs it in a loop sees that, too. */
void sw_stop_signals_leave(int code);
