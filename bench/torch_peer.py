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
# glibc gives freed memory back to the system and faults it in again in every step, unless told not
# to; a bound team does not wander. Each is tried with each layout.
TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
                           "glibc.malloc.trim_threshold=17179869184"}
SETTINGS = {"as it comes": {}, "tunables": TUNED,
            "tunables, bound": dict(TUNED, OMP_PROC_BIND="close")}


class Torch:
    """One Python that has PyTorch."""

    def __init__(self, bench, python):
        self.bench, self.python = bench, python
        try:
            ended = measure.run([python, "-c", "import torch; print(torch.__version__)"])
        except (OSError, measure.Failed) as e:
            raise Skipped("%s has no PyTorch: %s" % (os.path.basename(python), e)) from e
        self.version = ended.out.strip()

    def run(self, script, setting, arguments):
        """What a script of this folder answers, and its peak bytes."""
        env = dict(SETTINGS[setting], OMP_NUM_THREADS=str(self.bench.threads))
        # Debian's PyTorch takes the system's BLAS: the one with OpenMP does not fight its threads.
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
    """Every cell of the grid once; the best goes on. One that cannot run is said and left out."""
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
    """A batch of random pictures and labels as IDX files, which both sides can read."""
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
    """The recipe with its [data] sections replaced by the pictures."""
    with open(bench.recipe(net["recipe"])) as f:
        sections = re.split(r"(?m)^(?=\[)", f.read())
    kept = [s for s in sections if not s.startswith(("[data ", "[fallback]"))]
    kept.append("[data train]\nformat = idx\npaths = %s\nlabels = %s\nmean = %s\nstd = %s\n" %
                (pictures, labels, net["mean"], net["std"]))
    path = bench.path("same-" + net["recipe"])
    with open(path, "w") as f:
        f.write("".join(kept))
    return path


def same_net(bench, torch, name, net, cell):
    """Both train from the same values on the same pictures: the parameters after 2 updates and the
    losses up to the one after 10 must agree to 1e-3, or the ratio would be worthless (later on a
    maximum that goes to another pixel makes small differences large). Both convolve directly here:
    Winograd's rounding errors are large enough to move maxima in the first update already. Returns
    a note."""
    short, updates, limit, least_change = 2, 10, 1e-3, 1e-2
    pictures, labels = write_pictures(bench, net)
    recipe = with_pictures(bench, net, pictures, labels)
    sets = ["job.batch=%d" % net["batch"], "updater.lr=%g" % net["same_lr"],
            "job.winograd=no"]
    few, _ = bench.train(recipe, short, sets)
    given = ["--weights", bench.path(few, "checkpoint-0.safetensors"), "--pictures", pictures,
             "--labels", labels, "--warmup", "0", "--lr", "%g" % net["same_lr"]]
    apart, _ = torch.call(name, net, cell[0], cell[1], given + [
        "--steps", str(short), "--expect",
        bench.path(few, "checkpoint-%d.safetensors" % short)])
    theirs, _ = torch.call(name, net, cell[0], cell[1], given + ["--steps", str(updates + 1)])
    bench.drop(few)
    many, _ = bench.train(recipe, updates + 1, sets)
    bench.drop(many)
    ours = [float(r[0]) for r in bench.sql(
        "SELECT value FROM metrics WHERE split = 'train' AND name = 'loss' AND run_id ="
        " (SELECT id FROM runs WHERE name = '%s') ORDER BY step" % many)]
    worst = max(abs(a - b) for a, b in zip(ours, theirs["losses"]))
    note = ("same net: losses within %.1e over %d updates (%.4f to %.4f), parameters within %.1e "
            "after %d" % (worst, updates, ours[0], ours[-1], apart["difference"], short))
    bench.say("torch %s, %s: %s" % (torch.version, net["recipe"][:-4], note))
    if len(ours) != updates + 1 or not max(worst, apart["difference"]) <= limit:
        raise measure.Failed("not the %s: losses %s and %s" % (note, ours, theirs["losses"]))
    if abs(ours[0] - ours[-1]) < least_change:
        raise measure.Failed("the loss changed from %g to %g only, which compares nothing" %
                             (ours[0], ours[-1]))
    return note


def in_turn_with(bench, torch, name, net, cell, winograd):
    """The rows of one comparison, without or with Winograd's algorithm on our side."""
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
