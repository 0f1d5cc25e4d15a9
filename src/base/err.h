/* Errors. Every fallible function returns SW_OK or a negative SW_ERR_* code and writes one sentence
 * into the caller's struct sw_err: the function that knows the cause writes it, callers may put
 * context in front ("layer conv3: ..."), and it is printed once, in cli/ or ui/.
 * A struct sw_err has one owner and no lock; it may be a local variable. */
#pragma once

#define SW_MUST_CHECK __attribute__((warn_unused_result))
#define SW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

enum sw_err_code {
    SW_OK = 0,
    SW_ERR_INVALID = -1,     /* a value the user wrote is wrong: recipe, option, shape */
    SW_ERR_NOMEM = -2,       /* memory is exhausted; the message names the object and its bytes */
    SW_ERR_IO = -3,          /* the operating system refused: read, write, fsync, full disk */
    SW_ERR_NOTFOUND = -4,    /* a required file, run, device or tensor is missing */
    SW_ERR_FORMAT = -5,      /* input data is damaged or has inconsistent sizes */
    SW_ERR_UNSUPPORTED = -6, /* the device or build cannot do it */
    SW_ERR_CANCELLED = -7,   /* another thread failed first, or a stop was requested */
    SW_ERR_DIVERGED = -8,    /* a loss or gradient is not finite */
    SW_ERR_LIBRARY = -9,     /* a library failed in a way that fits none of the above */
    SW_ERR_BUSY = -10,       /* try again later: a lock is held, a queue is full */
    SW_ERR_LOST = -11,       /* another host of the job is gone */
};

enum { SW_ERR_TEXT = 1024 };

struct sw_err {
    int code;               /* enum sw_err_code */
    char text[SW_ERR_TEXT]; /* one sentence without a final newline; may hold several lines */
};

/* Writes the message and returns code, so that `return sw_err_set(err, ...)` reads well.
 * err may be NULL. */
int sw_err_set(struct sw_err *err, int code, const char *fmt, ...) SW_PRINTF(3, 4);

/* Sets SW_ERR_IO (SW_ERR_NOTFOUND for ENOENT) and the message, followed by ": " and
 * strerror(errno_value). Returns err->code. */
int sw_err_errno(struct sw_err *err, int errno_value, const char *fmt, ...) SW_PRINTF(3, 4);

/* Puts context and ": " in front of the message; returns err->code. err may be NULL (returns code).
 */
int sw_err_prefix(struct sw_err *err, int code, const char *fmt, ...) SW_PRINTF(3, 4);
