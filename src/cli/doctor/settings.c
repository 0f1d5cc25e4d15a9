/* How the machine is set up: processor, memory, limits, cgroups. */
#include "cli/doctor/doctor.h"
#include "device/driver.h"
#include <gnu/libc-version.h>
#include <string.h>
#include <sys/utsname.h>

enum { MIN_FILES = 1024 };
static const int64_t mib = 1 << 20, gib = 1 << 30;

static bool cpu_has(const char *flag)
{
#if defined(__x86_64__)
    return strcmp(flag, "avx512f") == 0 ? __builtin_cpu_supports("avx512f")
                                        : __builtin_cpu_supports("avx2");
#else
    return true;
#endif
}

static void check_processor(struct sw_doctor *d)
{
    const struct sw_machine *m = d->machine;

    sw_doctor_ok(d, "cpu", "%s%s%d cores, %d hardware threads, %d NUMA node%s", m->cpu_model,
                 m->cpu_model[0] ? ": " : "", m->core_count, m->pu_count, m->node_count,
                 m->node_count == 1 ? "" : "s");

    if (!cpu_has("avx2"))
        sw_doctor_find(
            d, SW_FINDING_WARN, "cpu", "the math libraries are several times slower without it",
            "use a processor of 2013 or later; in a virtual machine, enable the host's CPU "
            "features",
            "the processor has no AVX2");
    else if (!cpu_has("avx512f"))
        sw_doctor_find(d, SW_FINDING_NOTE, "cpu",
                       "vectors of half the width compute about half as fast", NULL,
                       "the processor has AVX2 but no AVX-512");

    if (m->hidden_pus > 0)
        sw_doctor_find(
            d, SW_FINDING_NOTE, "cpu", "workers are placed only on the others",
            "widen the cpuset (container option --cpuset-cpus, or taskset) if they are meant "
            "for training",
            "%d hardware threads are hidden by a cpuset or taskset", m->hidden_pus);

    if (m->cpu_quota > 0 && m->cpu_quota < m->core_count)
        sw_doctor_find(
            d, SW_FINDING_WARN, "cpu",
            "threads above the quota are throttled, and all wait for the slowest",
            "raise the quota (container option --cpus); until then at most that many threads "
            "compute",
            "the cgroup quota is %.3g CPUs of %d cores", m->cpu_quota, m->core_count);
}

static void check_clock(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;
    if (!s->governor[0])
        return; /* virtual machines have none */

    if (s->governors > 1)
        sw_doctor_find(d, SW_FINDING_WARN, "cpu", "workers wait for the slowest core",
                       "cpupower frequency-set -g performance (as root)",
                       "cores have different clock governors");
    else if (strcmp(s->governor, "performance") != 0 && strcmp(s->governor, "schedutil") != 0)
        sw_doctor_find(d, SW_FINDING_NOTE, "cpu",
                       "clocks follow the load with a delay, so short steps may run below full "
                       "speed",
                       "cpupower frequency-set -g performance (as root)",
                       "the clock governor is %s", s->governor);
    else
        sw_doctor_ok(d, "cpu", "the clock governor is %s", s->governor);
}

static void check_memory(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;
    char a[32], b[32];
    int64_t total = s->memory_bytes;

    if (s->cgroup_memory_bytes >= 0 && s->cgroup_memory_bytes < total) {
        sw_doctor_find(
            d, SW_FINDING_NOTE, "memory",
            "the system kills a process of the cgroup that exceeds it",
            "raise the limit (container option --memory) if 'singa-ws check' says that a net "
            "needs more",
            "the cgroup memory limit is %s of %s",
            sw_human_bytes(a, (double)s->cgroup_memory_bytes), sw_human_bytes(b, (double)total));
        total = s->cgroup_memory_bytes;
    }

    if (s->oom_kills > 0)
        sw_doctor_find(d, SW_FINDING_WARN, "memory", "one of them may have been a run",
                       "compare 'singa-ws check RECIPE' with the limit",
                       "%lld processes of this cgroup were killed for lack of memory",
                       (long long)s->oom_kills);

    if (s->memory_free_bytes >= 0 && s->memory_free_bytes < total / 10)
        sw_doctor_find(d, SW_FINDING_WARN, "memory", "a run may fail to allocate memory, or swap",
                       "end programs that use much memory (top, key M)", "%s of %s are available",
                       sw_human_bytes(a, (double)s->memory_free_bytes),
                       sw_human_bytes(b, (double)total));
    else if (total > 0)
        sw_doctor_ok(d, "memory", "%s, %s available", sw_human_bytes(a, (double)total),
                     sw_human_bytes(b, (double)s->memory_free_bytes));

    if (s->swap_bytes > 0 && s->swap_free_bytes < s->swap_bytes / 2)
        sw_doctor_find(d, SW_FINDING_NOTE, "memory", "a run stalls on its swapped-out pages",
                       "end programs that use much memory, then swapoff -a; swapon -a (as root)",
                       "more than half of the swap space is in use");
}

static void check_pages(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;

    if (strcmp(s->thp, "never") == 0)
        sw_doctor_find(d, SW_FINDING_WARN, "memory",
                       "large arrays then need hundreds of times as many page table entries, which "
                       "costs about 10 % of speed",
                       "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
                       "transparent huge pages are disabled");
    else if (s->thp[0])
        sw_doctor_ok(d, "memory", "transparent huge pages: %s", s->thp);

    if (s->huge_pages > 0)
        sw_doctor_find(d, SW_FINDING_NOTE, "memory",
                       "singa-ws does not use them, and other programs cannot",
                       "sysctl vm.nr_hugepages=0 (as root), unless another program needs them",
                       "%lld huge pages of %lld kB are reserved", (long long)s->huge_pages,
                       (long long)(s->huge_page_bytes >> 10));

    if (d->machine->node_count > 1 && s->numa_balancing[0] > '0')
        sw_doctor_find(d, SW_FINDING_NOTE, "memory",
                       "singa-ws places memory itself; migration by the kernel only costs time",
                       "sysctl kernel.numa_balancing=0 (as root)",
                       "automatic NUMA balancing is on");
}

static void check_limits(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;
    char a[32];

    if (s->open_files >= 0 && s->open_files < MIN_FILES)
        sw_doctor_find(d, SW_FINDING_WARN, "limits", "image folders open many files at once",
                       "ulimit -n 65536", "at most %lld files can be open at once",
                       (long long)s->open_files);

    if (s->locked_bytes >= 0 && s->locked_bytes < 64 * mib)
        sw_doctor_find(
            d, SW_FINDING_NOTE, "limits",
            "memory that a device reads directly must be locked; GPU drivers do not count it "
            "against this limit, drivers of other devices do",
            "ulimit -l unlimited, or container option --ulimit memlock=-1",
            "at most %s of memory can be locked", sw_human_bytes(a, (double)s->locked_bytes));

    if (s->shm_bytes < 0)
        sw_doctor_find(d, SW_FINDING_WARN, "limits", "NCCL exchanges data between processes there",
                       "mount -t tmpfs tmpfs /dev/shm (as root)", "/dev/shm does not exist");
    else if (s->shm_free_bytes < gib)
        sw_doctor_find(
            d, d->machine->gpu_count > 1 ? SW_FINDING_WARN : SW_FINDING_NOTE, "limits",
            "NCCL exchanges data between processes there and fails with a bus error when "
            "it is full",
            "container option --shm-size=1g, or --ipc=host", "%s of /dev/shm are free",
            sw_human_bytes(a, (double)s->shm_free_bytes));
    else
        sw_doctor_ok(d, "limits", "%s of /dev/shm are free",
                     sw_human_bytes(a, (double)s->shm_free_bytes));
}

static void check_versions(struct sw_doctor *d)
{
    struct utsname u = {0};
    char math[96], hwloc[32];
    struct sw_err err;

    uname(&u);

    if (sw_driver_host()->libraries(math, sizeof math, &err) != SW_OK)
        sw_doctor_find(d, SW_FINDING_WARN, "versions",
                       "whitening and the CPU's reference primitives cannot be computed", NULL,
                       "%s", err.text);

    sw_machine_library(hwloc, sizeof hwloc);
    sw_doctor_ok(d, "versions", "%s %s, glibc %s, %s, %s%s%s", u.sysname, u.release,
                 gnu_get_libc_version(), math, hwloc,
                 d->survey.nvidia_driver[0] ? ", NVIDIA driver " : "", d->survey.nvidia_driver);
    sw_json_string(&d->json, "kernel", u.release);
    sw_json_string(&d->json, "math_libraries", math);
    sw_json_string(&d->json, "nvidia_driver",
                   d->survey.nvidia_driver[0] ? d->survey.nvidia_driver : NULL);

    if (d->machine->gpu_count > 0 && !d->survey.nvidia_driver[0])
        sw_doctor_find(d, SW_FINDING_WARN, "versions", "runs cannot use them",
                       "install the driver of the distribution (Debian: nvidia-driver, from "
                       "non-free), and restart",
                       "%d GPU%s, but no NVIDIA driver", d->machine->gpu_count,
                       d->machine->gpu_count == 1 ? "" : "s");
}

int sw_doctor_settings(struct sw_doctor *d, struct sw_err *err)
{
    check_versions(d);
    check_processor(d);
    check_clock(d);
    check_memory(d);
    check_pages(d);
    check_limits(d);

    return SW_OK;
}
