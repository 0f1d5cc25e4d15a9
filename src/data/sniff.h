/* Detects the format of a file or folder from its first bytes and, if these are not characteristic,
 * from its name, so that `singa-ws data inspect FILE` needs no --format. A wrong guess is harmless:
 * the format checks the file itself. Any thread. */
#pragma once

#include "data/format.h"

/* Sets *out to the format, or to NULL if it is unknown. Errors: SW_ERR_NOTFOUND, SW_ERR_IO,
 * SW_ERR_NOMEM. */
int sw_data_sniff(const char *path, const struct sw_format **out, struct sw_err *err) SW_MUST_CHECK;
