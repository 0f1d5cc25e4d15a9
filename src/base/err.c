/* Formats error messages into struct sw_err. A NULL err is allowed everywhere: the functions then
 * only return the code. The contract is in base/err.h. */
#include "base/err.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The text is built in a local buffer first, since arguments may point into err->text. */
static void build(char *text, const char *fmt, va_list ap)
{
    if (vsnprintf(text, SW_ERR_TEXT, fmt, ap) < 0)
        text[0] = '\0';
}

/* Appends with truncation; a message that is too long loses its end, never its beginning. */
static void append(char *text, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, SW_ERR_TEXT - used, "%s", more);
}

static int store(struct sw_err *err, int code, const char *text)
{
    err->code = code;
    memcpy(err->text, text, strlen(text) + 1);
    return code;
}

int sw_err_set(struct sw_err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;

    char text[SW_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    build(text, fmt, ap);
    va_end(ap);

    return store(err, code, text);
}

int sw_err_errno(struct sw_err *err, int errno_value, const char *fmt, ...)
{
    int code = errno_value == ENOENT ? SW_ERR_NOTFOUND : SW_ERR_IO;

    if (!err)
        return code;

    char text[SW_ERR_TEXT], reason[128];
    va_list ap;
    va_start(ap, fmt);
    build(text, fmt, ap);
    va_end(ap);
    append(text, ": ");
    append(text, strerror_r(errno_value, reason, sizeof reason));

    return store(err, code, text);
}

int sw_err_prefix(struct sw_err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;

    char text[SW_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    build(text, fmt, ap);
    va_end(ap);
    append(text, ": ");
    append(text, err->text);

    return store(err, err->code == SW_OK ? code : err->code, text);
}
