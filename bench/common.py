"""Code shared by the figures: rows of the table, the nets, and running singa-ws and the chain of
oneDNN primitives. singa-ws always runs as a user runs it: recipe -> primitives -> parameter table
-> server, with history and checkpoints; its speed is the median of `samples_per_s` in the history,
which counts the whole step including the wait for data.
"""
import json
import os
import re
import threading
import time

import measure


class Skipped(Exception):
    """Raised when the figure cannot be measured on this machine; the text gives the reason."""


class Row:
    """One line of the table: a and b in `unit`, and the ratios of the pairs."""

    def __init__(self, name, other, unit, a, b, aim, at_most=False, note=""):
        self.name, self.other, self.unit, self.note = name, other, unit, note
        self.a, self.b = a, b
        self.ratios = [x / y for x, y in zip(a, b)]
        self.aim, self.at_most = aim, at_most

    def reached(self):
        """Whether the ratio reaches the aim; None without an aim."""
        if self.aim is None:
            return None
        median = measure.spread(self.ratios)[1]
        return median <= self.aim if self.at_most else median >= self.aim


class Sheet:
    """Output other than a row of the table: text, and the measured values."""

    def __init__(self, text, values=""):
        self.text, self.values = text, values


# The recipes that are timed, and the steps of one run. same_lr is the learning rate for the check
# that PyTorch computes the same: at the rate of alexnet-owt the first losses jump and amplify
# rounding errors.
NETS = {
    "alexnet": dict(recipe="alexnet-owt.ini", batch=128, warmup=2, steps=5, trial_batch=4,
                    channels=3, side=224, classes=256, mean="127.5", std="64", same_lr=0.000001),
    "quick": dict(recipe="cifar10-quick.ini", batch=100, warmup=10, steps=50, trial_batch=10,
                  channels=3, side=32, classes=10, mean="125.3, 123.0, 113.9", std="1",
                  same_lr=0.001),
    "lenet": dict(recipe="lenet.ini", batch=64, warmup=20, steps=200, trial_batch=8, channels=1,
                  side=28, classes=10, mean="0", std="256", same_lr=0.01),
    "mlp": dict(recipe="mnist-mlp.ini", batch=64, warmup=50, steps=1000, trial_batch=8, channels=1,
                side=28, classes=10, mean="0", std="255", same_lr=0.1),
    "googlenet": dict(recipe="googlenet.ini", batch=16, warmup=2, steps=6, trial_batch=2),
    "resnet50": dict(recipe="resnet50.ini", batch=16, warmup=2, steps=6, trial_batch=2),
    "rbm": dict(recipe="rbm1.ini", batch=100, warmup=50, steps=500, trial_batch=10),
}
TRIAL_STEPS = dict(warmup=1, steps=2)


class Bench:
    """The state shared by all figures: options, folders, programs."""

    def __init__(self, options, root, temporary, say):
        self.options, self.root, self.temporary, self.say = options, root, temporary, say
        self.history = os.path.abspath(getattr(options, "db", None) or self.path("history.db"))
        self.threads = options.threads or self.placed_threads()
        self.lock = threading.Lock()  # of runs, since some run concurrently
        self.runs, self.session = 0, "%s-%d" % (time.strftime("%Y%m%d-%H%M%S"), os.getpid())
        self.chain_program = None
        os.makedirs(os.path.join(temporary, "run"), mode=0o700)
        os.makedirs(os.path.join(temporary, "nothing"))

    def path(self, *parts):
        return os.path.join(self.temporary, *parts)

    def recipe(self, name):
        return os.path.join(self.root, "recipes", name)

    def net(self, name):
        net = dict(NETS[name])
        if self.options.trial:
            net.update(TRIAL_STEPS, batch=net["trial_batch"])
        return net

    def environment(self, threads=None, data=None):
        """The environment of singa-ws: the given threads, none of the user's settings, and unless a
        folder is given no data, so that images are synthetic."""
        return {"OMP_NUM_THREADS": str(threads or self.threads), "XDG_STATE_HOME": self.temporary,
                "XDG_RUNTIME_DIR": self.path("run"), "SINGA_DB": self.history,
                "SINGA_DATA": data or self.path("nothing")}

    def placed_threads(self):
        """The number of threads that singa-ws would use: one per available core."""
        ended = measure.run([self.options.binary, "check", "--json",
                             self.recipe("mnist-mlp.ini")])
        return json.loads(ended.out)["placement"][0]["threads"]

    def sql(self, query):
        """Returns rows of the history of this benchmark."""
        ended = measure.run([self.options.binary, "history", "sql", query],
                            env=self.environment())
        return [line.split("\t") for line in ended.out.splitlines()]

    def layers(self, net):
        """The names of the recipe's layers."""
        ended = measure.run([self.options.binary, "check", "--json", self.recipe(net["recipe"])],
                            env=self.environment())
        return {layer["name"] for layer in json.loads(ended.out)["layers"]}

    def uses_winograd(self, net):
        """Whether a convolution of the recipe uses Winograd's algorithm at this batch."""
        ended = measure.run([self.options.binary, "check", "--json", self.recipe(net["recipe"]),
                             "--set", "job.batch=%d" % net["batch"]], env=self.environment())
        return any("wino" in (layer.get("algorithm") or "")
                   for layer in json.loads(ended.out)["layers"])

    def train(self, recipe, steps, sets=(), threads=None, options=(), data=None, label="",
              prefix=()):
        """Trains a recipe in its own folder and returns the name of the run in the history. label:
        part of the name. threads: math threads of each worker. prefix: a program that starts it.
        """
        with self.lock:
            self.runs += 1
            name = "bench-%s-%d" % (self.session, self.runs)
        name += re.sub("[^a-z0-9]+", "-", "-" + label) if label else ""
        argv = list(prefix) + [self.options.binary, "run", recipe, "--steps", str(steps), "--name",
                               name, "--out", self.path(name), "--quiet", "--no-ui"] + list(options)
        for text in sets:
            argv += ["--set", text]
        return name, measure.run(argv, env=self.environment(threads, data))

    def predict(self, recipe, weights, split, layer, output, sets=()):
        """Writes the output of a layer for a split, with the weights of a checkpoint, as an array.
        """
        argv = [self.options.binary, "predict", recipe, "--weights", weights, "--split", split,
                "--layer", layer, "--output", output, "--quiet"]
        for text in sets:
            argv += ["--set", text]
        measure.run(argv, env=self.environment())

    def drop(self, name):
        """Deletes a run's folder: checkpoints are large and not needed after they are read."""
        for file in os.listdir(self.path(name)):
            os.unlink(self.path(name, file))

    def ours(self, net, workers=1, threads=None, sets=(), options=(), prefix=()):
        """Returns (samples per second, peak bytes) of one run."""
        name, ended = self.train(self.recipe(net["recipe"]), net["warmup"] + net["steps"],
                                 ["job.batch=%d" % net["batch"],
                                  "cluster.workers_per_group=%d" % workers] + list(sets),
                                 threads, options, prefix=prefix)
        rows = self.sql("SELECT value FROM metrics WHERE split = 'train' AND name = 'samples_per_s'"
                        " AND step > %d AND run_id = (SELECT id FROM runs WHERE name = '%s')" %
                        (net["warmup"], name))
        self.drop(name)
        return measure.spread([float(r[0]) for r in rows])[1], ended.peak_bytes

    # ---- the hand-made chain of oneDNN primitives ----

    def build_chain(self):
        if self.chain_program:
            return
        source = os.path.join(self.options.yardstick, "onednn_chain.c")
        if not os.path.exists(source):
            raise Skipped("onednn_chain.c not found in %s (--yardstick DIR)" %
                          self.options.yardstick)
        program = self.path("chain")
        try:
            measure.run(["gcc", "-O3", "-march=native", "-fopenmp", "-w", source, "-o", program,
                         "-ldnnl", "-lm"])
        except (OSError, measure.Failed) as e:
            raise Skipped("cannot build onednn_chain.c: %s" % e) from e
        self.chain_program = program

    def chain(self, name, net):
        """Returns (samples per second, peak bytes). Winograd is allowed if singa-ws uses it."""
        ended = measure.run([self.chain_program, name, str(net["batch"]), str(net["steps"]), "f32"],
                            env={"OMP_NUM_THREADS": str(self.threads), "ALG": "auto"})
        found = re.search(r"iter=([0-9.]+) ms", ended.out)
        if not found:
            raise measure.Failed("onednn_chain: no iteration time in: %s" % ended.out.strip())
        return net["batch"] * 1e3 / float(found.group(1)), ended.peak_bytes


def in_turn(bench, title, a, b):
    """Runs A B A B ...: returns the values of both, and the fraction of the machine that other
    processes used.
    """
    values_a, values_b, foreign = [], [], measure.Foreign()
    for i in range(bench.options.repeats):
        values_a.append(a())
        values_b.append(b())
        bench.say("%s %d/%d: %.6g, %.6g" % (title, i + 1, bench.options.repeats, values_a[-1][0],
                                            values_b[-1][0]))
    return values_a, values_b, foreign.share()


def speed_and_memory(title, other, a, b, foreign, aim):
    note = "foreign load %.0f %%" % (100 * foreign)
    if foreign > measure.QUIET_SHARE:
        note += ": NOT QUIET"
    mb = 1e6
    return [Row(title, other, "samples/s", [x[0] for x in a], [x[0] for x in b], aim, note=note),
            Row(title + ", memory", other, "MB", [x[1] / mb for x in a], [x[1] / mb for x in b],
                1.0, at_most=True, note="peak resident")]
