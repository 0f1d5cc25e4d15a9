/* The CPU time that cgroups grant this process: cpu.max (version 2) or cpu.cfs_quota_us (version
 * 1), the smallest on the way from the process's group to the root. Any thread. */
#pragma once

/* CPUs, as 1.5; 0 when nothing limits. proc_root and sys_root are "/proc" and "/sys" but in tests.
 * What cannot be read does not limit. */
double sw_cpu_quota(const char *proc_root, const char *sys_root);
