/* Queues infrequent rows: each is copied into a list under the lock, and the writer thread takes
 * the whole list. Any thread may call. */
#include "history/part.h"
#include "history/writer.h"

#include "base/os.h"
#include "base/str.h"
#include <stdarg.h>

void sw_history_count_lost(struct sw_history *h, uint64_t rows)
{
    atomic_fetch_add_explicit(&h->counts.lost, rows, memory_order_relaxed);
}

/* Appends a row, which the list then owns; false: the list is full. */
static bool append(struct sw_history *h, struct sw_row *row)
{
    bool queued = false;

    sw_mutex_lock(&h->lock);

    if (h->cold.count < SW_HISTORY_COLD_MAX) {
        if (h->cold.last)
            h->cold.last->next = row;
        else
            h->cold.first = row;

        h->cold.last = row;
        h->cold.count++;
        queued = true;
    }

    sw_mutex_unlock(&h->lock);
    return queued;
}

void sw_history_queue_row(struct sw_history *h, const struct sw_row *row)
{
    struct sw_row *copy = sw_row_copy(row);
    if (copy && append(h, copy))
        return;

    sw_row_free(copy);
    sw_history_count_lost(h, 1);
}

void sw_history_queue_taken(struct sw_history *h, struct sw_row *row, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(&h->taken_bytes, bytes, memory_order_relaxed);

    row->taken_bytes = bytes;
    if (before + bytes <= SW_HISTORY_TAKEN_WAITING && append(h, row))
        return;

    atomic_fetch_sub_explicit(&h->taken_bytes, bytes, memory_order_relaxed);
    sw_row_free(row);
    sw_history_count_lost(h, 1);
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

void sw_history_plan(struct sw_history *h, const char *json, double predicted_ms,
                     const char *overrides)
{
    sw_history_queue_row(
        h, &SW_ROW(SW_ROW_PLAN, SW_TEXT(json), SW_REAL(predicted_ms), SW_TEXT(overrides)));
}

void sw_history_changed(struct sw_history *h, int64_t from_step, const struct sw_run_info *i)
{
    sw_history_queue_row(h,
                         &SW_ROW(SW_ROW_CHANGED, SW_INT(from_step), SW_REAL(sw_os()->unix_time()),
                                 SW_TEXT(i->framework), SW_INT(i->workers), SW_TEXT(i->device)));
}

void sw_history_plan_measured(struct sw_history *h, double measured_ms)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_PLAN_MEASURED, SW_REAL(measured_ms)));
}

void sw_history_host(struct sw_history *h, const struct sw_history_host *host)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_HOST, SW_INT(host->number), SW_TEXT(host->name),
                                    SW_TEXT(host->address), SW_TEXT(host->cpu), SW_TEXT(host->gpus),
                                    SW_TEXT(host->fabric), SW_REAL(host->clock_offset_ms),
                                    SW_REAL(host->clock_error_ms), SW_REAL(host->joined_at),
                                    SW_REAL(host->left_at), SW_TEXT(host->why)));
}

void sw_history_net(struct sw_history *h, const char *from, const char *to, int64_t step,
                    int64_t bytes, double ms)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_TRAFFIC, SW_INT(step), SW_TEXT(from), SW_TEXT(to),
                                    SW_TEXT("net"), SW_INT(bytes), SW_REAL(ms)));
}

void sw_history_net_rate(struct sw_history *h, const char *from, const char *to, int64_t step,
                         double bytes_per_s)
{
    sw_history_queue_row(h,
                         &SW_ROW(SW_ROW_TRAFFIC, SW_INT(step), SW_TEXT(from), SW_TEXT(to),
                                 SW_TEXT("net_test"), SW_INT((int64_t)bytes_per_s), SW_REAL(1000)));
}

void sw_history_finish_run(struct sw_history *h, enum sw_run_status status)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_FINISH, SW_TEXT(sw_run_status_name(status)),
                                    SW_REAL(sw_os()->unix_time())));
}
