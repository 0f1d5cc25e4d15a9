"""Nets that are partitioned within a worker group (SINGA, TOMM 2016, 5.3 and 5.4.1): the cost of
moving activations, the overhead of partitioning a batch by rows, and columns against rows for
layers with many parameters.
"""
import os
import threading
import time

import measure
import plot
import report
from common import Row, Sheet, Skipped, in_turn
from frameworks import STEP_MS, median

# ---- Movements of activations --------------------------------------------------------------------

# Everything except the movement from `source` to its consumer is small.
CELL = """[job]
batch = %(batch)d
steps = 10
[data train]
format = synthetic
classes = 4
records = 4096
channels = %(workers)d
height = 4
width = 4
[updater]
type = sgd
lr = 0.001
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer source]
type = inner_product
src = image
outputs = %(columns)d
%(source)s
%(reader)s
[layer loss]
type = softmax_loss
src = scores, label
"""
SCORES = "[layer scores]\ntype = inner_product\nsrc = %s\noutputs = 4\n%s"
SOURCES = {"rows": "partition = 0", "columns": "partition = 1", "one": "location = 0",
           "terms of a sum": "partition = 1in"}
READERS = {"rows": SCORES % ("source", "partition = 0"),
           "columns": "[layer reader]\ntype = activation\nfunction = tanh\nsrc = source\n"
                      "partition = 1\n" + SCORES % ("reader", "partition = 1in"),
           "full": SCORES % ("source", "partition = 1"),
           "1in": SCORES % ("source", "partition = 1in"),
           "one": SCORES % ("source", "location = 0"),
           "another one": SCORES % ("source", "location = 1")}
TRAFFIC = ("SELECT sum(t.ms) / %d, sum(t.bytes) / %d FROM link_traffic t JOIN runs r"
           " ON r.id = t.run_id WHERE r.name = '%s' AND t.kind = 'feature' AND t.step > %d")


def copy_ms(size):
    """The milliseconds that one thread takes to copy that many bytes."""
    source, target = bytes(size), bytearray(size)
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        target[:] = source
        taken.append(1e3 * (time.perf_counter() - began))
    return median(taken)


def movements(bench):
    """Milliseconds of the copies of a step, forward and backward, for each cell of the movement
    table, against one plain memcpy of the bytes that leave a worker. Nothing is copied if a
    consumer finds all its input contiguous in the memory of another worker.
    """
    trial, workers, rows = bench.options.trial, 2, []
    size = dict(batch=8 if trial else 128, columns=64 if trial else 8192, workers=workers)
    warmup, steps = (1, 2) if trial else (5, 20)
    for source, source_keys in SOURCES.items():
        for reader, reader_text in READERS.items():
            text = CELL % dict(size, source=source_keys, reader=reader_text)
            path, moved = bench.path("cell.ini"), []
            with open(path, "w") as f:
                f.write(text)
            for i in range(bench.options.repeats):
                name, _ = bench.train(path, warmup + steps,
                                      ["cluster.workers_per_group=%d" % workers], 1,
                                      ["--oversubscribe"])
                ms, moved_bytes = bench.sql(TRAFFIC % (steps, steps, name, warmup))[0]
                bench.drop(name)
                moved.append((float(ms or 0), float(moved_bytes or 0)))
            least = 4 * size["batch"] * size["columns"] / workers
            if moved[0][1] < least:
                continue  # the remainder is labels and scores
            bench.say("%s to %s: %.4g ms for %.4g MB" % (source, reader, moved[0][0],
                                                         moved[0][1] / 1e6))
            rows.append(Row("%s to %s, %.3g MB a step" % (source, reader, moved[0][1] / 1e6),
                            "one copy", "ms", [m[0] for m in moved],
                            [copy_ms(int(m[1])) for m in moved], None))
    return rows


# ---- Rows ---------------------------------------------------------------------------------------

def at_once(bench, net, cores):
    """Runs that many jobs concurrently, each on its own core; returns the samples per second of the
    slowest times their number."""
    speeds = [None] * len(cores)

    def one(i):
        speeds[i] = bench.ours(net, threads=1, prefix=["taskset", "-c", str(cores[i])])[0]
    jobs = [threading.Thread(target=one, args=(i,)) for i in range(len(cores))]
    for j in jobs:
        j.start()
    for j in jobs:
        j.join()
    if None in speeds:
        raise measure.Failed("a job among others did not end")
    return min(speeds) * len(cores)


def rows_figure(bench):
    """A net whose batch two workers share, against two nets side by side on the same cores, each
    with half of the batch and independent updates: the overhead of sharing a batch.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise Skipped("two workers need two cores")
    rows = []
    for name, batch in (("quick", 100), ("alexnet", 128)):
        net = bench.net(name)
        if not bench.options.trial:
            net["batch"] = batch
        half = dict(net, batch=net["batch"] // 2)
        title = "%s, batch %d, 2 x 1 by rows" % (net["recipe"][:-4], net["batch"])
        a, b, foreign = in_turn(bench, title + " | two halves apart",
                                lambda: bench.ours(net, workers=2, threads=1),
                                lambda: (at_once(bench, half, cores),))
        rows.append(Row(title, "two halves apart", "samples/s", [x[0] for x in a],
                        [x[0] for x in b], 0.99, note="foreign load %.0f %%" % (100 * foreign)))
    return rows


# ---- Columns ------------------------------------------------------------------------------------

ABOVE = ["layer.%s.partition=1" % l for l in ("fc6", "relu6", "drop6", "fc7", "relu7", "drop7",
                                              "fc8")]


def columns_figure(bench):
    """AlexNet's fully-connected layers by columns against rows: two workers, small batches."""
    net = bench.net("alexnet")
    if not bench.options.trial:
        net.update(batch=32, steps=10)
    there = bench.layers(net)
    sets = [s for s in ABOVE if s.split(".")[1] in there]
    title = "%s, batch %d, 2 x 1, fc6-fc8 by columns" % (net["recipe"][:-4], net["batch"])
    a, b, foreign = in_turn(bench, title + " | by rows",
                            lambda: bench.ours(net, workers=2, threads=1, sets=sets),
                            lambda: bench.ours(net, workers=2, threads=1))
    return [Row(title, "by rows", "samples/s", [x[0] for x in a], [x[0] for x in b], 1.0,
                note="foreign load %.0f %%" % (100 * foreign)),
            Row(title + ", memory", "by rows", "MB", [x[1] / 1e6 for x in a],
                [x[1] / 1e6 for x in b], 1.0, at_most=True, note="peak resident")]


# ---- Figure 20b ---------------------------------------------------------------------------------

class Split:
    """The first fully-connected layer of a net by rows (data partition) or by columns (hybrid), on two
    simulated GPUs. Their links are slower than PCIe by about as much as a CPU thread is slower than a
    GPU, so that copies and computing of a step are in proportion.
    """

    def __init__(self, net, layers, link, batches, trial, steps):
        self.net, self.link, self.batches, self.trial, self.steps = net, link, batches, trial, steps
        self.ways = {"data partition": ["layer.%s.partition=0" % layer for layer in layers],
                     "hybrid partition": ["layer.%s.partition=1" % layer for layer in layers]}


# Published for the first fully-connected layer of AlexNet at batches of 64 to 256.
ALEXNET = Split("alexnet", ("fc6", "relu6"), "pcie=50MB/s,latency=100us,peer=no", (64, 128, 256), (4, 8),
                (1, 3))
MLP = Split("mlp", ("fc1", "relu1"), "pcie=10MB/s,latency=100us,peer=no", (16, 32, 64, 128), (16, 32), (2, 12))
TRAFFIC_MB = ("SELECT sum(t.bytes) / 1e6 / %d, total(CASE t.kind WHEN 'feature' THEN t.bytes END) / 1e6 / %d"
              " FROM link_traffic t JOIN runs r ON r.id = t.run_id WHERE r.name = '%s' AND t.step > %d")


def split_step(bench, split, batch, sets, warmup, steps):
    """(ms, (megabytes on links, of which features)) of a step."""
    name, _ = bench.train(bench.recipe(bench.net(split.net)["recipe"]), warmup + steps,
                          ["job.batch=%d" % batch, "cluster.workers_per_group=2", "cluster.comm=ps",
                           "job.device=sim:gpus=2,mem=8GiB," + split.link, "job.eval_every=0",
                           "job.checkpoint_ends=no"] + sets, 1, ["--oversubscribe"])
    ms = median([float(row[0]) for row in bench.sql(STEP_MS % (name, warmup))])
    moved = tuple(float(x) for x in bench.sql(TRAFFIC_MB % (steps, steps, name, warmup))[0])
    bench.drop(name)
    return ms, moved


def figure_20b(bench, split=ALEXNET, key="20b"):
    """Time per iteration by batch, data against hybrid partition."""
    batches = split.trial if bench.options.trial else split.batches
    warmup, steps = (1, 2) if bench.options.trial else split.steps
    ms, moved = {(w, b): [] for w in split.ways for b in batches}, {}
    foreign = measure.Foreign()
    for i in range(bench.options.repeats):
        for batch in batches:
            for way, sets in split.ways.items():
                taken, moved[way, batch] = split_step(bench, split, batch, sets, warmup, steps)
                ms[way, batch].append(taken)
                bench.say("fig. %s, batch %d, %s %d/%d: %.4g ms, %.4g MB" % (
                    key, batch, way, i + 1, bench.options.repeats, taken, moved[way, batch][0]))
    first, last = batches[0], batches[-1]
    note = "%s; foreign load %.0f %%" % (split.link, 100 * foreign.share())
    rows = [Row("fig. %s, batch %d, data partition" % (key, b), "hybrid partition", "ms",
                ms["data partition", b], ms["hybrid partition", b], 1.0, note=note) for b in batches]
    for way, part, aim, at_most in (("data partition", 0, 1.01, True), ("hybrid partition", 1, 1.3, False)):
        rows.append(Row("fig. %s, %s, batch %d, %s moved" % (key, way, last, ("all", "features")[part]),
                        "batch %d" % first, "MB", [moved[way, last][part]], [moved[way, first][part]], aim,
                        at_most=at_most))
    cells = [["batch"] + ["%s%s" % (w, more) for w in split.ways for more in ("", ", moved", ", features")] +
             ["data / hybrid"]]
    for b in batches:
        cells.append([str(b)] + [text for w in split.ways for text in (
            "%s ms" % report.number(median(ms[w, b])), *["%s MB" % report.number(x) for x in moved[w, b]])] + [
                "%.2f" % (median(ms["data partition", b]) / median(ms["hybrid partition", b]))])
    title = "Figure 20b (TOMM): time per iteration of %s, 2 simulated GPUs, %s" % (
        bench.net(split.net)["recipe"][:-4], split.link)
    drawn = plot.drawn(bench, "tomm-" + key, title.split(",")[0],
                       [(w, [(b, median(ms[w, b])) for b in batches]) for w in split.ways], "batch",
                       "ms an iteration", 0)
    text = ("%s.\nPublished: hybrid partition is faster; what data partition moves does not depend on the batch, what "
            "hybrid moves\ngrows with it. Deviates: here the times of both grow with the batch, because a CPU thread "
            "computes them.\n%s\n%s" % (title, report.align(cells, (0,)), drawn))
    values = "".join("fig. %s | %s, batch %d ms: %s\n" % (
        key, w, b, " ".join("%.6g" % v for v in ms[w, b])) for w in split.ways for b in batches)
    return rows + [Sheet(text, values)]


FIGURES = {"movements": movements, "split-columns": columns_figure, "split-rows": rows_figure}
PAPERS = {"20b": figure_20b, "20b-mlp": lambda bench: figure_20b(bench, MLP, "20b-mlp")}
