/* The log: formats a message, splits it into lines and passes them to the sinks under one lock. The
 * mutex comes from thread/thread.h, the only user of pthread.h. Any thread may call; the contract
 * is in base/log.h. */
#include "base/log.h"
#include "base/os.h"
#include "thread/thread.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SINKS = 8, MAX_MESSAGE = 2 * SW_ERR_TEXT };

struct sink {
    sw_log_sink *call;
    void *user; /* borrowed until removed */
    enum sw_log_level level;
};

struct sw_log {
    struct sw_mutex lock; /* guards all below; held while sinks run */
    struct sink sinks[MAX_SINKS];
    int count;
};

struct sw_log *sw_log_new(void)
{
    struct sw_log *log = sw_calloc(1, sizeof *log);
    if (log)
        sw_mutex_init(&log->lock);
    return log;
}

void sw_log_free(struct sw_log *log)
{
    if (log)
        sw_mutex_fini(&log->lock);
    sw_free(log);
}

int sw_log_add_sink(struct sw_log *log, enum sw_log_level level, sw_log_sink *sink, void *user,
                    struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&log->lock);

    if (log->count == MAX_SINKS)
        rc = sw_err_set(err, SW_ERR_NOMEM, "a log can have at most %d sinks", MAX_SINKS);
    else
        log->sinks[log->count++] = (struct sink){.call = sink, .user = user, .level = level};

    sw_mutex_unlock(&log->lock);
    return rc;
}

void sw_log_remove_sink(struct sw_log *log, void *user)
{
    sw_mutex_lock(&log->lock);

    int kept = 0;
    for (int i = 0; i < log->count; i++)
        if (log->sinks[i].user != user)
            log->sinks[kept++] = log->sinks[i];

    log->count = kept;
    sw_mutex_unlock(&log->lock);
}

/* Passes a line to the sinks of its level. The caller holds log->lock. */
static void hand_out(struct sw_log *log, enum sw_log_level level, const char *source,
                     const char *line)
{
    for (int i = 0; i < log->count; i++)
        if (level >= log->sinks[i].level)
            log->sinks[i].call(log->sinks[i].user, level, source, line);
}

void sw_log_write(struct sw_log *log, enum sw_log_level level, const char *source, const char *fmt,
                  ...)
{
    if (!log)
        return;

    char text[MAX_MESSAGE];
    va_list ap;
    va_start(ap, fmt);

    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;

    /* A text may have several lines; sinks get them one by one under one lock. */
    sw_mutex_lock(&log->lock);

    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (next && !*next)
            next = NULL;
        hand_out(log, level, source, line);
    }

    sw_mutex_unlock(&log->lock);
}

const char *sw_log_level_name(enum sw_log_level level)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    return names[level];
}
