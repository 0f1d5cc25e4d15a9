"""PyTorch on the same work: torch_nets.py in the best cell of a fixed grid, after a check that both
sides compute the same.
"""
import json
import os
import random
import re
import struct
import sys

import measure
from common import Skipped, in_turn, speed_and_memory

LAYOUTS = ("default", "channels_last")
# By default glibc returns freed memory to the system and faults it in again in every step; a bound
# team of threads does not migrate. Each setting is tried with each layout.
TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
                           "glibc.malloc.trim_threshold=17179869184"}
SETTINGS = {"as it comes": {}, "tunables": TUNED,
            "tunables, bound": dict(TUNED, OMP_PROC_BIND="close")}


class Torch:
    """A Python interpreter with PyTorch."""

    def __init__(self, bench, python):
        self.bench, self.python = bench, python
        try:
            ended = measure.run([python, "-c", "import torch; print(torch.__version__)"])
        except (OSError, measure.Failed) as e:
            raise Skipped("%s has no PyTorch: %s" % (os.path.basename(python), e)) from e
        self.version = ended.out.strip()

    def run(self, script, setting, arguments):
        """Runs a script of this folder; returns its JSON output and its peak bytes."""
        env = dict(SETTINGS[setting], OMP_NUM_THREADS=str(self.bench.threads))
        # PyTorch of Debian uses the BLAS of the system; the one with OpenMP does not compete with
        # its threads.
        for folder in ("/usr/lib/x86_64-linux-gnu/openblas-openmp",
                       "/usr/lib/aarch64-linux-gnu/openblas-openmp"):
            if os.path.exists(os.path.join(folder, "libblas.so.3")):
                already = os.environ.get("LD_LIBRARY_PATH")
                env["LD_LIBRARY_PATH"] = folder + (":" + already if already else "")
        argv = [self.python, os.path.join(self.bench.root, "bench", script)] + arguments
        ended = measure.run(argv, env=env)
        return json.loads(ended.out.splitlines()[-1]), ended.peak_bytes

    def call(self, name, net, layout, setting, extra):
        return self.run("torch_nets.py", setting,
                        [name, str(net["batch"]), "--threads", str(self.bench.threads), "--layout",
                         layout] + extra)

    def timed(self, name, net, cell):
        layout, setting, compiled = cell
        extra = ["--warmup", str(net["warmup"]), "--steps", str(net["steps"])]
        answer, peak = self.call(name, net, layout, setting,
                                 extra + (["--compile"] if compiled else []))
        return answer["samples_per_s"], peak

    def cells(self):
        grid = [(layout, setting, False) for layout in LAYOUTS for setting in SETTINGS]
        if int(self.version.split(".")[0]) >= 2:
            grid += [(layout, "tunables, bound", True) for layout in LAYOUTS]
        return grid


def cell_text(cell):
    return "%s, %s%s" % (cell[0], cell[1], ", compiled" if cell[2] else "")


def best_cell(bench, torch, name, net):
    """Runs every cell of the grid once and returns the best. A cell that fails is reported and
    skipped.
    """
    speed = {}
    for cell in torch.cells():
        try:
            speed[cell] = torch.timed(name, net, cell)[0]
        except measure.Failed as e:
            bench.say("torch %s, %s: %s" % (torch.version, cell_text(cell), e))
            continue
        bench.say("torch %s, %s: %.6g samples/s" % (torch.version, cell_text(cell), speed[cell]))
    if not speed:
        raise Skipped("PyTorch %s ran in no cell of the grid" % torch.version)
    return max(speed, key=speed.get)


def write_pictures(bench, net):
    """Writes a batch of random images and labels as IDX files, which both sides can read."""
    draw = random.Random(1)
    n, c, s = net["batch"], net["channels"], net["side"]
    pictures, labels = bench.path("pictures"), bench.path("labels")
    with open(pictures, "wb") as f:
        f.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, n, c, s, s) + draw.randbytes(n * c * s * s))
    with open(labels, "wb") as f:
        f.write(struct.pack(">BBBBI", 0, 0, 8, 1, n))
        f.write(bytes(draw.randrange(net["classes"]) for _ in range(n)))
    return pictures, labels


def with_pictures(bench, net, pictures, labels):
    """The recipe with its [data] sections replaced by the images."""
    with open(bench.recipe(net["recipe"])) as f:
        sections = re.split(r"(?m)^(?=\[)", f.read())
    kept = [s for s in sections if not s.startswith(("[data ", "[fallback]"))]
    kept.append("[data train]\nformat = idx\npaths = %s\nlabels = %s\nmean = %s\nstd = %s\n" %
                (pictures, labels, net["mean"], net["std"]))
    path = bench.path("same-" + net["recipe"])
    with open(path, "w") as f:
        f.write("".join(kept))
    return path


# ---- The same net ------------------------------------------------------------------------------

# One update at this rate gives the gradients (torch_exact.py). An error counts as rounding if it is
# small, or not much larger than that of PyTorch; a different choice counts as rounding if the chosen
# value is below the right one by little.
GRADIENT_RATE = 1024
ERROR_LIMIT, PEER_RATIO, PEER_LIMIT, MARGIN_LIMIT = 1e-5, 2.0, 1e-4, 2e-5


class SameNet:
    """Both sides begin with the same parameters and get the same images in every step. Both use
    direct convolution: PyTorch always requests it from oneDNN, and singa-ws is set to. changes:
    overrides of the recipe that PyTorch does not have.
    """

    def __init__(self, bench, torch, name, net, cell, changes=()):
        self.bench, self.torch, self.name, self.net = bench, torch, name, net
        self.layout, self.setting, _ = cell
        pictures, labels = write_pictures(bench, net)
        self.recipe = with_pictures(bench, net, pictures, labels)
        self.sets = ["job.batch=%d" % net["batch"], "job.winograd=no"] + list(changes)
        self.once, _ = bench.train(self.recipe, 1,
                                   self.sets + ["updater.lr=%d" % GRADIENT_RATE])
        self.before, self.after = (bench.path(self.once, "checkpoint-%d.safetensors" % step)
                                   for step in (0, 1))
        self.given = ["--weights", self.before, "--pictures", pictures, "--labels", labels]

    def close(self):
        self.bench.drop(self.once)

    def exact(self):
        """Returns the output of torch_exact.py for the first update."""
        layers, _ = self.torch.run("torch_exact.py", self.setting, [self.name, "--names"])
        folder = self.bench.path(self.once)
        for layer in layers:
            self.bench.predict(self.recipe, self.before, "train", layer,
                               os.path.join(folder, layer + ".npy"),
                               self.sets + ["job.eval_batch=%d" % self.net["batch"]])
        answer, _ = self.torch.run("torch_exact.py", self.setting, [
            self.name, str(self.net["batch"]), "--threads", str(self.bench.threads), "--layout",
            self.layout, "--after", self.after, "--lr", str(GRADIENT_RATE), "--outputs", folder] +
            self.given)
        return answer["ours"], answer["theirs"]

    def gradients(self):
        """Checks each gradient of the first update against double precision. Returns a note."""
        ours, theirs = self.exact()
        note = "gradients against double precision: ours %s, PyTorch's %s" % (side_text(ours),
                                                                              side_text(theirs))
        for parameter, error in ours["errors"].items():
            peer = theirs["errors"][parameter]
            if not peer <= PEER_LIMIT or not error <= max(ERROR_LIMIT, PEER_RATIO * peer):
                raise measure.Failed("not the same net: the gradient of %s is off by %.1e, PyTorch's "
                                     "by %.1e; %s" % (parameter, error, peer, note))
        if not max(ours["margin"], theirs["margin"]) <= MARGIN_LIMIT:
            raise measure.Failed("not the same net: maxima or ReLUs choose what is smaller by more "
                                 "than rounding; " + note)
        return note

    def losses(self):
        """Checks that the losses up to the one after 10 updates differ by at most a thousandth of
        their change. Returns a note.
        """
        updates, limit, least_change, rate = 10, 1e-3, 1e-2, self.net["same_lr"]
        theirs, _ = self.torch.call(self.name, self.net, self.layout, self.setting, self.given + [
            "--warmup", "0", "--lr", "%g" % rate, "--steps", str(updates + 1)])
        many, _ = self.bench.train(self.recipe, updates + 1, self.sets + ["updater.lr=%g" % rate])
        self.bench.drop(many)
        ours = [float(r[0]) for r in self.bench.sql(
            "SELECT value FROM metrics WHERE split = 'train' AND name = 'loss' AND run_id ="
            " (SELECT id FROM runs WHERE name = '%s') ORDER BY step" % many)]
        worst = max(abs(a - b) for a, b in zip(ours, theirs["losses"]))
        change = abs(ours[0] - ours[-1])
        note = "losses within %.1e over %d updates (%.4f to %.4f)" % (worst, updates, ours[0],
                                                                      ours[-1])
        if change < least_change:
            raise measure.Failed("the loss changed from %g to %g only, which compares nothing" %
                                 (ours[0], ours[-1]))
        if len(ours) != updates + 1 or not worst <= limit * change:
            raise measure.Failed("not the same net: %s: %s and %s" % (note, ours,
                                                                      theirs["losses"]))
        return note


def side_text(side):
    worst = max(side["errors"], key=side["errors"].get)
    return "within %.1e (%s; %d of %.3g M choices other, by up to %.1e)" % (
        side["errors"][worst], worst, side["others"], side["choices"] / 1e6, side["margin"])


def same_net(bench, torch, name, net, cell):
    """Checks that both compute the same; otherwise the ratio is meaningless. Returns a note."""
    both = SameNet(bench, torch, name, net, cell)
    note = "same net: %s; %s" % (both.gradients(), both.losses())
    both.close()
    bench.say("torch %s, %s: %s" % (torch.version, net["recipe"][:-4], note))
    return note


# ---- The figure ---------------------------------------------------------------------------------

def in_turn_with(bench, torch, name, net, cell, winograd):
    """Returns the rows of one comparison, with or without Winograd's algorithm in singa-ws."""
    title = "%s, batch %d%s" % (net["recipe"][:-4], net["batch"],
                                "" if winograd else ", no Winograd")
    other = "PyTorch " + torch.version
    sets = [] if winograd else ["job.winograd=no"]
    a, b, foreign = in_turn(bench, "%s | %s" % (title, other),
                            lambda: bench.ours(net, sets=sets),
                            lambda: torch.timed(name, net, cell))
    return speed_and_memory(title, other, a, b, foreign, 1.0)


def figure(name):
    def make(bench):
        rows, reasons = [], []
        for python in bench.options.torch:
            try:
                torch = Torch(bench, python)
                net = bench.net(name)
                cell = best_cell(bench, torch, name, net)
                note = same_net(bench, torch, name, net, cell)
                found = in_turn_with(bench, torch, name, net, cell, True)
                found[0].note += "; best of the grid: %s; %s" % (cell_text(cell), note)
                if bench.uses_winograd(net):
                    found += in_turn_with(bench, torch, name, net, cell, False)
            except Skipped as e:
                reasons.append(str(e))
                continue
            rows += found
        if not rows:
            raise Skipped("; ".join(reasons))
        for reason in reasons:
            print("bench: " + reason, file=sys.stderr)
        return rows
    return make
