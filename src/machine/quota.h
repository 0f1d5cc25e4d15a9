/* The CPU time and the memory that cgroups grant this process: cpu.max and memory.max (version 2),
 * or cpu.cfs_quota_us and memory.limit_in_bytes (version 1), the smallest limit from the process's
 * group up to the root. Any thread. */
#pragma once

#include <stdint.h>

/* Returns the quota in CPUs, for example 1.5; 0: no limit. proc_root and sys_root are "/proc" and
 * "/sys" except in tests. A file that cannot be read sets no limit. */
double sw_cpu_quota(const char *proc_root, const char *sys_root);
/* Returns the limit in bytes; 0: no limit. */
int64_t sw_memory_quota(const char *proc_root, const char *sys_root);
