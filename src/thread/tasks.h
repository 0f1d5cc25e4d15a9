/* The threads of this process as /proc/self/task shows them (Linux; the list is empty without
 * /proc). No lock is taken and nothing is allocated, so a thread that was stopped anywhere cannot
 * block the caller. Any thread may call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_TASK_NAME = 16 };

struct sw_task {
    int id; /* the TID that top, gdb and strace show */
    char name[SW_TASK_NAME];
    char state; /* as in proc(5): R runnable, S asleep, D in the kernel, T stopped, t traced */
    int64_t cpu_ticks; /* CPU time so far, in sysconf(_SC_CLK_TCK) per second */
};

/* Lists the threads, `room` at most. Returns how many there are in `out`; 0: unknown. */
int sw_tasks_read(struct sw_task *out, int room);
/* Parses a line of /proc/PID/stat; the name is in parentheses and may itself contain
 * parentheses. */
bool sw_task_parse(const char *line, struct sw_task *out);
/* Writes the name of the kernel function in which the thread is blocked; "" if unknown. */
void sw_task_wait_channel(int id, char *out, size_t bytes);

int sw_task_self(void); /* the id of the calling thread */
