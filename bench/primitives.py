"""A recipe's training step against the sum of the best oneDNN times of its parts (primitives.c):
the list of parts is read from the output of singa-ws for the recipe (`check`, `explain`).

Our time also includes what is not a primitive: data, loss, update, checkpoints, dropout.
"""
import collections
import json
import os

import measure
from common import Row, Skipped, in_turn

# Layers whose time counts only on our side.
FREE = {"input", "rbm_visible", "softmax_loss", "accuracy", "dropout", "flatten", "reshape", "split"}


class Net:
    """The layers of the training net of a recipe, with their keys."""

    def __init__(self, check, explain):
        self.batch = check["batch"]
        self.layers = [l for l in check["layers"] if l["train"]]
        self.shape = {l["name"]: l["shape"] for l in check["layers"]}
        self.keys = collections.defaultdict(dict)
        for v in explain["values"]:
            self.keys[v["section"]][v["key"]] = v["value"]
        self.inputs = {l["name"] for l in self.layers if l["type"] == "input"}

    def key(self, layer, name, default=0):
        value = self.keys["layer." + layer["name"]].get(name)
        return default if value in (None, "") else int(value)

    def flag(self, layer, name):
        return int(self.keys["layer." + layer["name"]].get(name) == "yes")

    def source(self, layer):
        return self.shape[layer["src"][0]]

    def back(self, layer):
        """Whether its source needs a gradient."""
        return int(layer["src"][0] not in self.inputs)

    def fuses(self, layer):
        """Whether its only consumer is a relu that it computes itself (fused)."""
        readers = [l for l in self.layers if layer["name"] in l["src"]]
        return int(len(readers) == 1 and readers[0]["fused"])

    def window(self, layer):
        """KH KW SH SW PH PW"""
        out = []
        for name, default in (("kernel", 0), ("stride", 1), ("pad", 0)):
            both = self.key(layer, name, default)
            for axis in "yx":
                own = self.keys["layer." + layer["name"]].get("%s_%s" % (name, axis))
                given = own not in (None, "", "0", "-1")
                out.append(int(own) if given else both)
        return out


def four(shape):
    return list(shape) + [1] * (4 - len(shape))


def convolution(net, l):
    n, c, h, w = four(net.source(l))
    _, m, oh, ow = l["shape"]
    dilation = [net.key(l, "dilation_" + a) or net.key(l, "dilation", 1) for a in "yx"]
    return ["conv", n, c, h, w, m, oh, ow] + net.window(l) + dilation + \
        [net.key(l, "groups", 1), net.flag(l, "bias"), net.fuses(l), net.back(l)]


def inner_product(net, l):
    n, *features = net.source(l)
    count = 1
    for f in features:
        count *= f
    return ["ip", n, count, l["shape"][1], net.flag(l, "bias"), net.fuses(l), net.back(l)]


def pooling(net, l):
    keys = net.keys["layer." + l["name"]]
    n, c, h, w = net.source(l)
    window = [h, w, 1, 1, 0, 0] if keys.get("global") == "yes" else net.window(l)
    kind = "max" if keys.get("method") == "max" else "avg"
    return [kind, n, c, h, w] + l["shape"][2:] + window + [net.back(l)]


def lrn(net, l):
    return ["lrn"] + net.source(l) + [net.key(l, "size", 5), net.back(l)]


def batch_norm(net, l):
    return ["bn"] + four(net.source(l)) + [net.fuses(l), net.back(l)]


def activation(net, l):
    return ["relu"] + four(net.source(l)) + [0 if l["fused"] else 1, 1]


def eltwise(net, l):
    return ["sum"] + four(net.source(l)) + [len(l["src"])]


def products(net, l):
    """The GEMMs of a Gibbs chain with that many steps: up, down and up for each step, and one for the
        gradient over both ends of the chain.
    """
    (n, visible), hidden = net.source(l), net.shape[l["name"]][1]
    turns = net.key(l, "k", 1)
    return [(1 + turns, ["gemm", n, hidden, visible, 0, 1]),
            (turns, ["gemm", n, visible, hidden, 0, 0]),
            (1, ["gemm", hidden, visible, 2 * n, 1, 0])]


def concat(net, l):
    n, _, h, w = net.source(l)
    return ["concat", n, h, w] + [net.shape[s][1] for s in l["src"]]


PARTS = {"convolution": convolution, "inner_product": inner_product, "pooling": pooling,
         "lrn": lrn, "batch_norm": batch_norm, "activation": activation, "eltwise": eltwise,
         "concat": concat}
SEVERAL = {"rbm_hidden": products}  # lines of the list with their counts


def listing(net):
    lines = collections.Counter()
    for layer in net.layers:
        if layer["type"] in PARTS:
            lines[" ".join(str(x) for x in PARTS[layer["type"]](net, layer))] += 1
        elif layer["type"] in SEVERAL:
            for times, line in SEVERAL[layer["type"]](net, layer):
                lines[" ".join(str(x) for x in line)] += times
        elif layer["type"] not in FREE:
            raise Skipped("there is no primitive for layer type %s" % layer["type"])
    return "".join("%d %s\n" % (n, line) for line, n in lines.items())


def build(bench):
    program = bench.path("primitives")
    source = os.path.join(bench.root, "bench", "primitives.c")
    if not os.path.exists(program):
        try:
            measure.run(["gcc", "-O2", "-fopenmp", "-w", source, "-o", program, "-ldnnl"])
        except (OSError, measure.Failed) as e:
            raise Skipped("primitives.c cannot be built here: %s" % e) from e
    return program


def figure(name, aim=0.85, sets=()):
    def make(bench):
        program, net = build(bench), bench.net(name)
        argv = [bench.recipe(net["recipe"]), "--json", "--set", "job.batch=%d" % net["batch"]]
        for line in sets:
            argv += ["--set", line]
        said = [json.loads(measure.run([bench.options.binary, verb] + argv,
                                       env=bench.environment()).out)
                for verb in ("check", "explain")]
        listed = bench.path("%s.list" % name)
        with open(listed, "w") as f:
            f.write(listing(Net(*said)))

        def theirs():
            ended = measure.run(["sh", "-c", "exec %s <%s" % (program, listed)],
                                env={"OMP_NUM_THREADS": str(bench.threads)})
            return net["batch"] * 1e3 / float(ended.out.split()[-2]), ended.peak_bytes
        title = "%s, batch %d" % (net["recipe"][:-4], net["batch"])
        a, b, foreign = in_turn(bench, title + " | primitives", lambda: bench.ours(net, sets=sets), theirs)
        return [Row(title, "sum of primitives", "samples/s", [x[0] for x in a],
                    [x[0] for x in b], aim,
                    note="foreign load %.0f %%" % (100 * foreign))]
    return make
