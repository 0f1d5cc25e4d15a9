/* Loss scales of a server group's table in checkpoints. By the leader, between steps. */
#pragma once

#include "exchange/table/table.h"
#include "tensor/safetensors.h"

/* Writes the scales of the table's update groups as metadata of server group `server_group`. */
int sw_scale_write(const struct sw_table *t, int server_group, struct sw_st_writer *w,
                   struct sw_err *err) SW_MUST_CHECK;
/* Reads the scales of server group `from` of the file; if it has none, the table's scales stay.
 * Errors: SW_ERR_FORMAT. */
int sw_scale_read(struct sw_table *t, const struct sw_st_file *f, int from,
                  struct sw_err *err) SW_MUST_CHECK;
