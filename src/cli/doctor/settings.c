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

static void see_processor(struct sw_doctor *d)
{
    const struct sw_machine *m = d->machine;
    sw_doctor_ok(d, "cpu", "%s%s%d cores, %d hardware threads, %d NUMA node%s", m->cpu_model,
                 m->cpu_model[0] ? ": " : "", m->core_count, m->pu_count, m->node_count,
                 m->node_count == 1 ? "" : "s");
    if (!cpu_has("avx2"))
        sw_doctor_find(d, SW_FINDING_WARN, "cpu",
                       "the math libraries are several times slower without it",
                       "use a processor of 2013 or later; a virtual machine may have to be told to "
                       "pass its host's on",
                       "the processor has no AVX2");
    else if (!cpu_has("avx512f"))
        sw_doctor_find(d, SW_FINDING_NOTE, "cpu", "half as wide vectors compute about half as fast",
                       NULL, "the processor has AVX2 and no AVX-512");
    if (m->hidden_pus > 0)
        sw_doctor_find(d, SW_FINDING_NOTE, "cpu", "workers are placed on the others only",
                       "a wider cpuset (container option --cpuset-cpus, or taskset), if they are "
                       "meant for training",
                       "%d hardware threads are hidden by a cpuset or taskset", m->hidden_pus);
    if (m->cpu_quota > 0 && m->cpu_quota < m->core_count)
        sw_doctor_find(
            d, SW_FINDING_WARN, "cpu",
            "threads above the quota are stopped in turn, and all wait for the slowest",
            "a larger quota (container option --cpus); until then no more than that many "
            "threads compute",
            "a cgroup grants %.3g CPUs where there are %d cores", m->cpu_quota, m->core_count);
}

static void see_clock(struct sw_doctor *d)
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

static void see_memory(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;
    char a[32], b[32];
    int64_t total = s->memory_bytes;
    if (s->cgroup_memory_bytes >= 0 && s->cgroup_memory_bytes < total) {
        sw_doctor_find(
            d, SW_FINDING_NOTE, "memory", "the system ends a process of the group that goes beyond",
            "a larger limit (container option --memory), if 'singa-ws check' says that a "
            "net needs more",
            "a cgroup grants %s of %s", sw_human_bytes(a, (double)s->cgroup_memory_bytes),
            sw_human_bytes(b, (double)total));
        total = s->cgroup_memory_bytes;
    }
    if (s->oom_kills > 0)
        sw_doctor_find(d, SW_FINDING_WARN, "memory", "a run of yours may have been one of them",
                       "compare 'singa-ws check RECIPE' with the limit",
                       "%lld processes of this cgroup were ended for lack of memory",
                       (long long)s->oom_kills);
    if (s->memory_free_bytes >= 0 && s->memory_free_bytes < total / 10)
        sw_doctor_find(d, SW_FINDING_WARN, "memory", "a run may not find what it needs, or swap",
                       "end what takes the memory (top, sorted by M)", "%s of %s are available",
                       sw_human_bytes(a, (double)s->memory_free_bytes),
                       sw_human_bytes(b, (double)total));
    else if (total > 0)
        sw_doctor_ok(d, "memory", "%s, %s available", sw_human_bytes(a, (double)total),
                     sw_human_bytes(b, (double)s->memory_free_bytes));
    if (s->swap_bytes > 0 && s->swap_free_bytes < s->swap_bytes / 2)
        sw_doctor_find(d, SW_FINDING_NOTE, "memory",
                       "pages of a run that were swapped out stall it",
                       "end what takes the memory, then swapoff -a; swapon -a (as root)",
                       "more than half of the swap space is in use");
}

static void see_pages(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;
    if (strcmp(s->thp, "never") == 0)
        sw_doctor_find(d, SW_FINDING_WARN, "memory",
                       "large arrays then need hundreds of times as many page table entries: some "
                       "10 % of speed",
                       "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
                       "transparent huge pages are switched off");
    else if (s->thp[0])
        sw_doctor_ok(d, "memory", "transparent huge pages: %s", s->thp);
    if (s->huge_pages > 0)
        sw_doctor_find(d, SW_FINDING_NOTE, "memory",
                       "nothing here uses them; they are lost to others",
                       "sysctl vm.nr_hugepages=0 (as root), unless another program needs them",
                       "%lld huge pages of %lld kB are reserved", (long long)s->huge_pages,
                       (long long)(s->huge_page_bytes >> 10));
    if (d->machine->node_count > 1 && s->numa_balancing[0] > '0')
        sw_doctor_find(d, SW_FINDING_NOTE, "memory",
                       "memory is placed by singa-ws; the kernel's moving it around only costs",
                       "sysctl kernel.numa_balancing=0 (as root)",
                       "automatic NUMA balancing is on");
}

static void see_limits(struct sw_doctor *d)
{
    const struct sw_survey *s = &d->survey;
    char a[32];
    if (s->open_files >= 0 && s->open_files < MIN_FILES)
        sw_doctor_find(d, SW_FINDING_WARN, "limits", "folders of pictures need a file each",
                       "ulimit -n 65536", "%lld files may be open at once",
                       (long long)s->open_files);
    if (s->locked_bytes >= 0 && s->locked_bytes < 64 * mib)
        sw_doctor_find(d, SW_FINDING_NOTE, "limits",
                       "memory that a GPU reads directly has to stay in place; drivers of GPUs do "
                       "not count it, other devices do",
                       "ulimit -l unlimited, or container option --ulimit memlock=-1",
                       "%s may be locked in memory", sw_human_bytes(a, (double)s->locked_bytes));
    if (s->shm_bytes < 0)
        sw_doctor_find(d, SW_FINDING_WARN, "limits", "NCCL exchanges data between processes there",
                       "mount -t tmpfs tmpfs /dev/shm (as root)", "there is no /dev/shm");
    else if (s->shm_free_bytes < gib)
        sw_doctor_find(d, d->machine->gpu_count > 1 ? SW_FINDING_WARN : SW_FINDING_NOTE, "limits",
                       "NCCL exchanges data between processes there and ends with a bus error when "
                       "it is full",
                       "container option --shm-size=1g, or --ipc=host", "%s of /dev/shm are free",
                       sw_human_bytes(a, (double)s->shm_free_bytes));
    else
        sw_doctor_ok(d, "limits", "%s of /dev/shm are free",
                     sw_human_bytes(a, (double)s->shm_free_bytes));
}

static void see_versions(struct sw_doctor *d)
{
    struct utsname u = {0};
    char math[96], hwloc[32];
    struct sw_err err;
    uname(&u);
    if (sw_driver_host()->libraries(math, sizeof math, &err) != SW_OK)
        sw_doctor_find(d, SW_FINDING_WARN, "versions",
                       "whitening and the CPU's reference plans cannot be computed", NULL, "%s",
                       err.text);
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
                       "there %s %d GPU%s and no NVIDIA driver",
                       d->machine->gpu_count == 1 ? "is" : "are", d->machine->gpu_count,
                       d->machine->gpu_count == 1 ? "" : "s");
}

int sw_doctor_settings(struct sw_doctor *d, struct sw_err *err)
{
    see_versions(d);
    see_processor(d);
    see_clock(d);
    see_memory(d);
    see_pages(d);
    see_limits(d);
    return SW_OK;
}
