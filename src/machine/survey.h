/* The configuration of this machine as far as it affects training and can be read from sysfs and
 * proc: clocks, huge pages, limits, shared memory, cgroups, PCIe links and settings that slow down
 * copies between devices. Facts only; `doctor` interprets them. The roots are "/proc" and "/sys"
 * except in tests. A value that cannot be read is -1, NaN or "". Any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* One end of a PCIe link: a GPU, or a disk on PCIe. */
struct sw_link_state {
    char bus[20];                        /* "0000:34:00.0" */
    char kind[8];                        /* "GPU" or "NVMe" */
    double speed_gt_per_s, max_gt_per_s; /* now, and the maximum of device and slot; NaN: unknown */
    int width, max_width;                /* lanes; -1: unknown */
};

struct sw_survey {
    char governor[32];                   /* of the first CPU; "" unknown */
    int governors;                       /* number of different governors: 0, 1 or 2 (several) */
    char thp[16];                        /* transparent huge pages: always, madvise, never */
    char numa_balancing[8];              /* "0", "1", "2" */
    int64_t huge_pages, huge_page_bytes; /* reserved ones */
    int64_t memory_bytes, memory_free_bytes, swap_bytes, swap_free_bytes;
    int64_t cgroup_memory_bytes; /* the smallest limit of this group and its parents; -1: none */
    int64_t oom_kills;           /* in this cgroup; -1 unknown */
    int64_t locked_bytes;        /* RLIMIT_MEMLOCK; -1: no limit */
    int64_t open_files;          /* RLIMIT_NOFILE; -1: no limit */
    int64_t shm_bytes, shm_free_bytes; /* of /dev/shm; -1: no /dev/shm */
    bool iommu;                        /* an IOMMU is enabled */
    int acs_bridges;        /* PCIe bridges that redirect peer copies to the root complex (ACS); -1:
                               unknown, needs root */
    char nvidia_driver[32]; /* version of the kernel module, "580.65.06"; "": none */
    struct sw_link_state *links; /* owned */
    int link_count;
};

/* Zero-initialise *s; free with sw_survey_fini. Errors: SW_ERR_NOMEM. */
int sw_survey_read(struct sw_survey *s, const char *proc_root, const char *sys_root,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_survey_fini(struct sw_survey *s);

/* CPU seconds that all processes of the machine have used since it started, plus time stolen by its
 * host; NaN: unknown. */
double sw_survey_busy_s(const char *proc_root);

/* The file system of a folder: its kind ("ext4", "nfs", ...), size and the space free for this
 * user. */
struct sw_disk {
    char kind[16];
    bool network; /* on another machine: locks and shared memory maps may not work */
    bool memory;  /* in memory: lost at a restart */
    int64_t bytes, free_bytes;
};
/* Finds size, free space and file system of the disk that holds a folder. Errors: SW_ERR_NOTFOUND,
 * SW_ERR_IO. */
int sw_survey_disk(const char *folder, struct sw_disk *disk, struct sw_err *err) SW_MUST_CHECK;
