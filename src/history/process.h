/* Who a process is, beyond a number that is used again: pid, start time in clock ticks since boot,
 * and the boot's id. Stored with runs and snapshots, so that a reader can tell a running job from
 * one that died without a word. Linux (/proc). Any thread may call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SW_BOOT_ID_TEXT = 40 };

struct sw_process {
    int64_t pid;
    int64_t start_ticks;           /* 0: unknown */
    char boot_id[SW_BOOT_ID_TEXT]; /* empty: unknown */
    char host[256];
};

/* The calling process. Fields that cannot be found out stay zero or empty. */
void sw_process_self(struct sw_process *p);
/* False when that process is certainly dead: another boot, no such pid, or the pid is another's
 * (or a zombie). An unknown start time or boot is believed. */
bool sw_process_alive(int64_t pid, int64_t start_ticks, const char *boot_id);
