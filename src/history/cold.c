/* Queues infrequent rows: each is copied into a list under the lock, and the writer thread takes
 * the whole list. Any thread may call. */
#include "history/writer.h"

#include "base/os.h"
#include "base/str.h"
#include <stdarg.h>

void sw_history_queue_row(struct sw_history *h, const struct sw_row *row)
{
    struct sw_row *copy = sw_row_copy(row);
    bool queued = false;

    sw_mutex_lock(&h->lock);

    if (copy && h->cold.count < SW_HISTORY_COLD_MAX) {
        if (h->cold.last)
            h->cold.last->next = copy;
        else
            h->cold.first = copy;

        h->cold.last = copy;
        h->cold.count++;
        queued = true;
    }

    sw_mutex_unlock(&h->lock);
    if (queued)
        return;

    sw_row_free(copy);
    atomic_fetch_add_explicit(&h->counts.lost, 1, memory_order_relaxed);
}

void sw_history_stage(struct sw_history *h, const struct sw_history_stage *s)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_STAGE, SW_INT(s->from_step), SW_TEXT(s->name),
                                    SW_COUNT(s->batch), SW_COUNT(s->epoch_records),
                                    SW_COUNT(s->params), SW_REAL(s->flops_per_sample)));
}

void sw_history_layer_time(struct sw_history *h, const char *layer, int worker, double forward_ms,
                           double backward_ms, int64_t samples)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_LAYER_TIME, SW_TEXT(layer), SW_INT(worker),
                                    SW_REAL(forward_ms), SW_REAL(backward_ms), SW_INT(samples)));
}

void sw_history_placement(struct sw_history *h, const char *unit, const char *device, int numa,
                          const char *cores, const char *reason)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_PLACEMENT, SW_TEXT(unit), SW_TEXT(device),
                                    numa < 0 ? SW_NULL : SW_INT(numa), SW_TEXT(cores),
                                    SW_TEXT(reason)));
}

void sw_history_placement_removed(struct sw_history *h)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_PLACEMENT_REMOVED, SW_NULL));
}

void sw_history_hardware(struct sw_history *h, const struct sw_hardware *hw)
{
    bool memory = hw->mem_used >= 0 && hw->mem_used < 1e18;

    sw_history_queue_row(
        h, &SW_ROW(SW_ROW_HARDWARE, SW_REAL(sw_os()->unix_time()), SW_TEXT(hw->device),
                   SW_REAL(hw->util), memory ? SW_INT((int64_t)hw->mem_used) : SW_NULL,
                   SW_REAL(hw->power_w), SW_REAL(hw->temp_c), SW_REAL(hw->clock_mhz)));
}

void sw_history_checkpoint(struct sw_history *h, int64_t step, const char *path, int64_t bytes,
                           const char *checksum, bool is_best)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_CHECKPOINT, SW_INT(step), SW_TEXT(path), SW_INT(bytes),
                                    SW_TEXT(checksum), SW_REAL(sw_os()->unix_time()),
                                    SW_INT(is_best)));
}

void sw_history_checkpoint_best(struct sw_history *h, int64_t step)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_CHECKPOINT_BEST, SW_INT(step)));
}

void sw_history_checkpoint_removed(struct sw_history *h, int64_t step)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_CHECKPOINT_REMOVED, SW_INT(step)));
}

void sw_history_event(struct sw_history *h, enum sw_log_level level, const char *source,
                      const char *fmt, ...)
{
    struct sw_bytes text = {0};
    va_list ap;

    va_start(ap, fmt);
    sw_bytes_vprintf(&text, fmt, ap);
    va_end(ap);
    sw_history_queue_row(h, &SW_ROW(SW_ROW_EVENT, SW_REAL(sw_os()->unix_time()),
                                    SW_TEXT(sw_log_level_name(level)), SW_TEXT(source),
                                    SW_TEXT(sw_bytes_text(&text))));
    sw_bytes_fini(&text);
}

void sw_history_tag(struct sw_history *h, const char *key, const char *value)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_TAG, SW_TEXT(key), SW_TEXT(value)));
}

void sw_history_finish_run(struct sw_history *h, enum sw_run_status status)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_FINISH, SW_TEXT(sw_run_status_name(status)),
                                    SW_REAL(sw_os()->unix_time())));
}
