/* Text files of lines, plain or .gz, as lists and labels have them. Pure but for reading the file;
 * any thread. */
#pragma once

#include "base/err.h"
#include <stdint.h>

/* Does something with a line: text without its end (\n or \r\n), with a zero byte behind it, which
 * may be changed. number counts from 1. */
typedef int sw_line_visit(void *user, const char *path, int64_t number, char *text,
                          struct sw_err *err);

/* Calls visit for every line, blank ones too, up to the first that fails.
 * Errors: those of visit, SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT (a zero byte;
 * more than max_bytes). */
int sw_lines_visit(const char *path, uint64_t max_bytes, sw_line_visit *visit, void *user,
                   struct sw_err *err) SW_MUST_CHECK;
