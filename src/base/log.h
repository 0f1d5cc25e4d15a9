/* The log of a running job. A struct sw_log is passed by argument; there is no global one. Any
 * thread may call sw_log_*; sinks are called under the lock of the log. Hot paths do not log. */
#pragma once

#include "base/err.h"

enum sw_log_level { SW_LOG_DEBUG, SW_LOG_INFO, SW_LOG_WARN, SW_LOG_ERROR };

struct sw_log;

/* text has no newline. The sink must not call back into the log. */
typedef void sw_log_sink(void *user, enum sw_log_level level, const char *source, const char *text);

/* A log passes messages of at least `level` to sink, which is borrowed with user until it is
 * removed or the log is freed. Each of several sinks gets every message at or above its own level.
 */
struct sw_log *sw_log_new(void);
void sw_log_free(struct sw_log *log);
int sw_log_add_sink(struct sw_log *log, enum sw_log_level level, sw_log_sink *sink, void *user,
                    struct sw_err *err) SW_MUST_CHECK;
/* Removes the sink added with that user pointer; afterwards it is not called again. */
void sw_log_remove_sink(struct sw_log *log, void *user);

/* Logs a message. log may be NULL (nothing happens). source names the sender: "worker0.0",
 * "checkpoint". */
void sw_log_write(struct sw_log *log, enum sw_log_level level, const char *source, const char *fmt,
                  ...) SW_PRINTF(4, 5);
const char *sw_log_level_name(enum sw_log_level level); /* debug info warning error */
