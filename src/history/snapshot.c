#include "base/os.h"
#include "base/str.h"
#include "history/process.h"
#include "history/snapshot_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

struct sw_snapshot {
    sw_live_word *words; /* mapped: the file, or plain pages when path is NULL */
    size_t bytes;
    char *path; /* owned; NULL: in memory only */
    int slots;
};

static void put(sw_live_word *w, uint64_t value)
{
    atomic_store_explicit(w, value, memory_order_release);
}

static struct sw_slot *slot_at(const struct sw_snapshot *s, int index)
{
    return (struct sw_slot *)(s->words + SW_LIVE_HEADER_BYTES / 8) + index;
}

/* Makes a file of that size with its blocks reserved (a store into a hole on a full file system
 * would kill the process) and maps it. */
static int map_new_file(const char *path, size_t bytes, void **map, struct sw_err *err)
{
    sw_os()->unlink(path); /* of a dead process that had our pid, if anything */
    int fd = sw_os()->open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return sw_err_errno(err, errno, "live snapshot %s", path);
    int reason = posix_fallocate(fd, 0, (off_t)bytes);
    if (!reason) {
        *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        reason = *map == MAP_FAILED ? errno : 0;
    }
    sw_os()->close(fd);
    if (!reason)
        return SW_OK;
    sw_os()->unlink(path);
    return sw_err_errno(err, reason, "live snapshot %s (%zu bytes)", path, bytes);
}

static void fill_header(struct sw_snapshot *s, int64_t run_id, const char *run_uid,
                        const char *run_name, int64_t steps_total)
{
    struct sw_process self;
    sw_process_self(&self);
    sw_live_word *w = s->words;
    put(&w[SW_LIVE_W_MAGIC], SW_LIVE_MAGIC);
    put(&w[SW_LIVE_W_VERSION], SW_LIVE_VERSION);
    put(&w[SW_LIVE_W_HEADER_BYTES], SW_LIVE_HEADER_BYTES);
    put(&w[SW_LIVE_W_SLOT_BYTES], SW_SNAPSHOT_SLOT_BYTES);
    put(&w[SW_LIVE_W_SLOTS], (uint64_t)s->slots);
    put(&w[SW_LIVE_W_FILE_BYTES], s->bytes);
    put(&w[SW_LIVE_W_PID], (uint64_t)self.pid);
    put(&w[SW_LIVE_W_PID_START], (uint64_t)self.start_ticks);
    put(&w[SW_LIVE_W_STARTED_AT], sw_live_bits(sw_os()->unix_time()));
    put(&w[SW_LIVE_W_RUN_ID], (uint64_t)run_id);
    put(&w[SW_LIVE_W_STEPS_TOTAL], (uint64_t)steps_total);
    put(&w[SW_LIVE_W_STATUS], SW_RUN_RUNNING);
    sw_live_put_text(&w[SW_LIVE_W_RUN_NAME], SW_SNAPSHOT_TEXT, run_name);
    sw_live_put_text(&w[SW_LIVE_W_RUN_UID], SW_LIVE_UID_TEXT, run_uid);
    sw_live_put_text(&w[SW_LIVE_W_BOOT_ID], SW_BOOT_ID_TEXT, self.boot_id);
}

static void clear_slot(struct sw_slot *slot)
{
    put(&slot->word[SW_SLOT_W_STEP], (uint64_t)-1);
    put(&slot->word[SW_SLOT_W_PHASE_LAYER], (uint64_t)UINT32_MAX << 32 | SW_PHASE_IDLE);
    put(&slot->word[SW_SLOT_W_DONE_STEP], (uint64_t)-1);
    put(&slot->word[SW_SLOT_W_LOSS], sw_live_bits(NAN));
}

/* The file gets its name only when the header is complete, so that no reader meets half of it. */
static int make_file(struct sw_snapshot *s, const char *temporary, int64_t run_id,
                     const char *run_uid, const char *run_name, int64_t steps_total,
                     struct sw_err *err)
{
    void *map = NULL;
    int code = map_new_file(temporary, s->bytes, &map, err);
    if (code)
        return code;
    s->words = map;
    fill_header(s, run_id, run_uid, run_name, steps_total);
    for (int i = 0; i < s->slots; i++)
        clear_slot(slot_at(s, i));
    if (sw_os()->rename(temporary, s->path) != 0) {
        code = sw_err_errno(err, errno, "live snapshot %s", s->path);
        sw_os()->unlink(temporary);
        sw_free(s->path);
        s->path = NULL;
        munmap(map, s->bytes);
        s->words = NULL;
    }
    return code;
}

static int make_memory(struct sw_snapshot *s, int64_t run_id, const char *run_uid,
                       const char *run_name, int64_t steps_total, struct sw_err *err)
{
    s->words = sw_os()->map_pages(s->bytes);
    if (!s->words)
        return sw_err_nomem(err, "live state", s->bytes);
    fill_header(s, run_id, run_uid, run_name, steps_total);
    for (int i = 0; i < s->slots; i++)
        clear_slot(slot_at(s, i));
    return SW_OK;
}

int sw_snapshot_new(struct sw_snapshot **out, const char *path, int64_t run_id, const char *run_uid,
                    const char *run_name, int64_t steps_total, int slots, struct sw_err *err)
{
    char *temporary = NULL;
    int code = SW_OK;
    if (slots < 0 || slots > SW_SNAPSHOT_MAX_SLOTS)
        return sw_err_set(err, SW_ERR_INVALID, "live snapshot: %d slots, at most %d", slots,
                          SW_SNAPSHOT_MAX_SLOTS);
    struct sw_snapshot *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "live snapshot", sizeof *s);
    s->slots = slots;
    s->bytes = SW_LIVE_HEADER_BYTES + (size_t)slots * SW_SNAPSHOT_SLOT_BYTES;
    if (path) {
        s->path = sw_strdup(path);
        temporary = sw_format("%s.%lld.tmp", path, (long long)getpid());
        if (!s->path || !temporary)
            code = sw_err_nomem(err, "live snapshot's path", 0);
        else
            code = make_file(s, temporary, run_id, run_uid, run_name, steps_total, err);
    } else {
        code = make_memory(s, run_id, run_uid, run_name, steps_total, err);
    }
    sw_free(temporary);
    if (code) {
        sw_free(s->path);
        sw_free(s);
        return code;
    }
    *out = s;
    return SW_OK;
}

const char *sw_snapshot_file(const struct sw_snapshot *s)
{
    return s->path;
}

void sw_snapshot_free(struct sw_snapshot *s)
{
    if (!s)
        return;
    if (s->path) {
        sw_os()->unlink(s->path);
        put(&s->words[SW_LIVE_W_GONE], 1);
        munmap(s->words, s->bytes);
    } else {
        sw_os()->unmap_pages(s->words, s->bytes);
    }
    sw_free(s->path);
    sw_free(s);
}

void sw_snapshot_set_status(struct sw_snapshot *s, enum sw_run_status status)
{
    put(&s->words[SW_LIVE_W_STATUS], status);
}

void sw_snapshot_set_run_id(struct sw_snapshot *s, int64_t run_id)
{
    put(&s->words[SW_LIVE_W_RUN_ID], (uint64_t)run_id);
}

struct sw_slot *sw_snapshot_slot(struct sw_snapshot *s, int index)
{
    return slot_at(s, index);
}

bool sw_snapshot_read_slot(const struct sw_snapshot *s, int index, struct sw_slot_state *out)
{
    return index >= 0 && index < s->slots && sw_live_read_slot(slot_at(s, index), out);
}

/* Opens a write: the sequence becomes odd. Only the slot's owner calls, so a plain load will do;
 * the release stores that follow carry the odd number to whoever sees them. */
static uint64_t begin(struct sw_slot *slot)
{
    uint64_t q = atomic_load_explicit(&slot->word[SW_SLOT_W_SEQUENCE], memory_order_relaxed);
    atomic_store_explicit(&slot->word[SW_SLOT_W_SEQUENCE], q + 1, memory_order_relaxed);
    return q + 2;
}

static void end(struct sw_slot *slot, uint64_t sequence)
{
    put(&slot->word[SW_SLOT_W_SEQUENCE], sequence);
}

void sw_slot_set_name(struct sw_slot *slot, const char *name)
{
    uint64_t q = begin(slot);
    sw_live_put_text(&slot->word[SW_SLOT_W_NAME], SW_SNAPSHOT_NAME, name);
    end(slot, q);
}

void sw_slot_phase(struct sw_slot *slot, enum sw_phase phase, int64_t step, int layer,
                   const char *layer_name, int64_t now_ns)
{
    uint64_t q = begin(slot);
    put(&slot->word[SW_SLOT_W_STEP], (uint64_t)step);
    put(&slot->word[SW_SLOT_W_PHASE_LAYER], (uint64_t)(uint32_t)layer << 32 | (uint32_t)phase);
    put(&slot->word[SW_SLOT_W_SINCE], (uint64_t)now_ns);
    sw_live_put_text(&slot->word[SW_SLOT_W_LAYER_NAME], SW_SNAPSHOT_TEXT, layer_name);
    put(&slot->word[SW_SLOT_W_WAITING_FOR], 0);
    put(&slot->word[SW_SLOT_W_WAIT], SW_WAIT_NONE);
    end(slot, q);
    sw_slot_heartbeat(slot, now_ns);
}

void sw_slot_wait(struct sw_slot *slot, const char *waiting_for, int64_t now_ns)
{
    struct sw_wait wait = {.kind = waiting_for ? SW_WAIT_OTHER : SW_WAIT_NONE};
    sw_slot_wait_on(slot, wait, waiting_for, now_ns);
}

void sw_slot_wait_on(struct sw_slot *slot, struct sw_wait wait, const char *waiting_for,
                     int64_t now_ns)
{
    uint64_t q = begin(slot);
    sw_live_put_text(&slot->word[SW_SLOT_W_WAITING_FOR], SW_SNAPSHOT_TEXT, waiting_for);
    put(&slot->word[SW_SLOT_W_WAIT], (uint64_t)(uint32_t)wait.index << 32 | (uint32_t)wait.kind);
    put(&slot->word[SW_SLOT_W_WAIT_NUMBER], (uint64_t)wait.number);
    put(&slot->word[SW_SLOT_W_SINCE], (uint64_t)now_ns);
    end(slot, q);
    sw_slot_heartbeat(slot, now_ns);
}

void sw_slot_result(struct sw_slot *slot, int64_t step, double loss, int64_t samples_done,
                    int64_t now_ns)
{
    uint64_t q = begin(slot);
    put(&slot->word[SW_SLOT_W_DONE_STEP], (uint64_t)step);
    put(&slot->word[SW_SLOT_W_LOSS], sw_live_bits(loss));
    put(&slot->word[SW_SLOT_W_SAMPLES], (uint64_t)samples_done);
    end(slot, q);
    sw_slot_heartbeat(slot, now_ns);
}

void sw_slot_heartbeat(struct sw_slot *slot, int64_t now_ns)
{
    put(&slot->word[SW_SLOT_W_HEARTBEAT], (uint64_t)now_ns);
}
