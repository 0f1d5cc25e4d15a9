/* The bytes of a live snapshot, shared by its writer and its reader: everything is an array of
 * 64-bit words in the machine's byte order (the file never leaves the host, and a magic of the
 * other order is a format error). Header words do not change after the file has its name, except
 * RUN_ID, STATUS and GONE, which are single atomic words. Slots follow at HEADER_BYTES, each a
 * seqlock (word SEQUENCE, odd while written).
 *
 * No fences are needed: every data word is stored with release after the odd sequence, and loaded
 * with acquire before the sequence is read again. A reader that saw a word of a newer write
 * therefore also sees the sequence of that write, and retries. */
#pragma once

#include "history/snapshot.h"
#include <stdatomic.h>
#include <string.h>

typedef _Atomic uint64_t sw_live_word;

#define SW_LIVE_MAGIC 0x4556494c2d575300ull /* "\0SW-LIVE" in memory on a little-endian machine */

enum {
    SW_LIVE_VERSION = 1,
    SW_LIVE_HEADER_BYTES = 1024,
    SW_LIVE_UID_TEXT = 24,

    SW_LIVE_W_MAGIC = 0,
    SW_LIVE_W_VERSION,
    SW_LIVE_W_HEADER_BYTES,
    SW_LIVE_W_SLOT_BYTES,
    SW_LIVE_W_SLOTS,
    SW_LIVE_W_FILE_BYTES,
    SW_LIVE_W_PID,
    SW_LIVE_W_PID_START,
    SW_LIVE_W_STARTED_AT, /* bits of a double */
    SW_LIVE_W_RUN_ID,
    SW_LIVE_W_STEPS_TOTAL,
    SW_LIVE_W_STATUS,
    SW_LIVE_W_GONE,          /* 1: the file has been removed, and another may have its name */
    SW_LIVE_W_RUN_NAME = 16, /* 64 bytes */
    SW_LIVE_W_RUN_UID = 24,  /* 24 bytes */
    SW_LIVE_W_BOOT_ID = 27,  /* 40 bytes */

    SW_SLOT_W_SEQUENCE = 0,
    SW_SLOT_W_STEP,
    SW_SLOT_W_PHASE_LAYER, /* phase in the low half, layer in the high half */
    SW_SLOT_W_SINCE,
    SW_SLOT_W_HEARTBEAT, /* outside the seqlock: one word, stored alone */
    SW_SLOT_W_DONE_STEP,
    SW_SLOT_W_LOSS, /* bits of a double */
    SW_SLOT_W_SAMPLES,
    SW_SLOT_W_NAME = 8,         /* 32 bytes */
    SW_SLOT_W_LAYER_NAME = 12,  /* 64 bytes */
    SW_SLOT_W_WAITING_FOR = 20, /* 64 bytes */
    SW_SLOT_W_WAIT = 28,        /* kind in the low half, index in the high half */
    SW_SLOT_W_WAIT_NUMBER,
    SW_SLOT_W_THREAD, /* also outside the seqlock; 0 in files of older versions */
    SW_SLOT_WORDS = 32,
};

struct sw_slot {
    sw_live_word word[SW_SLOT_WORDS];
};
_Static_assert(sizeof(struct sw_slot) == SW_SNAPSHOT_SLOT_BYTES, "a slot is 256 bytes");

static inline void sw_live_get_text(const sw_live_word *from, size_t bytes, char *text)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t w = atomic_load_explicit(&from[at / 8], memory_order_acquire);
        memcpy(text + at, &w, 8);
    }

    text[bytes - 1] = 0;
}

static inline uint64_t sw_live_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline double sw_live_real(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Reads one slot; false if each of 1000 tries overlapped a write. Defined in snapshot_reader.c. */
bool sw_live_read_slot(const struct sw_slot *slot, struct sw_slot_state *out);
