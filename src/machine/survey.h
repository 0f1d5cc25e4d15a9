/* How this machine is set up, as far as sysfs and proc say and training notices: clocks, huge
 * pages, limits, shared memory, cgroups, PCIe links and what stands in the way of copies between
 * devices. Facts only; what they mean is doctor's to say. The roots are "/proc" and "/sys" but in
 * tests. What cannot be read is unknown: -1, NaN or "". Any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* One end of a PCIe link: a GPU, or a disk on PCIe. */
struct sw_link_state {
    char bus[20];                        /* "0000:34:00.0" */
    char kind[8];                        /* "GPU" or "NVMe" */
    double speed_gt_per_s, max_gt_per_s; /* now, and the most of device and slot; NaN: unknown */
    int width, max_width;                /* lanes; -1: unknown */
};

struct sw_survey {
    char governor[32];                   /* of the first CPU; "" unknown */
    int governors;                       /* how many different ones there are */
    char thp[16];                        /* transparent huge pages: always, madvise, never */
    char numa_balancing[8];              /* "0", "1", "2" */
    int64_t huge_pages, huge_page_bytes; /* reserved ones */
    int64_t memory_bytes, memory_free_bytes, swap_bytes, swap_free_bytes;
    int64_t cgroup_memory_bytes;       /* the smallest limit on the way up; -1: none */
    int64_t oom_kills;                 /* in this cgroup; -1 unknown */
    int64_t locked_bytes;              /* RLIMIT_MEMLOCK; -1: no limit */
    int64_t open_files;                /* RLIMIT_NOFILE; -1: no limit */
    int64_t shm_bytes, shm_free_bytes; /* /dev/shm; -1: there is none */
    bool iommu;                        /* one is at work */
    int acs_bridges;             /* PCIe bridges that send copies between devices upwards; -1: not
                                    to be read without root */
    char nvidia_driver[32];      /* version of the kernel's module, "580.65.06"; "" there is none */
    struct sw_link_state *links; /* owned */
    int link_count;
};

/* Zero-initialise *s; free with sw_survey_fini. Errors: SW_ERR_NOMEM. */
int sw_survey_read(struct sw_survey *s, const char *proc_root, const char *sys_root,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_survey_fini(struct sw_survey *s);

/* Seconds that all CPUs of the machine have been busy since it started, for whomever, and stolen by
 * its host; NaN: unknown. */
double sw_survey_busy_s(const char *proc_root);

/* Where a folder is: kind of file system ("ext4", "nfs", ...), size and what is free for us. */
struct sw_disk {
    char kind[16];
    bool network; /* another machine's: locks and shared memory maps may not work */
    bool memory;  /* gone after a restart */
    int64_t bytes, free_bytes;
};
/* Errors: SW_ERR_NOTFOUND, SW_ERR_IO. */
int sw_survey_disk(const char *folder, struct sw_disk *disk, struct sw_err *err) SW_MUST_CHECK;
