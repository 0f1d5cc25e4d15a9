/* The identity of a process: since pids are reused, the pid with the start time in clock ticks
 * since boot and the boot id. It is stored with runs and snapshots, so that a reader can
 * distinguish a running job from one that was killed. Linux (/proc). Any thread may call. */
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

/* Describes the calling process. Unknown fields are zero or empty. */
void sw_process_self(struct sw_process *p);
/* False if the process is certainly dead: another boot id, no such pid, a zombie, or a pid that
 * another process has now. An unknown start time or boot id is not compared. */
bool sw_process_alive(int64_t pid, int64_t start_ticks, const char *boot_id);
