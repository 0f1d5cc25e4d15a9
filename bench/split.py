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
from frameworks import median

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

LINK = "pcie=10MB/s,latency=100us,peer=no"
BATCHES = (16, 32, 64, 128)


def figure_20b(bench):
    """Two simulated GPUs with a slow link: the first fully-connected layer by rows (data partition)
    or by columns (hybrid), time per iteration by batch.
    """
    batches = BATCHES[:2] if bench.options.trial else BATCHES
    net = dict(bench.net("mlp"), warmup=2, steps=4 if bench.options.trial else 12)
    ways = {"data partition": [], "hybrid partition": ["layer.fc1.partition=1",
                                                        "layer.relu1.partition=1"]}
    ms, foreign = {(w, b): [] for w in ways for b in batches}, measure.Foreign()
    for i in range(bench.options.repeats):
        for batch in batches:
            for way, sets in ways.items():
                speed, _ = bench.ours(dict(net, batch=batch), workers=2, threads=1,
                                      options=["--oversubscribe"],
                                      sets=["job.device=sim:gpus=2,mem=1GiB," + LINK,
                                            "job.eval_every=0"] + sets)
                ms[way, batch].append(batch * 1e3 / speed)
                bench.say("fig. 20b, batch %d, %s %d/%d: %.4g ms" % (
                    batch, way, i + 1, bench.options.repeats, ms[way, batch][-1]))
    share, first, last = foreign.share(), batches[0], batches[-1]
    note = "%s; foreign load %.0f %%" % (LINK, 100 * share)
    rows = [Row("fig. 20b, batch %d, data partition" % b, "hybrid partition", "ms",
                ms["data partition", b], ms["hybrid partition", b], 1.0, note=note)
            for b in batches]
    for way, aim, at_most in (("data partition", 1.25, True), ("hybrid partition", 1.3, False)):
        rows.append(Row("fig. 20b, %s, batch %d" % (way, last), "batch %d" % first, "ms",
                        ms[way, last], ms[way, first], aim, at_most=at_most, note=note))
    cells = [["batch"] + list(ways)]
    cells += [[str(b)] + ["%s ms" % report.number(median(ms[w, b])) for w in ways] for b in batches]
    drawn = plot.curves([(w, [(b, median(ms[w, b])) for b in batches]) for w in ways], "batch",
                        "ms an iteration", 0)
    text = ("Figure 20b: time per iteration of mnist-mlp, 2 GPUs, %s. Published: data partition "
            "hardly changes\nwith the batch and is dearer; hybrid partition grows with it.\n%s\n%s" %
            (LINK, report.align(cells, (0,)), drawn))
    values = "".join("fig. 20b | %s, batch %d ms: %s\n" % (
        w, b, " ".join("%.6g" % v for v in ms[w, b])) for w in ways for b in batches)
    return rows + [Sheet(text, values)]


FIGURES = {"movements": movements, "split-columns": columns_figure, "split-rows": rows_figure}
PAPERS = {"20b": figure_20b}
