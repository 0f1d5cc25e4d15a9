"""Measurement helpers: child processes with their peak memory, the load by other processes,
medians.

Nothing here depends on what is measured. The time of a whole process begins just before it is
started; its memory is ru_maxrss of wait4.
"""
import os
import platform
import resource
import statistics
import subprocess
import tempfile
import threading
import time

QUIET_SHARE = 0.06  # fraction of the machine's CPU time above which a figure is marked
QUIET_LOAD = 0.5    # load average of the last minute before the first run


class Failed(Exception):
    """Raised when a program fails; the text names the program and the reason."""


class Ended:
    """The result of a child that ended successfully."""

    def __init__(self, out, started, seconds, peak_bytes, cpu_seconds):
        self.out = out                # its standard output
        self.started = started        # Unix time just before it was started
        self.seconds = seconds
        self.peak_bytes = peak_bytes  # largest resident set
        self.cpu_seconds = cpu_seconds


def run(argv, env=None, cwd=None, timeout_s=1800):
    """Runs a program until it ends. Raises Failed with its last output if its exit status is not 0.
    """
    merged = dict(os.environ)
    merged.update(env or {})
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.time()
        child = subprocess.Popen(argv, env=merged, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=err)
        clock = threading.Timer(timeout_s, child.kill)
        clock.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            clock.cancel()
        seconds = time.time() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, words = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if child.returncode != 0:
        said = (words.strip() or text.strip() or "no output").splitlines()
        last = [line for line in said if not line.startswith(" ")][-1]  # skip indented details
        raise Failed("%s: exit %d after %.0f s: %s" %
                     (os.path.basename(argv[0]), child.returncode, seconds, last))
    return Ended(text, started, seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def spread(values):
    """(minimum, median, maximum)."""
    return min(values), statistics.median(values), max(values)


# ---- The machine and its load -----------------------------------------------------------

def cores():
    return len(os.sched_getaffinity(0))


def _first(path, key, otherwise="unknown"):
    try:
        with open(path) as f:
            for line in f:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return otherwise


def machine():
    """Properties of the machine that figures depend on, as (name, text) pairs."""
    memory = _first("/proc/meminfo", "MemTotal", "0 kB").split()[0]
    return [("cpu", _first("/proc/cpuinfo", "model name", platform.machine())),
            ("cores", str(cores())),
            ("memory", "%.1f GB" % (int(memory) * 1024 / 1e9)),
            ("kernel", "%s %s" % (platform.system(), platform.release()))]


def load_average():
    return os.getloadavg()[0]


def _cpu_seconds():
    """(busy by all processes, stolen by other machines) since boot, summed over the CPUs."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (v[0] + v[1] + v[2] + v[5] + v[6]) / tick, v[7] / tick


def _own_seconds():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        u = resource.getrusage(who)
        total += u.ru_utime + u.ru_stime
    return total


class Foreign:
    """The fraction of the machine's CPU time that other processes used between start and stop, 0 to
    1.
    """

    def __init__(self):
        self.began = time.time()
        self.busy, self.stolen = _cpu_seconds()
        self.own = _own_seconds()

    def share(self):
        busy, stolen = _cpu_seconds()
        others = (busy - self.busy) + (stolen - self.stolen) - (_own_seconds() - self.own)
        return max(0.0, others / max(1e-9, (time.time() - self.began) * os.cpu_count()))
