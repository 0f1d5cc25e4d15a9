"""The figures of bench/plan. A set-up is named by net, device, workers x threads, and how layers are
partitioned and their gradients exchanged.
"""
import json
import os

import measure
import report
from common import Row, Sheet, Skipped
from frameworks import median

MEDIAN_GOAL, LARGEST_GOAL, CHOICE_GOAL = 0.10, 0.25, 1.05
LEAST_SETUPS = 12

# The nets, and the steps of one training; batches are small, so that one takes seconds.
NETS = {
    "mlp": dict(recipe="mnist-mlp.ini", batch=64, warmup=50, steps=1000, on_devices=100),
    "quick": dict(recipe="cifar10-quick.ini", batch=100, warmup=5, steps=40),
    "alexnet": dict(recipe="alexnet-owt.ini", batch=16, warmup=2, steps=6),
    "char-rnn": dict(recipe="char-rnn.ini", batch=50, warmup=3, steps=20),
    "resnet50": dict(recipe="resnet50.ini", batch=4, warmup=2, steps=6),
}
COLUMNS = {
    "mlp": ["layer.fc1.partition=1", "layer.relu1.partition=1"],
    "alexnet": ["layer.%s.partition=1" % l for l in ("fc6", "relu6", "fc7", "relu7", "fc8")],
}
FACTORS = {"mlp": ["layer.fc1.comm=sfb"],
           "alexnet": ["layer.%s.comm=sfb" % l for l in ("fc6", "fc7", "fc8")]}
FAST, SLOW = "pcie=10GB/s,latency=10us", "pcie=100MB/s,latency=100us"
ROWS = "cluster.framework=allreduce", "job.partition=0", "cluster.comm=ps"


class Setup:
    """workers: of one group. one_core: the machine is a single core, else all of them."""

    def __init__(self, net, workers, how="", sets=(), device="cpu", one_core=False):
        self.net, self.workers, self.device, self.one_core = net, workers, device, one_core
        self.sets = list(ROWS) + ["cluster.workers_per_group=%d" % workers] + list(sets)
        self.how = how

    def machine(self):
        """Set-ups of the same net on the same machine can replace one another."""
        return self.net, self.device, self.one_core

    def name(self, bench):
        threads = 1 if self.one_core or self.device != "cpu" else bench.threads // self.workers
        shape = "%d x %d" % (self.workers, threads) if self.device == "cpu" else self.device
        return ", ".join(t for t in (self.net, shape, self.how) if t)


def setups(cores):
    """All that this machine can run."""
    made = []
    for net in NETS:
        made.append(Setup(net, 1, one_core=True))
        if cores > 1:
            made += [Setup(net, 1), Setup(net, 2, "rows")]
        if net in COLUMNS and cores > 1:
            made += [Setup(net, 2, "columns", COLUMNS[net]), Setup(net, 2, "sfb", FACTORS[net])]
    for gpus in (2, 4):
        for link in (FAST, SLOW):
            device = "sim:gpus=%d,%s" % (gpus, link)
            made += [Setup("mlp", gpus, "rows", device=device),
                     Setup("mlp", gpus, "columns", COLUMNS["mlp"], device=device),
                     Setup("mlp", gpus, "sfb", FACTORS["mlp"], device=device)]
    made += [Setup("alexnet", 2, how, sets, "sim:gpus=2,pcie=2GB/s,latency=20us")
             for how, sets in (("rows", ()), ("columns", COLUMNS["alexnet"]))]
    return made


# ---- One prediction, one training ---------------------------------------------------------------

def net_of(bench, setup):
    net = dict(NETS[setup.net])
    if setup.device != "cpu":
        net.update(steps=net.get("on_devices", net["steps"]))
    if bench.options.trial:
        net.update(warmup=1, steps=3)
    return net


def prefix(setup):
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if setup.one_core else []


def environment(bench):
    """As every run of a benchmark has it, but the program chooses its threads."""
    env = bench.environment()
    del env["OMP_NUM_THREADS"]
    return env


def predict(bench, setup, sets, calibrates=False):
    """What `plan --json` prints for a set-up with these settings."""
    net = net_of(bench, setup)
    argv = prefix(setup) + [bench.options.binary, "plan", bench.recipe(net["recipe"]), "--json",
                            "--device", setup.device]
    argv += ["--measure"] if calibrates else []
    for text in ["job.batch=%d" % net["batch"]] + list(sets):
        argv += ["--set", text]
    return json.loads(measure.run(argv, env=environment(bench)).out)


STRETCH = 10  # steps in a row whose mean is one time: steps on devices overlap


def times_of(rows, warmup):
    """The milliseconds of a step in stretches of steps of each worker."""
    times, workers = [], {}
    for worker, step, ms in rows:
        if int(step) > warmup:
            workers.setdefault(worker, []).append(float(ms))
    for steps in workers.values():
        stretch = max(1, min(STRETCH, len(steps) // 3))
        times += [sum(steps[i:i + stretch]) / stretch
                  for i in range(0, len(steps) - stretch + 1, stretch)]
    return times


def train(bench, setup, sets):
    """Trains some steps; returns the milliseconds of a step, as the workers' time breakdown has it.
    """
    net = net_of(bench, setup)
    name = "plan-%d" % len(os.listdir(bench.temporary))
    argv = prefix(setup) + [bench.options.binary, "run", bench.recipe(net["recipe"]), "--device",
                            setup.device, "--steps", str(net["warmup"] + net["steps"]), "--name",
                            name, "--out", bench.path(name), "--quiet", "--no-ui",
                            "--oversubscribe"]
    for text in ["job.batch=%d" % net["batch"]] + list(sets):
        argv += ["--set", text]
    measure.run(argv, env=environment(bench))
    rows = bench.sql("SELECT worker, step, read_ms + decode_ms + h2d_ms + forward_ms + backward_ms"
                     " + update_ms + comm_exposed_ms + wait_ms + idle_ms FROM step_time"
                     " WHERE run_id = (SELECT id FROM runs WHERE name = '%s') ORDER BY worker, step"
                     % name)
    bench.drop(name)
    return median(times_of(rows, net["warmup"]))


def settings_of(ini):
    """The lines of a recipe as texts of --set."""
    sets, section = [], ""
    for line in ini.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]").replace(" ", ".")
        elif line:
            key, value = (t.strip() for t in line.split("=", 1))
            sets.append("%s.%s=%s" % (section, key, value))
    return sets


# ---- Set-ups ------------------------------------------------------------------------------------

PARTS = "compute", "params", "activations", "rest", "wait"


class Compared:
    """A set-up with its predictions and measurements, in ms, one of each per repeat."""

    def __init__(self, setup):
        self.setup, self.predicted, self.measured, self.plan = setup, [], [], {}

    def predict(self, bench):
        self.plan = predict(bench, self.setup, self.setup.sets)
        self.predicted.append(self.plan["predicted_ms"])

    def train(self, bench):
        self.measured.append(train(bench, self.setup, self.setup.sets))

    def ratio(self):
        return median([p / m for p, m in zip(self.predicted, self.measured)])

    def error(self):
        return abs(self.ratio() - 1)


def gpu_count(setup):
    """Settings of a plan that uses all simulated GPUs; none on cores, which it may divide."""
    return [] if setup.device == "cpu" else ["cluster.workers_per_group=%d" % setup.workers]


def compare_machine(bench, those):
    """The layers are measured once for all set-ups of a net on a machine, then each is trained."""
    most = max(those, key=lambda c: c.setup.workers).setup
    for _ in range(bench.options.repeats):
        predict(bench, most, gpu_count(most), True)
        for c in those:
            c.predict(bench)
        for c in those:
            c.train(bench)
    for c in those:
        bench.say("%s: predicted %.4g ms, measured %.4g ms, ratio %.3f" % (
            c.setup.name(bench), median(c.predicted), median(c.measured), c.ratio()))


def compare(bench):
    """Measures the set-ups, once for all figures; by machine."""
    if not hasattr(bench, "compared"):
        bench.compared = {}
        for s in setups(bench.threads):
            if bench.options.only in s.name(bench):
                bench.compared.setdefault(s.machine(), []).append(Compared(s))
        for those in bench.compared.values():
            compare_machine(bench, those)
    if not bench.compared:
        raise Skipped("no set-up has '%s' in its name" % bench.options.only)
    return bench.compared


def verdict(reached):
    return "reached" if reached else "MISSED"


def goal(value, most):
    return "goal: at most %g %%: %s" % (100 * most, verdict(value <= most))


def setups_figure(bench):
    compared = [c for those in compare(bench).values() for c in those]
    cells = [["set-up", "predicted ms", "measured ms", "ratio", "error"] + list(PARTS)]
    for c in compared:
        cells.append([c.setup.name(bench), report.number(median(c.predicted)),
                      report.number(median(c.measured)), "%.3f" % c.ratio(),
                      "%.1f %%" % (100 * c.error())] +
                     [report.number(c.plan[k + "_ms"]) for k in PARTS])
    errors = [c.error() for c in compared]
    text = "Predicted and measured time of a step\n\n%s\n" % report.align(cells, (0,))
    text += "set-ups       %-7d goal: at least %d: %s\n" % (
        len(compared), LEAST_SETUPS, verdict(len(compared) >= LEAST_SETUPS))
    for name, value, most in (("median error", median(errors), MEDIAN_GOAL),
                              ("largest error", max(errors), LARGEST_GOAL)):
        text += "%-13s %-7s %s\n" % (name, "%.1f %%" % (100 * value), goal(value, most))
    values = "".join("%s | %s ms: %s\n" % (c.setup.name(bench), what,
                                          " ".join("%.6g" % v for v in getattr(c, what)))
                     for c in compared for what in ("predicted", "measured"))
    return [Sheet(text, values)]


# ---- The chosen plan ----------------------------------------------------------------------------

def choice_of(plan):
    """What distinguishes plans of a net on a machine."""
    shape = [plan[k] for k in ("framework", "consistency", "worker_groups", "workers_per_group")]
    alone = plan["worker_groups"] * plan["workers_per_group"] == 1
    return shape[2:] if alone else shape + [
        (l["partition"], l["location"], l["comm"]) for l in plan["layers"]]


def both(bench, *two):
    """Trains two set-ups with their settings in turns; returns the times of each."""
    times = [], []
    for _ in range(max(3, bench.options.repeats)):
        for (setup, sets), t in zip(two, times):
            t.append(train(bench, setup, sets))
    return times


def choice_figure(bench):
    """Per net and machine: the chosen plan against the fastest measured of all set-ups."""
    rows = []
    for (net, device, one_core), those in compare(bench).items():
        if len(those) < 2:
            continue
        free = Setup(net, those[0].setup.workers, device=device, one_core=one_core)
        gpus = gpu_count(free)
        plan = predict(bench, free, gpus)
        best = min(those, key=lambda c: median(c.measured))
        sets = gpus + settings_of(plan["ini"])
        if choice_of(plan) == choice_of(best.plan):
            a = b = best.measured
        else:
            a, b = both(bench, (free, sets), (best.setup, best.setup.sets))
        bench.say("%s on %s: %.4g ms, best %.4g ms (%s)" % (net, device, median(a), median(b),
                                                          best.setup.name(bench)))
        rows.append(Row("%s on %s, chosen" % (net, device), best.setup.name(bench), "ms", a, b,
                        CHOICE_GOAL, at_most=True, note="chosen: %s" % " ".join(sets)))
    if not rows:
        raise Skipped("no two set-ups of a net on one machine")
    worst = max(median(r.ratios) for r in rows)
    text = "chosen plan   %+.1f %%  at worst, against the fastest set-up of its net and machine; %s\n" % (
        100 * (worst - 1), goal(worst - 1, CHOICE_GOAL - 1))
    return rows + [Sheet(text)]


# ---- Slower links -------------------------------------------------------------------------------

def links_figure(bench):
    """The plans for fast and for slow links, both trained on the slow ones. With this batch, factors
    cost more than they save on fast links.
    """
    net, sets, plans = "mlp", ["cluster.workers_per_group=2", "job.batch=256"], []
    for link in (FAST, SLOW):
        setup = Setup(net, 2, device="sim:gpus=2," + link)
        plans.append(sets + settings_of(predict(bench, setup, sets, True)["ini"]))
    if plans[0] == plans[1]:
        raise measure.Failed("%s: the plan for slow links is that for fast ones" % net)
    a, b = both(bench, (setup, plans[1]), (setup, plans[0]))
    row = Row("%s on %s, its plan" % (net, setup.device), "plan for " + FAST, "ms", a, b, 1,
              at_most=True, note="for fast links: %s; for slow ones: %s" % tuple(
                  " ".join(p) for p in plans))
    text = "slower links  %.2f times the step of the plan for fast ones; goal: at most 1: %s\n" % (
        median(row.ratios), verdict(row.reached()))
    return [row, Sheet(text)]


FIGURES = {"setups": setups_figure, "choice": choice_figure, "links": links_figure}
