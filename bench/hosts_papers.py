"""Figures of the papers with several machines, for bench/papers: hosts are network namespaces of this
machine (hosts_figures.py), each with one math thread. They share its cores, so beyond their number
times cannot fall; what the figures show is what the exchange adds, and that the order of the sides is
the published one.
"""
import os
import re
import signal
import subprocess
import threading
import time

import hosts_figures as net
import measure
import plot
import report
from common import Row, Sheet
from frameworks import data_folder, median

# 61 million parameters, like AlexNet's, with little to compute.
LARGE = """
[job]
name = large
batch = 8
steps = 1000000
[data train]
format = synthetic
classes = 10
records = 1000
channels = 1
height = 28
width = 28
mean = 127
std = 64
[updater]
type = sgd
lr = 0.001
momentum = 0.9
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer fc1]
type = inner_product
src = image
outputs = %d
[layer fc2]
type = inner_product
src = fc1
outputs = %d
[layer fc3]
type = inner_product
src = fc2
outputs = 10
[layer loss]
type = softmax_loss
src = fc3, label
"""


def hosts_of(bench, most=4):
    return [1, 2] if bench.options.trial else [k for k in (1, 2, 4) if k <= most]


def says(values):
    return "%s ms" % report.number(median(values))


def every_time(title, ms):
    return "".join("%s | %s ms: %s\n" % (title, key, " ".join("%.6g" % v for v in values))
                   for key, values in ms.items())


# ---- Tech report, figure 11 ---------------------------------------------------------------------

class Job:
    """A job of `run --hosts` on two hosts, in which one is killed."""

    def __init__(self, bench, recipe, sets):
        self.folder = bench.path("recovery-%s" % net.next_port())
        os.makedirs(self.folder)
        agent = os.path.join(self.folder, "ssh")
        with open(agent, "w") as f:
            f.write('#!/bin/sh\nhost=h$((${1##*.} - 1))\necho $$ >"%s/pid.$host"\nshift\n'
                    'export XDG_STATE_HOME="%s/$host" SINGA_DB="%s/$host/history.db"\n'
                    'exec ip netns exec $host "$@"\n' % ((self.folder,) * 3))
        os.chmod(agent, 0o755)
        home = os.path.join(self.folder, "h0")
        env = {**os.environ, "OMP_NUM_THREADS": "1", "SINGA_SSH": agent, "SINGA_REMOTE": bench.options.binary,
               "XDG_STATE_HOME": home, "SINGA_DB": os.path.join(home, "history.db"),
               "SINGA_REGISTRY": os.path.join(home, "registry")}
        command = net.on(0) + [os.path.abspath(bench.options.binary), "run", recipe, "--no-ui", "--share-machine",
                               "--hosts", "10.0.0.1,10.0.0.2", "--out", os.path.join(self.folder, "out")]
        for text in sets:
            command += ["--set", text]
        env["SINGA_REMOTE"] = os.path.abspath(bench.options.binary)
        self.steps, self.errors = [], []  # (seconds, step) and (seconds, line)
        self.changed = threading.Condition()
        self.child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for file, take in ((self.child.stdout, self.take_step), (self.child.stderr, self.take_error)):
            threading.Thread(target=self.read, args=(file, take), daemon=True).start()

    def read(self, file, take):
        for line in file:
            with self.changed:
                take(line)
                self.changed.notify_all()

    def take_error(self, line):
        self.errors.append((time.monotonic(), line))

    def take_step(self, line):
        found = re.match(r"step=([0-9]+) .*split=train", line)
        if found:
            self.steps.append((time.monotonic(), int(found.group(1))))

    def wait_for(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(condition, 120):
                raise measure.Failed("%s did not come: %s" % (what, "".join(e for _, e in self.errors[-5:])))

    def recover(self):
        """Kills host 1 when both have trained; returns the seconds until host 0 has trained a step
        alone."""
        self.wait_for(lambda: len(self.steps) >= 3, "the third step")
        with open(os.path.join(self.folder, "pid.h1")) as f:
            os.kill(int(f.read()), signal.SIGKILL)
        killed = time.monotonic()
        self.wait_for(lambda: any("going on" in e for _, e in self.errors), "the restart")
        told = next(seconds for seconds, e in self.errors if "going on" in e)

        # What was printed before comes by another pipe.
        def trained():
            return [seconds for seconds, _ in self.steps if seconds > told + 0.005]
        self.wait_for(trained, "a step after the restart")
        return trained()[0] - killed

    def end(self):
        self.child.kill()
        self.child.wait()


def recovery_s(bench, recipe, sets):
    job = Job(bench, recipe, sets)
    try:
        return job.recover()
    finally:
        job.end()


def figure_11(bench):
    """One of two hosts is killed: seconds until the other one has made the next step, with the
    checkpoint that both agreed on, by servers and by slice size."""
    net.build_network()
    net.limit("1gbit")
    recipe = bench.path("large.ini")
    with open(recipe, "w") as f:
        f.write(LARGE % ((32, 32) if bench.options.trial else (7000, 7900)))
    common = ["cluster.framework=sandblaster", "cluster.comm=auto", "job.checkpoint_ends=no"]
    cells = [["", "ours", "published"]]
    values, rows = "", []
    falls, least = "falls with the servers", "falls, and is higher again at 5 M"
    cases = [("%d server%s" % (n, "s"[:n > 1]), ["cluster.servers_per_group=%d" % n], falls) for n in (1, 2, 4)]
    cases += [("slices of %s" % text, ["cluster.servers_per_group=2", "cluster.slice_size=%d" % size], least)
              for text, size in (("0.1 M", 100000), ("1 M", 1000000), ("5 M", 5000000))]
    for name, sets, published in cases[:1] if bench.options.trial else cases:
        taken = [recovery_s(bench, recipe, common + sets) for _ in range(bench.options.repeats)]
        bench.say("fig. 11, %s: %s s" % (name, taken))
        rows.append(Row("fig. 11, recovery, %s" % name, "15 s", "s", taken, [15] * len(taken), 1, at_most=True))
        cells.append([name, "%.2f s" % median(taken), published])
        values += "fig. 11 | %s s: %s\n" % (name, " ".join("%.3f" % t for t in taken))
    net.limit("0")
    text = ("Figure 11 (tech report): recovery with 61 M parameters, from the death of one of two hosts to the "
            "next step\nof the other one, which writes and reads the checkpoint. Published: servers that read "
            "their parts; the\nnumbers are in a plot only.\n%s" % report.align(cells, (0, 2)))
    return rows + [Sheet(text, values)]


# ---- SINGA (TOMM), figures 18b and 19c ----------------------------------------------------------

def figure_18b(bench):
    """Synchronous training on a cluster: time per iteration of one batch by the number of hosts."""
    net.build_network()
    batch, steps = (8, 3) if bench.options.trial else (128, 20)
    ms, foreign = {k: [] for k in hosts_of(bench)}, measure.Foreign()
    for _ in range(bench.options.repeats):
        for hosts in ms:
            ms[hosts].append(net.step_ms(bench, "cifar10-sandblaster.ini", hosts, batch // hosts, steps,
                                         framework="sandblaster"))
            bench.say("fig. 18b, %d hosts: %.4g ms" % (hosts, ms[hosts][-1]))
    note = "foreign load %.0f %%, of which more hosts take a larger share; the hosts share %d cores" % (
        100 * foreign.share(), bench.threads)
    rows = [Row("fig. 18b, %d hosts" % k, "1 host", "iterations/s", [1e3 / x for x in ms[k]],
                [1e3 / x for x in ms[1]], None, note=note) for k in ms if k > 1]
    cells = [["hosts", "ours", "speed-up", "published (128 workers)"]]
    cells += [[str(k), says(ms[k]), "%.2f" % (median(ms[1]) / median(ms[k])), "almost linear"] for k in ms]
    text = "Figure 18b (TOMM): time per iteration, cifar10 net, batch %d.\n%s\n%s" % (
        batch, report.align(cells, ()), plot.drawn(bench, "tomm-18b-run", "TOMM, Figure 18b: time per iteration",
                                                   [("ours", [(k, median(ms[k])) for k in ms])], "hosts",
                                                   "ms an iteration", 0))
    return rows + [Sheet(text, every_time("fig. 18b", {"%d hosts" % k: v for k, v in ms.items()}))]


CURVE = ("SELECT m.time - r.started_at, m.step, m.value FROM metrics m JOIN runs r ON r.id = m.run_id"
         " WHERE r.id = (SELECT max(id) FROM runs) AND m.split <> 'train' AND m.name = 'accuracy' ORDER BY m.step")


def train_curve(bench, recipe, hosts, rows, steps, sets, **more):
    """Trains; returns [(seconds, step, accuracy), ...]."""
    net.trained(bench, recipe, hosts, rows, steps, sets, evaluates=max(1, steps // 8),
                data=data_folder(bench, os.path.join("cifar10", "data_batch_1.bin")), **more)
    out = measure.run([bench.options.binary, "history", "sql", CURVE],
                      env={"SINGA_DB": os.path.join(bench.path("host0"), "history.db")}).out
    return [tuple(float(x) for x in line.split("\t")) for line in out.splitlines()
            if re.match(r"[0-9.]+\t", line)]


def curves_sheet(bench, title, key, made):
    """made: [(name, points)]."""
    goal = 0.97 * min(max(p[2] for p in points) for _, points in made)
    cells = [["", "last accuracy", "%.3f at" % goal, "and step", "s in all"]]
    for name, points in made:
        first = next(p for p in points if p[2] >= goal)
        cells.append([name, "%.4f" % points[-1][2], "%.1f s" % first[0], "%d" % first[1], "%.1f" % points[-1][0]])
    drawn = plot.drawn(bench, key.replace(".", "").replace(" ", "-"), title.split(":")[0], [
        (name, [(p[0], p[2]) for p in points]) for name, points in made], "seconds of training",
                       "accuracy on the test set")
    return Sheet("%s\n%s\n%s" % (title, report.align(cells, (0,)), drawn), "".join(
        "%s | %s seconds,step,accuracy: %s\n" % (key, name, " ".join("%.2f,%d,%.4f" % p for p in points))
        for name, points in made))


def figure_19c(bench):
    """Asynchronous training on a cluster: accuracy against time, a worker group on each host, by the
    workers of a group."""
    net.build_network()
    steps, made = (4, []) if bench.options.trial else (1500, [])
    for workers in (1, 2):
        sets = ["cluster.worker_groups=1", "cluster.workers_per_group=%d" % workers]
        points = train_curve(bench, "cifar10-downpour.ini", 2, 16, steps, sets, framework="downpour")
        made.append(("%d worker%s a group" % (workers, "s"[:workers > 1]), points))
        bench.say("fig. 19c, %s: %.4f after %.1f s" % (made[-1][0], points[-1][2], points[-1][0]))
    title = ("Figure 19c (TOMM): accuracy against time, Downpour, a group on each of 2 hosts, batch 16 of each group, "
             "%d steps,\nthe server on host 0. Published (32 groups, 60000 steps, a server on each node): more workers "
             "in a group are\nfaster, because each has fewer images." % steps)
    return [curves_sheet(bench, title, "fig. 19c", made)]


# ---- Poseidon, figures 6 to 8 -------------------------------------------------------------------

def poseidon_6(bench):
    """cifar10-quick: accuracy against time and iterations, 50 images a host, against one host."""
    net.build_network()
    net.limit("1gbit")
    steps, made = (8, []) if bench.options.trial else (400, [])
    for hosts in hosts_of(bench, 2):
        points = train_curve(bench, "cifar10-quick.ini", hosts, 50, steps, ["cluster.comm=auto"])
        made.append(("%d host%s" % (hosts, "s"[:hosts > 1]), points))
        bench.say("poseidon 6, %d hosts: %.4f after %.1f s" % (hosts, points[-1][2], points[-1][0]))
    net.limit("0")
    title = ("Figure 6a-b (Poseidon): accuracy on CIFAR-10 against time and steps, cifar10-quick, 50 images a host, "
             "1 Gbit/s,\n%d steps. Published: 8 nodes reach the accuracy of one 4 times sooner, in fewer steps." %
             steps)
    return [curves_sheet(bench, title, "poseidon 6", made)]


SETTINGS = (("without DWBP", ["cluster.overlap=no", "cluster.comm=ps"]),
            ("DWBP", ["cluster.overlap=yes", "cluster.comm=ps"]),
            ("DWBP and SACP", ["cluster.overlap=yes", "cluster.comm=auto"]))


def speeds(bench, title, recipe, rows, steps, hosts, settings, **more):
    """{(setting, hosts): [images per second]}, and those of one host alone."""
    made, one = {}, []
    for _ in range(bench.options.repeats):
        one.append(1e3 * rows / net.step_ms(bench, recipe, 1, rows, steps))
        for name, sets in settings:
            for k in hosts:
                ms = net.step_ms(bench, recipe, k, rows, steps, sets, **more)
                made.setdefault((name, k), []).append(1e3 * rows * k / ms)
                bench.say("%s, %d hosts, %s: %.4g images/s, one host %.4g" % (
                    title, k, name, made[name, k][-1], one[-1]))
    return made, one


def speed_figure(title, key, made, one, published):
    rows = [Row("%s, %d hosts, %s" % (key, k, name), "1 host", "images/s", v, one, None)
            for (name, k), v in made.items()]
    hosts = sorted({k for _, k in made})
    cells = [["", "1 host"] + ["%d hosts" % k for k in hosts] + ["published, 8 nodes"]]
    for name in dict.fromkeys(n for n, _ in made):
        cells.append([name, "1"] + ["%.2f" % (median(made[name, k]) / median(one)) for k in hosts] +
                     [published.get(name, "not in the text")])
    values = "".join("%s | %s, %d hosts images/s: %s\n" % (key, name, k, " ".join("%.5g" % x for x in v))
                     for (name, k), v in made.items())
    return rows + [Sheet("%s\n%s" % (title, report.align(cells, (0,))), values)]


def poseidon_7(bench):
    """Throughput against one host, with and without overlap and factors."""
    net.build_network()
    net.limit("1gbit")
    made = []
    rows = 2 if bench.options.trial else bench.options.rows
    for recipe, rows, steps, best in (("alexnet.ini", rows, 3, "4.5"), ("googlenet.ini", max(rows // 4, 1), 3, "4")):
        if bench.options.trial and recipe != "alexnet.ini":
            continue
        key = "poseidon 7, %s" % recipe[:-4]
        title = "Figure 7 (Poseidon): speed-up of %s, %d images a host, 1 Gbit/s, by the exchange" % (recipe, rows)
        values, one = speeds(bench, key, recipe, rows, steps, [2], SETTINGS)
        made += speed_figure(title, key, values, one, {"DWBP and SACP": best})
    net.limit("0")
    return made


def poseidon_8(bench):
    """Throughput of two hosts by staleness, against one host."""
    net.build_network()
    rows, steps, made = 50, 4 if bench.options.trial else 100, []
    # With a bound of 0 both hosts share each batch; else each group has its own.
    settings = [("staleness 0", ["cluster.staleness=0", "job.batch=%d" % (2 * rows)])]
    settings += [("staleness %d" % s, ["cluster.staleness=%d" % s]) for s in (1, 3)]
    settings = [(name, ["cluster.worker_groups=1"] + sets) for name, sets in settings]
    for rate, name in (("1gbit", "1 Gbit/s"), ("100mbit", "100 Mbit/s")):
        net.limit(rate)
        key = "poseidon 8, %s" % name
        values, one = speeds(bench, key, "cifar10-quick.ini", rows, steps, [2], settings, framework="downpour")
        title = ("Figure 8 (Poseidon): speed-up by staleness, cifar10-quick, %d images a host, %s. Published, with "
                 "AlexNet\nand GoogLeNet: a staleness above 0 raises the throughput greatly where much is "
                 "exchanged." % (rows, name))
        made += speed_figure(title, key, values, one, {})
    net.limit("0")
    return made


FIGURES = {"11": figure_11, "18b": figure_18b, "19c": figure_19c, "poseidon6": poseidon_6,
           "poseidon7": poseidon_7, "poseidon8": poseidon_8}
