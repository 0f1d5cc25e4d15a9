/* The state of a thread as bytes for another host, which shows it in its own live snapshot. Times
 * travel as ages, since clocks differ. Pure functions; numbers are little-endian. */
#pragma once

#include "history/snapshot.h"

enum { SW_SLOT_RECORD = 224 };

/* now_ns: the clock of the state's times. */
void sw_slot_write(const struct sw_slot_state *s, int64_t now_ns,
                   unsigned char out[SW_SLOT_RECORD]);
/* Bytes of another machine: values that a state cannot have become those of an idle thread, texts
 * end and have no characters that a terminal would execute. What a thread waits for is a text only.
 * now_ns: this clock, for the times of the state. */
void sw_slot_read(const unsigned char in[SW_SLOT_RECORD], int64_t now_ns,
                  struct sw_slot_state *out);
