/* What a file or folder is, from its first bytes and, where these say nothing, its name: so that
 * `singa-ws data inspect FILE` needs no --format. A guess that is wrong does no harm: the format
 * itself looks at everything. Any thread. */
#pragma once

#include "data/format.h"

/* Sets *out, or NULL where it cannot be told. Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_data_sniff(const char *path, const struct sw_format **out, struct sw_err *err) SW_MUST_CHECK;
