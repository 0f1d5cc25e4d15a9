/* Loss scales in checkpoints: of a server group's table. By the leader, between steps. */
#pragma once

#include "exchange/table/table.h"
#include "tensor/safetensors.h"

/* The scales of the table's update groups become metadata of server group `server_group`. */
int sw_scale_write(const struct sw_table *t, int server_group, struct sw_st_writer *w,
                   struct sw_err *err) SW_MUST_CHECK;
/* Takes those of server group `from` in the file; none there: the table's stay. Errors:
 * SW_ERR_FORMAT. */
int sw_scale_read(struct sw_table *t, const struct sw_st_file *f, const char *path, int from,
                  struct sw_err *err) SW_MUST_CHECK;
