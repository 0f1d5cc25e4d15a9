/* The text of a registry file: one JSON object. Internal to machine/. The files of other users are
 * read, too, so nothing in them is trusted. */
#pragma once

#include "base/str.h"
#include "machine/registry.h"

enum { SW_RESERVED_FILE_BYTES = 32768 };

void sw_reserved_write(const struct sw_reserved *r, struct sw_bytes *out);
/* Fills everything but user and file. Errors: SW_ERR_FORMAT, SW_ERR_NOMEM. */
int sw_reserved_parse(const char *text, size_t bytes, struct sw_reserved *r,
                      struct sw_err *err) SW_MUST_CHECK;
