"""Frameworks by number of workers, for bench/papers. Every setup is a recipe of recipes/ with other
values of [cluster]. The curves are read from the view `metrics` of the history, so the same queries
work on any history with runs of these recipes.
"""
import os

import measure
import plot
import report
from common import Row, Sheet, Skipped


SYNCHRONOUS = ("allreduce", "sandblaster")


class Setup:
    """Settings of [cluster] with a name, for workers of `threads` threads each."""

    def __init__(self, name, framework, groups=1, workers=1, threads=1, more=()):
        self.name, self.threads = name, threads
        self.updates = 1 if framework in SYNCHRONOUS else groups  # updates per step
        self.sets = ["cluster.framework=" + framework, "cluster.worker_groups=%d" % groups,
                     "cluster.workers_per_group=%d" % workers]
        self.sets += ["cluster." + text for text in more]


def alone(threads):
    return Setup("1 x %d" % threads, "allreduce", threads=threads, more=["servers_per_group=1"])


def allreduce(workers):
    return Setup("allreduce, %d x 1" % workers, "allreduce", workers=workers,
                 more=["servers_per_group=%d" % workers])


def sandblaster(workers, servers):
    return Setup("sandblaster, %d x 1" % workers, "sandblaster", workers=workers,
                 more=["servers_per_group=%d" % servers])


def downpour(groups, staleness=None):
    name = "downpour, %d group%s" % (groups, "s"[:groups > 1])
    if staleness is None:
        return Setup(name, "downpour", groups=groups)
    return Setup("%s, staleness %d" % (name, staleness), "downpour", groups=groups,
                 more=["staleness=%d" % staleness])


def hogwild(groups, copies=1):
    name = "hogwild, %d groups" % groups
    return Setup(name if copies == 1 else "%s, %d server groups" % (name, copies), "hogwild",
                 groups=groups, more=["server_groups=%d" % copies])


def counts(most):
    """1, 2, 4 ... and the maximum."""
    n, out = 1, []
    while n < most:
        out.append(n)
        n *= 2
    return out + [most]


def run(bench, net, setup, steps, sets=(), data=None):
    """Trains; returns the name of the run in the history."""
    name, _ = bench.train(bench.recipe(net["recipe"]), steps,
                          ["job.batch=%d" % net["batch"]] + list(sets) + setup.sets,
                          setup.threads, data=data, label=setup.name)
    bench.drop(name)
    return name


# ---- Time per iteration -------------------------------------------------------------------------

STEP_MS = ("SELECT r.batch * 1000.0 / m.value FROM metrics m JOIN runs r ON r.id = m.run_id"
           " WHERE r.name = '%s' AND m.split = 'train' AND m.name = 'samples_per_s'"
           " AND m.step > %d")


def median(values):
    return measure.spread(values)[1]


def step_ms(bench, net, setup):
    name = run(bench, net, setup, net["warmup"] + net["steps"], ["job.eval_every=0"])
    return median([float(row[0]) for row in bench.sql(STEP_MS % (name, net["warmup"]))])


def rounds(bench, net, setups):
    """Runs the setups in turn: returns {name: [ms per step, ...]} and the fraction that other
    processes used.
    """
    values, foreign = {s.name: [] for s in setups}, measure.Foreign()
    for i in range(bench.options.repeats):
        for s in setups:
            values[s.name].append(step_ms(bench, net, s))
            bench.say("%s, batch %d | %s %d/%d: %.4g ms" % (
                net["recipe"][:-4], net["batch"], s.name, i + 1, bench.options.repeats,
                values[s.name][-1]))
    return values, foreign.share()


def speed_row(title, a, b, ms, unit, aim, foreign):
    """The ratio of updates per second of `a` and `b`."""
    return Row("%s, %s" % (title, a.name), b.name, unit,
               [a.updates * 1e3 / x for x in ms[a.name]], [b.updates * 1e3 / x for x in ms[b.name]],
               aim, note="foreign load %.0f %%" % (100 * foreign))


def scaling_table(bench, title, columns, ms):
    """columns: (heading, [(count, setup), ...]); all of them have the same counts."""
    cells = [["workers or threads"] + [h for h, _ in columns]]
    for i, (count, _) in enumerate(columns[0][1]):
        line = [str(count)]
        for _, setups in columns:
            t, first = median(ms[setups[i][1].name]), median(ms[setups[0][1].name])
            line.append("%s ms (%.2f)" % (report.number(t), first / t))
        cells.append(line)
    drawn = plot.drawn(bench, "tomm-18a", "TOMM, Figure 18a: time per iteration, cifar10 net",
                       [(h, [(c, median(ms[s.name])) for c, s in setups]) for h, setups in columns],
                       "workers or threads", "ms an iteration", 0)
    return "%s\n%s\n%s" % (title, report.align(cells, (0,)), drawn)


def every_time(title, ms):
    return "".join("%s | %s ms: %s\n" % (title, name, " ".join("%.6g" % v for v in values))
                   for name, values in ms.items())


def figure_18a(bench):
    """Synchronous training: workers of one thread against threads inside operations. The median of
    iterations 31 to 80, where the papers use the mean.
    """
    net = dict(recipe="cifar10-sandblaster.ini", batch=256, warmup=30, steps=50)
    if bench.options.trial:
        net.update(batch=16, warmup=1, steps=2)
    some = counts(bench.threads)
    one = [(k, alone(k)) for k in some]
    dist = [(k, sandblaster(k, 4)) for k in some]
    reduce = one[:1] + [(k, allreduce(k)) for k in some[1:]]
    ms, foreign = rounds(bench, net, [s for _, s in one + dist + reduce[1:]])
    rows = []
    for column in (dist, reduce):
        for (k, threaded), (_, s) in list(zip(one, column))[1:]:
            rows.append(speed_row("fig. 18a", s, one[0][1], ms, "iterations/s", 0.96 * k, foreign))
            rows.append(speed_row("fig. 18a", s, threaded, ms, "iterations/s", 0.97, foreign))
    title = ("Figure 18a: time per iteration, cifar10 net, batch %d. Published: SINGA-dist is the "
             "fastest and\nscales best; threads inside operations scale badly and are slower beyond "
             "8." % net["batch"])
    text = scaling_table(bench, title, [("SINGA (threads)", one), ("SINGA-dist (sandblaster)", dist),
                                        ("allreduce", reduce)], ms)
    return rows + [Sheet(text, every_time("fig. 18a", ms))]


# ---- Scaling ------------------------------------------------------------------------------------

def scaling_of(bench, name, makers, aim):
    """makers: functions from a count of workers to a setup. In an asynchronous setup every group
    makes an update in a step.
    """
    net, some = bench.net(name), counts(bench.threads)[1:]
    base, setups = alone(1), [(k, make(k)) for make in makers for k in some]
    ms, foreign = rounds(bench, net, [base] + [s for _, s in setups])
    title = "%s, batch %d" % (net["recipe"][:-4], net["batch"])
    rows = []
    for k, s in setups:
        rows.append(speed_row(title, s, base, ms, "updates/s", aim * k, foreign))
    return rows + [Sheet("", every_time(title, ms))]


def scaling(bench):
    """1 worker to one per core, for the frameworks that suit a net."""
    if bench.threads < 2:
        raise Skipped("needs several cores")
    made = []
    for name, makers, aim in (("alexnet", (allreduce, lambda k: sandblaster(k, k)), 0.96),
                              ("quick", (allreduce, lambda k: sandblaster(k, k), downpour), 0.96),
                              ("mlp", (downpour, hogwild), 0.9)):
        made += scaling_of(bench, name, makers, aim)
    return made


# ---- Accuracy against time ----------------------------------------------------------------------

# Seconds since the start of the run, epochs of all groups, and the accuracy of the evaluation.
CURVE = ("SELECT m.time - r.started_at, 1.0 * m.step * r.batch / r.epoch_records, m.value"
         " FROM metrics m JOIN runs r ON r.id = m.run_id WHERE r.name = '%s'"
         " AND m.split <> 'train' AND m.name = 'accuracy' ORDER BY m.step")


class Curve:
    def __init__(self, bench, setup, name):
        self.setup = setup
        self.points = [tuple(float(x) for x in row) for row in bench.sql(CURVE % name)]

    def best(self):
        return max(p[2] for p in self.points)

    def first(self, accuracy):
        """(seconds, epochs) when the accuracy was reached; None if it was not."""
        for seconds, epochs, value in self.points:
            if value >= accuracy:
                return seconds, epochs
        return None


def data_folder(bench, file):
    folder = os.path.abspath(bench.options.data)
    if not os.path.exists(os.path.join(folder, file)):
        raise Skipped("%s not found in %s (--data DIR)" % (file, folder))
    return folder


def train_curves(bench, net, setups, samples, evaluations, data):
    """Trains all setups on the same number of samples. net["batch"] is the batch of one update."""
    made = []
    for s in setups:
        every = max(1, samples // (net["batch"] * s.updates * evaluations))
        name = run(bench, net, s, every * evaluations,
                   ["job.eval_every=%d" % every, "job.checkpoint_every=0"], data)
        made.append(Curve(bench, s, name))
        bench.say("%s | %s: %.4f after %.1f s" % (net["recipe"][:-4], s.name,
                                                made[-1].points[-1][2], made[-1].points[-1][0]))
    return made


def curves_sheet(bench, key, title, made, targets):
    cells = [["", "last", "best"] + ["%.4g at" % t for t in targets]]
    for c in made:
        line = [c.setup.name, "%.4f" % c.points[-1][2], "%.4f" % c.best()]
        for t in targets:
            found = c.first(t)
            line.append("%.1f s, %.2f epochs" % found if found else "--")
        cells.append(line)
    drawn = plot.drawn(bench, key, title.split(":")[0], [
        (c.setup.name, [(p[0], p[2]) for p in c.points]) for c in made], "seconds of training",
                       "accuracy on the test set")
    values = "".join("%s | %s seconds,epochs,accuracy: %s\n" % (
        title.split(":")[0], c.setup.name, " ".join("%.2f,%.3f,%.4f" % p for p in c.points))
        for c in made)
    text = "%s\n%s\n%s\nfrom the history: %s\n" % (title, report.align(cells, (0,)), drawn,
                                                  CURVE % "NAME")
    return Sheet(text, values)


def figure_19(bench):
    """Asynchronous training: accuracy against time for increasing numbers of groups."""
    data = data_folder(bench, os.path.join("cifar10", "data_batch_1.bin"))
    net = dict(recipe="cifar10-downpour.ini", batch=16)
    per_group = 20 if bench.options.trial else bench.options.iterations
    some, made = counts(bench.threads), []
    for k in some:
        setups = [downpour(k), hogwild(k)] if k > 1 else [downpour(1)]
        if k > 1 and k == some[-1]:
            setups += [hogwild(k, 2), allreduce(k)]
        made += train_curves(bench, net, setups, k * per_group * net["batch"],
                             2 if bench.options.trial else 10, data)
    least = min(c.best() for c in made)
    title = ("Figures 19a and 19b: accuracy against time, cifar10 net, batch 16, %d iterations of "
             "each group\n(published: 60000). Published: with more groups an accuracy is reached "
             "sooner, and the last one is higher." % per_group)
    return [curves_sheet(bench, "tomm-19", title, made, [0.8 * least, least])]


def lenet(bench):
    """All frameworks on LeNet: they should reach the accuracy of one worker in as many epochs and
    less time.
    """
    data = data_folder(bench, os.path.join("mnist", "train-images-idx3-ubyte.gz"))
    net = dict(recipe="lenet.ini", batch=64)
    k = 2  # more groups need less momentum than the recipe has
    if bench.threads < k:
        raise Skipped("needs several cores")
    setups = [alone(1), sandblaster(k, k), allreduce(k), downpour(k), downpour(k, 4), hogwild(k),
              hogwild(k, 2)]
    epochs = 0.05 if bench.options.trial else bench.options.epochs
    made = train_curves(bench, net, setups, int(epochs * 60000),
                        2 if bench.options.trial else 10, data)
    goal = made[0].points[-1][2] - 0.003
    title = ("LeNet on MNIST, %g epochs: accuracy against time, and when each came within 0.3 %% of "
             "the last accuracy\nof one worker" % epochs)
    return [curves_sheet(bench, "lenet", title, made, [0.97, goal])]


FIGURES = {"18a": figure_18a, "19": figure_19, "lenet": lenet, "scaling": scaling}
