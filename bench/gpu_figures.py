"""The figures of bench/gpu. singa-ws runs as a user runs it, with copy = none: the device computes
the updates, and a step is one CUDA graph.
"""
import json
import os

import measure
from common import Row, Skipped, in_turn

# Recipes, their nets in torch_nets.py, batches, and the aim of the speed relative to PyTorch eager.
NETS = {
    "alexnet128": dict(recipe="alexnet-owt.ini", torch="alexnet", batch=128, aim=1.2, steps=100),
    "alexnet1024": dict(recipe="alexnet-owt.ini", torch="alexnet", batch=1024, aim=1.0, steps=40),
    "vgg16": dict(recipe="vgg16.ini", torch="vgg16", batch=64, aim=1.0, steps=40),
    "resnet50": dict(recipe="resnet50.ini", torch="resnet50", batch=64, aim=1.0, steps=40),
    "charrnn": dict(recipe="char-rnn.ini", torch="charrnn", batch=50, aim=1.0, steps=200),
    "mlp": dict(recipe="mnist-mlp.ini", torch="mlp", batch=64, aim=1.2, steps=2000),
    "lenet": dict(recipe="lenet.ini", torch="lenet", batch=64, aim=1.2, steps=1000),
}
HEAVY = ("alexnet128", "alexnet1024", "vgg16", "resnet50")  # too slow for a trial without a GPU
LAYOUTS = ("default", "channels_last")
COPY_BATCHES = (64, 128, 256, 512, 1024)
STREAMS = {"charrnn": ["data.train.streams"]}


def net_of(bench, name):
    net = dict(NETS[name], warmup=max(10, NETS[name]["steps"] // 10))
    if bench.options.trial:
        net.update(batch=4, warmup=2, steps=3)
    return net


def sets_of(bench, name, net, copy="none"):
    o = bench.options
    device = ["job.device=" + o.device]
    streams = ["%s=%d" % (key, net["batch"]) for key in STREAMS.get(name, [])]
    return device + ["cluster.copy=" + copy, "job.precision=" + o.precision, "job.eval_every=0",
                     "job.checkpoint_every=0"] + streams + o.set


def ours(bench, name, net, copy="none", data=None):
    """Returns (samples per second, fraction of a step in which the device waits, us per launch or
    None).
    """
    steps = net["warmup"] + net["steps"]
    run, _ = bench.train(bench.recipe(net["recipe"]), steps,
                         ["job.batch=%d" % net["batch"]] + sets_of(bench, name, net, copy),
                         options=["--oversubscribe"], data=data, label=name)
    who = "run_id = (SELECT id FROM runs WHERE name = '%s')" % run
    speed = bench.sql("SELECT value FROM metrics WHERE split = 'train' AND name = 'samples_per_s'"
                      " AND step > %d AND %s" % (net["warmup"], who))
    idle = bench.sql("SELECT sum(idle_ms + read_ms + decode_ms + h2d_ms + update_ms) / sum(idle_ms +"
                     " read_ms + decode_ms + h2d_ms + update_ms + forward_ms + backward_ms +"
                     " comm_exposed_ms + wait_ms) FROM step_time WHERE step > %d AND %s" %
                     (net["warmup"], who))
    said = bench.sql("SELECT text FROM events WHERE text LIKE 'graphs of a step%%' AND %s" % who)
    bench.drop(run)
    launch = float(said[0][0].split(", ")[1].split()[0]) if said else None
    return measure.spread([float(r[0]) for r in speed])[1], float(idle[0][0]), launch


class Torch:
    def __init__(self, bench):
        self.bench, self.python = bench, bench.options.torch
        try:
            ended = measure.run([self.python, "-c", "import torch; print(torch.__version__,"
                                 " torch.cuda.is_available())"])
        except (OSError, measure.Failed) as e:
            raise Skipped("%s has no PyTorch: %s" % (os.path.basename(self.python), e)) from e
        self.version, cuda = ended.out.split()
        self.device = "cuda" if bench.options.device.startswith("cuda") else "cpu"
        if self.device == "cuda" and cuda != "True":
            raise Skipped("PyTorch %s finds no GPU" % self.version)

    def call(self, net, *more):
        script = os.path.join(self.bench.root, "bench", "torch_nets.py")
        ended = measure.run([self.python, script, net["torch"], str(net["batch"]), "--threads",
                             str(self.bench.threads), "--device", self.device, "--precision",
                             self.bench.options.precision if self.device == "cuda" else "fp32",
                             "--warmup", str(net["warmup"]), "--steps", str(net["steps"])] +
                            list(more))
        return json.loads(ended.out.splitlines()[-1])

    def layouts(self):
        """With --quick the one that usually is the faster: channels last on tensor cores."""
        if not self.bench.options.quick:
            return LAYOUTS
        return LAYOUTS[:1] if self.bench.options.precision == "fp32" else LAYOUTS[1:]

    def best_layout(self, net):
        speed = {}
        for layout in self.layouts():
            answer = self.call(net, "--layout", layout)
            speed[layout] = answer["samples_per_s"]
            self.bench.say("torch %s, %s: %.6g samples/s" % (self.version, layout, speed[layout]))
        return max(speed, key=speed.get), answer["parameters"]


def same_size(bench, net, theirs):
    """Checks that both nets have the same number of parameters; otherwise the ratio is meaningless.
    """
    ended = measure.run([bench.options.binary, "check", "--json", bench.recipe(net["recipe"])],
                        env=bench.environment())
    own = json.loads(ended.out)["parameters"]
    if own != theirs:
        raise measure.Failed("%s has %d parameters, PyTorch's %d" % (net["recipe"], own, theirs))


def against_torch(name):
    def figure(bench):
        if bench.options.trial and name in HEAVY:
            raise Skipped("too heavy for a trial")
        net, torch = net_of(bench, name), Torch(bench)
        layout, parameters = torch.best_layout(net)
        same_size(bench, net, parameters)
        title = "%s, batch %d, %s" % (net["recipe"][:-4], net["batch"], bench.options.precision)
        rows = []
        for way, aim in (("eager", net["aim"]), ("compiled", None)):
            more = ["--layout", layout] + (["--compile"] if way == "compiled" else [])
            if way == "compiled" and (bench.options.quick or torch.version.startswith("1.")):
                continue
            try:
                a, b, foreign = in_turn(
                    bench, "%s | PyTorch %s" % (title, way), lambda: ours(bench, name, net),
                    lambda m=more: (torch.call(net, *m)["samples_per_s"],))
            except measure.Failed:
                if way == "eager":
                    raise
                continue  # torch.compile fails here
            rows.append(Row(title, "PyTorch %s %s" % (torch.version, way), "samples/s",
                            [x[0] for x in a], [x[0] for x in b], aim,
                            note="%s, cudnn.benchmark; foreign load %.0f %%" % (layout,
                                                                               100 * foreign)))
        return rows
    return figure


def nets_to_try(bench):
    return [n for n in NETS if not (bench.options.trial and n in HEAVY)]


def primitives(bench):
    """The time of the best single library calls as a fraction of our step."""
    torch, rows = Torch(bench), []
    for name in nets_to_try(bench):
        net = net_of(bench, name)
        title = "%s, batch %d, %s" % (net["recipe"][:-4], net["batch"], bench.options.precision)
        a, b, foreign = in_turn(
            bench, title + " | best primitives", lambda: ours(bench, name, net),
            lambda: (net["batch"] * 1e3 / torch.call(net, "--primitives")["sum_ms"],))
        rows.append(Row(title, "sum of best primitives", "samples/s", [x[0] for x in a],
                        [x[0] for x in b], 0.8, note="foreign load %.0f %%" % (100 * foreign)))
    return rows


def host(bench):
    """Launch time and waiting against their limits: 30 us per launch, 3 % waiting."""
    rows = []
    for name in nets_to_try(bench):
        net = net_of(bench, name)
        got = [ours(bench, name, net) for _ in range(bench.options.repeats)]
        title, n = "%s, batch %d" % (net["recipe"][:-4], net["batch"]), len(got)
        rows.append(Row(title + ", waiting", "limit", "fraction of a step", [g[1] for g in got],
                        [0.03] * n, 1.0, at_most=True))
        if all(g[2] for g in got):
            rows.append(Row(title + ", launch", "limit", "us", [g[2] for g in got], [30.0] * n, 1.0,
                            at_most=True))
    return rows


def copies(bench):
    """Figure 20a: alexnet-owt, the papers' net for GPUs; lenet in a trial."""
    trial, rows, gaps = bench.options.trial, [], {}
    name = "lenet" if trial else "alexnet128"
    for batch in COPY_BATCHES[:1] if trial else COPY_BATCHES:
        net = net_of(bench, name)
        if not trial:
            net.update(batch=batch, warmup=5, steps=max(20, 3200 // batch))

        def step_ms(mode, net=net):
            return (net["batch"] * 1e3 / ours(bench, name, net, copy=mode)[0],)
        for slow, quick in (("sync", "async"), ("async", "none")):
            title = "%s, batch %d, copy = %s" % (net["recipe"][:-4], net["batch"], slow)
            a, b, _ = in_turn(bench, "%s | %s" % (title, quick), lambda: step_ms(slow),
                              lambda: step_ms(quick))
            rows.append(Row(title, quick, "ms/step", [x[0] for x in a], [x[0] for x in b],
                            1.0 if batch == COPY_BATCHES[0] else None))
            gaps.setdefault(slow, []).append(rows[-1].ratios)
    met = [b for b, r in zip(COPY_BATCHES, gaps["async"]) if measure.spread(r)[1] < 1.02]
    rows[-1].note = ("async is within 2 %% of none from batch %d on" % met[0] if met else
                     "async is within 2 % of none at no batch")
    return rows


def shards(bench):
    """The fraction of a step that a GPU waits for data from a shard. The shard is imported from
    synthetic images as raw pixels, since the cost of decoding JPEG depends on the cores and not on
    the GPU.
    """
    net = dict(net_of(bench, "alexnet128"), recipe="alexnet.ini")
    folder, pictures = bench.path("shards"), bench.path("pictures.ini")
    os.makedirs(os.path.join(folder, "imagenet"), exist_ok=True)
    with open(pictures, "w") as f:
        f.write("[job]\nsteps = 1\nbatch = 1\n[data train]\nformat = synthetic\nclasses = 1000\n"
                "height = 256\nwidth = 256\nrecords = %d\n[updater]\ntype = sgd\nlr = 1\n"
                "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\n"
                "field = label\n[layer fc]\ntype = inner_product\nsrc = image\noutputs = 1000\n"
                "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n" %
                (8 if bench.options.trial else 8192))
    measure.run([bench.options.binary, "data", "import", "--split=train",
                 "--out=" + os.path.join(folder, "imagenet", "train-00000.shard"), pictures],
                env=bench.environment())
    os.link(os.path.join(folder, "imagenet", "train-00000.shard"),  # both splits exist
            os.path.join(folder, "imagenet", "val-00000.shard"))
    cores = ["data.train.workers=%d" % max(1, min(16, measure.cores() - 2))]
    bench.options.set += cores
    try:
        got = [ours(bench, "shards", net, data=folder) for _ in range(bench.options.repeats)]
    finally:
        del bench.options.set[-1]
    return [Row("%s, batch %d, from a shard, waiting" % (net["recipe"][:-4], net["batch"]), "limit",
                "fraction of a step", [g[1] for g in got], [0.03] * len(got), 1.0, at_most=True)]


FIGURES = {name: against_torch(name) for name in NETS}
FIGURES.update({"primitives": primitives, "host": host, "20a": copies, "shards": shards})
