"""The figures: the alternating runs of each, and the ratio it computes. A figure that cannot be
measured on this machine is skipped with a reason.
"""
import os

import copy_modes
import jobs
import measure
import primitives
import recurrent
import split
import torch_peer
from common import Row, Skipped, in_turn, speed_and_memory


def chain_figure(name):
    def figure(bench):
        bench.build_chain()
        net = bench.net(name)
        title = "%s, batch %d" % (net["recipe"][:-4], net["batch"])
        a, b, foreign = in_turn(bench, title + " | chain", lambda: bench.ours(net),
                                lambda: bench.chain(name, net))
        return speed_and_memory(title, "oneDNN chain", a, b, foreign, 0.9)
    return figure


# ---- Workers ------------------------------------------------------------------------------------

def workers_figure(name):
    """One worker on each core against one worker on one core, and against one worker with a thread
    on each core: the gain and cost of splitting a batch among workers. The batch is the same."""
    def figure(bench):
        net, n = bench.net(name), bench.threads
        if n < 2:
            raise Skipped("needs several cores")
        title = "%s, batch %d, %d x 1" % (net["recipe"][:-4], net["batch"], n)
        rows = []
        for threads, aim in ((1, 0.96 * n), (n, 0.97)):
            other = "1 x %d" % threads
            a, b, foreign = in_turn(bench, "%s | %s" % (title, other),
                                    lambda: bench.ours(net, workers=n, threads=1),
                                    lambda t=threads: bench.ours(net, threads=t))
            rows.append(Row(title, other, "samples/s", [x[0] for x in a], [x[0] for x in b], aim,
                            note="workers x threads; foreign load %.0f %%" % (100 * foreign)))
        return rows
    return figure


# ---- Exact runs and unequal GPUs -------------------------------------------------------------------

def exact_figure(name):
    """The cost of bit-identical results for any number of workers (job.repeat_exact): with one
    worker on all cores, and with one worker per core.
    """
    def figure(bench):
        net, n, rows = bench.net(name), bench.threads, []
        for workers in (1, n) if n > 1 else (1,):
            sides = dict(workers=workers, threads=n // workers)
            title = "%s, batch %d, %d x %d, repeat_exact" % (net["recipe"][:-4], net["batch"],
                                                             workers, n // workers)
            a, b, foreign = in_turn(
                bench, title + " | without",
                lambda s=sides: bench.ours(net, sets=["job.repeat_exact=yes"], **s),
                lambda s=sides: bench.ours(net, **s))
            rows.append(Row(title, "without", "samples/s", [x[0] for x in a], [x[0] for x in b],
                            0.9, note="workers x threads; foreign load %.0f %%" % (100 * foreign)))
        return rows
    return figure


def rebalance(bench):
    """Two simulated GPUs of which one is three times slower, with rows by measured speed, against
    the ideal: 4/3 of one GPU, which is 2/3 of two equal ones."""
    net = bench.net("lenet")
    if not bench.options.trial:
        net = dict(net, batch=256, warmup=45, steps=45)
    every = net["warmup"] // 3 or 1

    def speed(more, sets=()):
        return bench.ours(net, workers=2, threads=1, options=["--oversubscribe"],
                          sets=["job.device=sim:gpus=2,mem=1GiB" + more] + list(sets))[0]
    title = "lenet, 2 GPUs, batch %d, one 3 times slower" % net["batch"]
    a, b, foreign = in_turn(
        bench, title + " | ideal",
        lambda: (speed(",slow=3", ["cluster.rebalance=yes", "job.eval_every=%d" % every]),),
        lambda: (speed("") * 2 / 3,))
    return [Row(title, "ideal", "samples/s", [x[0] for x in a], [x[0] for x in b], 0.9,
                note="rows rebalanced every %d steps; foreign load %.0f %%" % (every, 100 * foreign))]


# ---- Start-up -----------------------------------------------------------------------------------

def startup(bench):
    """From just before exec to the end of the first forward pass, cifar10-quick on synthetic
    images. The history has the Unix time at which step 1 was recorded, the time the step took, and
    its phases; the step begins with the wait for its first batch, so

        end of forward = recorded - step + read + decode + forward

    which includes everything before the step (loading, setup of the net, initial values, checkpoint
    0).
    """
    times, limit_s = [], 0.2
    for i in range(bench.options.repeats):
        name, ended = bench.train(bench.recipe("cifar10-quick.ini"), 1)
        rows = bench.sql(
            "SELECT p.time, r.batch * 1000.0 / s.value, t.read_ms + t.decode_ms, t.forward_ms"
            " FROM runs r JOIN metrics p ON p.run_id = r.id AND p.name = 'loss'"
            " JOIN metrics s ON s.run_id = r.id AND s.name = 'samples_per_s' AND s.step = p.step"
            " JOIN step_time t ON t.run_id = r.id AND t.step = p.step"
            " WHERE r.name = '%s' AND p.split = 'train' AND p.step = 1" % name)
        bench.drop(name)
        recorded, step_ms, wait_ms, forward_ms = (float(x) for x in rows[0])
        times.append(recorded - ended.started - (step_ms - wait_ms - forward_ms) / 1e3)
        bench.say("start-up %d/%d: %.1f ms" % (i + 1, bench.options.repeats, 1e3 * times[-1]))
    return [Row("start-up, cifar10-quick", "limit", "ms", [1e3 * t for t in times],
                [1e3 * limit_s] * len(times), 1.0, at_most=True,
                note="exec to end of first forward")]


# ---- Images -----------------------------------------------------------------------------------

def build(bench, name):
    """Builds a program of this folder with the library next to the measured program."""
    program, lib = bench.path(name), os.path.dirname(os.path.abspath(bench.options.binary))
    if not os.path.exists(program):
        try:
            measure.run(["gcc", "-O2", "-w", "-I" + os.path.join(bench.root, "src"),
                         "-I" + bench.root, os.path.join(bench.root, "bench", name + ".c"), "-o",
                         program, "-L" + lib, "-Wl,-rpath," + lib, "-lsinga", "-ljpeg",
                         "-lpthread"])
        except (OSError, measure.Failed) as e:
            raise Skipped("%s.c cannot be built here: %s" % (name, e)) from e
    return program


def decode(bench):
    """JPEG files to rows: read, decode, cut 227 x 227 at random, mirror, normalize, as for
    AlexNet, against libjpeg-turbo that only decodes the same files (decode.c)."""
    photos = os.path.abspath(bench.options.photos)
    if not os.path.isdir(photos):
        raise Skipped("no JPEG files in %s (--photos DIR)" % photos)
    program, folder, rows = build(bench, "decode"), bench.path("pictures"), []
    os.makedirs(folder, exist_ok=True)
    if not os.path.lexists(os.path.join(folder, "photos")):
        os.symlink(photos, os.path.join(folder, "photos"))
    for title, resize in (("JPEG, cut 227", 0), ("JPEG, shorter side 256, cut 227", 256)):
        def side(which, resize=resize):
            ended = measure.run([program, which, folder, str(bench.threads),
                                 "0.3" if bench.options.trial else "5", "227", str(resize)])
            return float(ended.out), ended.peak_bytes
        a, b, foreign = in_turn(bench, title + " | libjpeg-turbo", lambda: side("ours"),
                                lambda: side("alone"))
        rows.append(Row(title, "libjpeg-turbo alone", "images/s", [x[0] for x in a],
                        [x[0] for x in b], 0.9, note="foreign load %.0f %%" % (100 * foreign)))
    return rows


# ---- Shards -------------------------------------------------------------------------------------

def shard(bench):
    """Records of a shard in a random order, against pread of the same bytes, which is the speed of
    the page cache (shard.c): in the first pass, which checks every record, and in later ones.
    Records have the size of CIFAR-10 images and of 192 x 192 images.
    """
    program, rows = build(bench, "shard"), []
    for side, records in ((32, 100000), (192, 3000)):
        path = bench.path("bench-%d.shard" % side)
        if not os.path.exists(path):
            measure.run([bench.options.binary, "data", "import", "--format=synthetic",
                         "--set=channels=3", "--set=height=%d" % side, "--set=width=%d" % side,
                         "--set=records=%d" % (records // 20 if bench.options.trial else records),
                         "--out=" + path, "--quiet"])

        def read(which, path=path):
            ended = measure.run([program, which, path, "3" if bench.options.trial else "6"])
            return [float(x) for x in ended.out.split()]
        title = "shard, records of 3x%dx%d" % (side, side)
        a, b, foreign = in_turn(bench, title + " | page cache", lambda: read("ours"),
                                lambda: read("cache"))
        for i, which in enumerate(("first pass", "later passes")):
            rows.append(Row("%s, %s" % (title, which), "pread", "GB/s", [x[i] for x in a],
                            [x[1] for x in b], 0.8,
                            note="foreign load %.0f %%" % (100 * foreign)))
    return rows


# ---- History ------------------------------------------------------------------------------------

def history(bench):
    """Queries of a history with 10 million points, two runs of 1.3 million steps (history.c), from
    exec to exit; and the bytes per point, as written and after gc has compacted the file.
    """
    program, db = build(bench, "history"), bench.path("large.db")
    steps = 20000 if bench.options.trial else 1300000
    env = {"SINGA_DB": db, "XDG_STATE_HOME": bench.path("state")}
    if not os.path.exists(db):
        filled = measure.run([program, db, "2", str(steps)], env=env).out.split()
        bench.say("history: " + " ".join(filled))
    points = float(measure.run([bench.options.binary, "history", "sql",
                                "SELECT sum(points) FROM series_stats"], env=env).out)
    rows, sizes = [], [os.path.getsize(db) / points]
    for words, limit_ms in ((["list"], 50), (["show", "1"], 200), (["compare", "1", "2"], 1000),
                            (["plot", "1"], 500)):
        taken = []
        for _ in range(bench.options.repeats):
            ended = measure.run([bench.options.binary, "history"] + words, env=env)
            taken.append(1e3 * ended.seconds)
        rows.append(Row("history %s, %.1f M points" % (" ".join(words), points / 1e6), "limit", "ms",
                        taken, [limit_ms] * len(taken), 1.0, at_most=True))
    measure.run([bench.options.binary, "history", "gc", "--older-than=1", "--yes"], env=env)
    sizes.append(os.path.getsize(db) / points)
    for size, which in zip(sizes, ("as written", "compacted")):
        rows.append(Row("history, bytes per point, " + which, "aim", "B", [size], [28.5], 1.0,
                        at_most=True))
    return rows


# ---- Overhead ---------------------------------------------------------------------

def overhead_figure(name):
    """The time of a step against the time of its layers and updates, both from the trace of one run
    (steps.c): the difference is the parameter table, queues and time breakdown."""
    def figure(bench):
        program, rows = build(bench, "steps"), []
        for batch, aim in ((128, 1.01), (32, 1.03)):
            net, values = dict(bench.net(name)), []
            net["batch"] = net["trial_batch"] if bench.options.trial else batch
            for i in range(bench.options.repeats):
                folder = bench.path("traced")
                ended = measure.run([program, bench.recipe(net["recipe"]), folder,
                                     str(net["warmup"]), str(net["steps"]), "job.eval_every=0",
                                     "job.batch=%d" % net["batch"]], env=bench.environment())
                bench.drop("traced")
                values.append([float(x) for x in ended.out.split()])
                bench.say("%s, batch %d %d/%d: %.4g ms, computing %.4g ms" % (
                    net["recipe"][:-4], net["batch"], i + 1, bench.options.repeats, *values[-1]))
            rows.append(Row("%s, batch %d, step" % (net["recipe"][:-4], net["batch"]), "computing",
                            "ms", [v[0] for v in values], [v[1] for v in values], aim, at_most=True,
                            note="1 x %d; both of one run" % bench.threads))
        return rows
    return figure


FIGURES = {
    "chain-alexnet": chain_figure("alexnet"),
    "chain-quick": chain_figure("quick"),
    "primitives-alexnet": primitives.figure("alexnet"),
    "primitives-googlenet": primitives.figure("googlenet"),
    "primitives-rbm": primitives.figure("rbm", aim=0.8, sets=["layer.rbm1.hidden=500"]),
    "primitives-resnet50": primitives.figure("resnet50"),
    "copy-modes": copy_modes.figure,
    "decode": decode,
    "exact-alexnet": exact_figure("alexnet"),
    "exact-quick": exact_figure("quick"),
    "history": history,
    "jobs": jobs.figure,
    "overhead-alexnet": overhead_figure("alexnet"),
    "overhead-quick": overhead_figure("quick"),
    "rebalance": rebalance,
    "shard": shard,
    "startup": startup,
    **split.FIGURES,
    "workers-alexnet": workers_figure("alexnet"),
    "workers-quick": workers_figure("quick"),
    "torch-alexnet": torch_peer.figure("alexnet"),
    "torch-gru": recurrent.figure,
    "torch-lenet": torch_peer.figure("lenet"),
    "torch-mlp": torch_peer.figure("mlp"),
    "torch-quick": torch_peer.figure("quick"),
}
