/* Saved choices: everything besides the recipe that determines the bits of a run. Checkpoints store
 * it in their metadata as one JSON object, "choices".
 *
 *     {"version": 1,
 *      "workers": 2, "threads": 1,        with repeat_exact instead: "microbatches": 8
 *      "worker_groups": 2,                where there are several that do not share a batch
 *      "rows": [12, 4],                   with rebalance: of a batch, of each worker
 *      "exchange": [{"layer": "fc1", "mode": "sfb"}],
 *      "tune": [{"key": "forward ...", "way": "..."}],
 *      "algorithms": [{"layer": "conv1", "algorithm": "jit:avx2"}]}
 *
 * Older checkpoints have one line of text for each of these, which is read too. Pure, any thread.
 *
 * Choices are functions of shape, instruction set and number of threads. Only tune = yes, comm =
 * auto and memory = fit on GPUs measure anything; the choices of the first two are saved here, and
 * the third changes no bit. */
#pragma once

#include "base/exchange_mode.h"
#include "base/json.h"

enum { SW_SAVED_CHOICES_VERSION = 1 };

/* Parses either form; free *out with sw_json_free. Errors: SW_ERR_FORMAT (neither, or of a later
 * version), SW_ERR_NOMEM. */
int sw_saved_choices_parse(const char *text, struct sw_json **out,
                           struct sw_err *err) SW_MUST_CHECK;
/* Reads the choices of a checkpoint file. *out is NULL if the file cannot be opened, which the
 * later full read reports, or has no choices. Errors: those of sw_saved_choices_parse. */
int sw_saved_choices_read(const char *path, struct sw_json **out, struct sw_err *err) SW_MUST_CHECK;

/* kept may be NULL. Returns false if there are no rows, or their number or sum differs. */
bool sw_saved_choices_rows(const struct sw_json *kept, int count, int64_t sum, int64_t *rows);
/* The layer's saved exchange mode; AUTO: none saved. */
enum sw_exchange_mode sw_saved_choices_exchange_mode(const struct sw_json *kept, const char *layer);
