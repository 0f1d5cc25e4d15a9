/* What decides the bits of a run beside its recipe, as checkpoints keep it in their metadata: one
 * JSON object under "choices".
 *
 *     {"version": 1,
 *      "workers": 2, "threads": 1,        with repeat_exact instead: "microbatches": 8
 *      "worker_groups": 2,                where there are several that do not share a batch
 *      "rows": [12, 4],                   with rebalance: of a batch, of each worker
 *      "exchange": [{"layer": "fc1", "mode": "sfb"}],
 *      "tune": [{"key": "forward ...", "way": "..."}],
 *      "algorithms": [{"layer": "conv1", "algorithm": "jit:avx2"}]}
 *
 * Older checkpoints have a line of text for each of these, which is read, too. Pure, any thread.
 *
 * Choices are functions of shape, instruction set and number of threads. Only tune = yes, comm =
 * auto and memory = fit on GPUs measure anything; what the first two chose is kept here, the third
 * changes no bit. */
#pragma once

#include "base/comm_way.h"
#include "base/json.h"

enum { SW_KEPT_VERSION = 1 };

/* Of either form; sw_json_free. Errors: SW_ERR_FORMAT (neither, or of a later version),
 * SW_ERR_NOMEM. */
int sw_kept_parse(const char *text, struct sw_json **out, struct sw_err *err) SW_MUST_CHECK;
/* Of a file; NULL where it cannot be opened, which is told by who reads all of it, or has none.
 * Errors: those of parse. */
int sw_kept_read(const char *path, struct sw_json **out, struct sw_err *err) SW_MUST_CHECK;

/* kept may be NULL. False where there are no rows, or not so many, or their sum is another. */
bool sw_kept_rows(const struct sw_json *kept, int count, int64_t sum, int64_t *rows);
/* How the layer's gradients are exchanged; AUTO: nothing is said. */
enum sw_comm_way sw_kept_comm(const struct sw_json *kept, const char *layer);
