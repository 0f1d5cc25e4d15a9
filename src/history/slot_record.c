/* Writes and reads the state of a thread for another host. The contract is in slot_record.h. */
#include "history/slot_record.h"

#include "base/little_endian.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

/* Offsets of the fields. Both texts have SW_SNAPSHOT_TEXT bytes, the name SW_SNAPSHOT_NAME. */
enum {
    AT_STEP = 0,
    AT_DONE = 8,
    AT_SAMPLES = 16,
    AT_LOSS = 24,      /* bits of a double */
    AT_SINCE = 32,     /* nanoseconds ago */
    AT_HEARTBEAT = 40, /* nanoseconds ago; all bits set: none */
    AT_LAYER = 48,     /* 32 bits each from here on */
    AT_PHASE = 52,
    AT_NAME = 56,
    AT_LAYER_NAME = AT_NAME + SW_SNAPSHOT_NAME,
    AT_WAITING = AT_LAYER_NAME + SW_SNAPSHOT_TEXT,
    AT_END = AT_WAITING + SW_SNAPSHOT_TEXT,
};
_Static_assert((int)AT_END <= (int)SW_SLOT_RECORD, "all fields fit");

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

void sw_slot_write(const struct sw_slot_state *s, int64_t now_ns, unsigned char out[SW_SLOT_RECORD])
{
    memset(out, 0, SW_SLOT_RECORD);
    sw_le_put(out + AT_STEP, (uint64_t)s->step, 8);
    sw_le_put(out + AT_DONE, (uint64_t)s->done_step, 8);
    sw_le_put(out + AT_SAMPLES, (uint64_t)s->samples_done, 8);
    sw_le_put(out + AT_LOSS, bits_of(s->loss), 8);
    sw_le_put(out + AT_SINCE, (uint64_t)(now_ns - s->since_ns), 8);
    sw_le_put(out + AT_HEARTBEAT,
              s->heartbeat_ns ? (uint64_t)(now_ns - s->heartbeat_ns) : UINT64_MAX, 8);
    sw_le_put(out + AT_LAYER, (uint32_t)s->layer, 4);
    sw_le_put(out + AT_PHASE, (uint32_t)s->phase, 4);
    memcpy(out + AT_NAME, s->name, strnlen(s->name, SW_SNAPSHOT_NAME - 1));
    memcpy(out + AT_LAYER_NAME, s->layer_name, strnlen(s->layer_name, SW_SNAPSHOT_TEXT - 1));
    memcpy(out + AT_WAITING, s->waiting_for, strnlen(s->waiting_for, SW_SNAPSHOT_TEXT - 1));
}

static int64_t read_step(const unsigned char *at)
{
    int64_t step = (int64_t)sw_le_get(at, 8);
    return step < -1 ? -1 : step;
}

static int64_t read_time(const unsigned char *at, int64_t now_ns)
{
    uint64_t age_ns = sw_le_get(at, 8);
    return age_ns < (uint64_t)now_ns ? now_ns - (int64_t)age_ns : 0;
}

/* Replaces what a terminal would execute. */
static void read_text(const unsigned char *at, size_t bytes, char *out)
{
    char raw[SW_SNAPSHOT_TEXT];

    memcpy(raw, at, bytes);
    raw[bytes - 1] = '\0';
    const char *from = raw;
    size_t left = strlen(raw), n = 0;

    while (left > 0) {
        const char *begins = from;
        uint32_t rune = sw_utf8_next(&from, &left);

        if (sw_rune_is_unsafe(rune))
            out[n++] = '?';
        else
            for (; begins < from; begins++)
                out[n++] = *begins;
    }

    out[n] = '\0';
}

void sw_slot_read(const unsigned char in[SW_SLOT_RECORD], int64_t now_ns, struct sw_slot_state *out)
{
    uint64_t loss = sw_le_get(in + AT_LOSS, 8), phase = sw_le_get(in + AT_PHASE, 4);

    *out =
        (struct sw_slot_state){.step = read_step(in + AT_STEP),
                               .done_step = read_step(in + AT_DONE),
                               .since_ns = read_time(in + AT_SINCE, now_ns),
                               .heartbeat_ns = read_time(in + AT_HEARTBEAT, now_ns),
                               .layer = (int)(int32_t)sw_le_get(in + AT_LAYER, 4),
                               .phase = phase < SW_PHASES ? (enum sw_phase)phase : SW_PHASE_IDLE};
    out->samples_done = (int64_t)(sw_le_get(in + AT_SAMPLES, 8) & INT64_MAX);
    memcpy(&out->loss, &loss, sizeof loss);
    read_text(in + AT_NAME, SW_SNAPSHOT_NAME, out->name);
    read_text(in + AT_LAYER_NAME, SW_SNAPSHOT_TEXT, out->layer_name);
    read_text(in + AT_WAITING, SW_SNAPSHOT_TEXT, out->waiting_for);
    out->layer = out->layer < 0 ? -1 : out->layer;
    if (out->waiting_for[0])
        out->wait.kind = SW_WAIT_OTHER;
}
