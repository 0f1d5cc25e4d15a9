"""The tech report's Equations 4 to 8 and Figures 7 to 10 from the planner and its simulator, for
bench/papers (plans.py).

The paper's cluster: nodes with a quad-core Xeon of 2.4 GHz and 8 GB on a switch of 1 Gbit/s (6.1);
table servers on nodes of their own, 7 in Figure 7 (6.3). singa-ws has no such servers, and moves no
activations between hosts: `plan --server-hosts` plans for both, and a run can do neither.
"""
import math

import plot
import report
from plans import Plans, layer_of, million, prose, seconds, total

# AlexNet without groups of channels, as SINGA had it: 62.4 M parameters.
UNGROUPED = ["layer.%s.groups=1" % layer for layer in ("conv2", "conv4", "conv5")]
DCNN = "recipes/alexnet.ini"
CAFFE_MS = 27300.0  # of 256 images on one node (6.3)
SERVERS = 7
FC = ["layer.%s.partition=1" % layer for layer in ("fc6", "fc7", "fc8")]

# Every layer is fully connected, which is what Equation 5 assumes.
MLP_SIZES = (2560, 2048, 1536, 1024, 512, 32)
MLP_HEAD = """[job]
name = mlp
batch = 1024
steps = 100
[data train]
format = synthetic
classes = 10
records = 1000
channels = 1
height = 28
width = 28
[updater]
type = sgd
lr = 0.001
[layer image]
type = input
field = image
[layer label]
type = input
field = label
"""


def cluster(nodes, servers=SERVERS, rate=None):
    """The options of `plan` for so many nodes with workers and with servers."""
    words = ["--hosts", str(nodes)] + (["--server-hosts", str(servers)] if servers else [])
    words += ["--net", "1Gbit"] if nodes > 1 or servers else []
    words += ["--from", "numa:1(memory=8589934592) core:4 pu:1", "--memory-rate", "10GB/s"]
    return words + (["--gflops", rate] if rate else [])


# ---- Equations 4 to 8 ---------------------------------------------------------------------------

def write_mlp(bench):
    path, source, text = bench.path("mlp.ini"), "image", MLP_HEAD
    for i, size in enumerate(MLP_SIZES):
        name = "fc%d" % (i + 1)
        text += "[layer %s]\ntype = inner_product\nsrc = %s\noutputs = %d\n" % (name, source, size)
        source = name
    with open(path, "w") as f:
        f.write(text + "[layer loss]\ntype = softmax_loss\nsrc = %s, label\n" % source)
    return path


def equations(bench):
    """What the planner says is moved in a step, beside the formulas: P parameters, D features that
    layers read, batch B, N workers in groups of M."""
    p, recipe, batch = Plans(bench), write_mlp(bench), 1024
    features = sum(MLP_SIZES[:-1])  # of the layers that another one reads and whose gradient it returns
    cells = [["N", "M", "", "published formula", "ours, counted so", "ours", "step", "best M"]]
    made, worst = {}, 0
    for n in (4,) if bench.options.trial else (4, 16, 32):
        for m in (1, 2, 4, 8, 16, 32):
            if m > n:
                continue
            groups, one = n // m, m in (1, n)
            sets = ["cluster.framework=%s" % ("allreduce" if one else "custom"), "cluster.consistency=bsp",
                    "cluster.worker_groups=%d" % (1 if one else groups),
                    "cluster.workers_per_group=%d" % (n if one else m), "job.partition=%d" % (m > 1),
                    "cluster.comm=ps"]
            plan = p.plan(recipe, sets, cluster(n, rate="50"))
            params, gradients = plan["parameters"], total(plan, "moved_params")
            # The image has no gradient, and the loss reads rows: both are in no formula.
            moved = total(plan, "moved_activations") - sum(
                layer_of(plan, name)["moved_activations"] for name in ("fc1", "loss"))
            theirs = (2 * params * groups if m < n else 0) + (2 * features * batch * m if m > 1 else 0)
            so = gradients + (moved * m / (m - 1) if m > 1 else 0)
            worst = max(worst, abs(so / theirs - 1))
            made.setdefault(n, []).append((m, theirs, so, plan["predicted_ms"]))
            cells.append([str(n), str(m), "Eq. 4" if m == 1 else "Eq. 5" if m == n else "Eq. 8", million(theirs),
                          million(so), million(gradients + moved), "%.0f ms" % plan["predicted_ms"],
                          "%.1f" % math.sqrt(params * n / (features * batch))])
    p.bench.say("equations: largest difference %.2g" % worst)
    title = ("Equations 4 to 8 (tech report), corrected: floats moved in a step, MLP 784-%s,\nB = %d, P = %s, D = %d "
             "(features between layers), N nodes in groups of M, %d nodes with servers." % (
                 "-".join(str(s) for s in MLP_SIZES), batch, million(params), features, SERVERS))
    words = ("Published: Eq. 4 2PN, Eq. 5 2DNB, Eq. 8 2PN/M + 2DBM, which count the features that a worker sends to "
             "itself; on links 2DB(M - 1) of them are moved (`ours`). The largest relative difference of counts is "
             "%.2g. %s Of Eq. 8, at least 4 sqrt(PNDB) at M = sqrt(PN/DB) (`best M`), the least row is M = %s; the "
             "shortest step is that of M = %s." % (
                 worst, "They agree." if worst < 1e-6 else "One DIFFERS: see the table.",
                 ", ".join("%d for N = %d" % (min(v, key=lambda x: x[1])[0], n) for n, v in made.items()),
                 ", ".join("%d" % min(v, key=lambda x: x[3])[0] for v in made.values())))
    most = max(made)
    plot.picture(bench, "tech-report-equations", "Tech report, Equations 4, 5 and 8: %d nodes" % most,
                 [("ours", [(math.log2(m), so / 1e6) for m, _, so, _ in made[most]])], "log2 of the workers of a group",
                 "million floats a step",
                 [("published formula", [(math.log2(m), f / 1e6) for m, f, _, _ in made[most]])])
    return [p.sheet(title, cells, prose(words), left=(2,))]


# ---- Figure 7 -----------------------------------------------------------------------------------

SOURCE = ("Machine: quad-core nodes with 8 GB and 1 Gbit/s each (6.1); computing at %s Gflop/s, where one worker takes "
          "the published 27.3 s for 256 images (6.3); memory 10 GB/s, which is assumed. %s")


def node_rate(p):
    return p.rate_for(DCNN, ["job.batch=256"] + UNGROUPED, cluster(1, 0), CAFFE_MS)


def one_link_ms(plan):
    """Computing, and all floats that nodes send over one link of 1 Gbit/s, one after the other."""
    return plan["compute_ms"] + 4e3 * (total(plan, "moved_params") + total(plan, "moved_activations")) / 125e6


def trend(side):
    ms = [x[1] for x in side["model"]]
    least = min(side["model"], key=lambda x: x[1])[0]
    rises = all(b > a for a, b in zip(ms[1:], ms[2:])) and ms[-1] > ms[0]
    return "rises" if rises else "falls, least at %d" % least


def figure_7(bench):
    """One group of N nodes: model, data and hybrid partition (fc6 to fc8 by columns), what is planned
    freely, and data partition as singa-ws runs it, without servers."""
    p = Plans(bench)
    rate = node_rate(p)
    counts = (1, 2, 4) if bench.options.trial else (1, 2, 4, 8, 16, 32)
    ways = (("model", ["job.partition=1"], SERVERS), ("data", ["job.partition=0", "cluster.comm=ps"], SERVERS),
            ("hybrid", FC, SERVERS), ("planned", [], SERVERS),
            ("data, no servers", ["job.partition=0", "cluster.comm=ps"], 0))
    made = {name: [] for name, _, _ in ways}
    for n in counts:
        for name, sets, servers in ways:
            plan = p.plan(DCNN, ["job.batch=256", "cluster.workers_per_group=%d" % n, "cluster.framework=allreduce"] +
                          UNGROUPED + (sets if n > 1 else []), cluster(n, servers, rate))
            made[name].append((n, plan["predicted_ms"], plan))
            bench.say("tech report 7, %s, %d nodes: %.4g ms" % (name, n, plan["predicted_ms"]))
    names, theirs = list(made), list(made)[:3]
    shared = {name: [(n, one_link_ms(plan)) for n, _, plan in made[name]] for name in theirs}
    sides = [{name: [x[:2] for x in v] for name, v in made.items()}, shared]
    cells = [["nodes"] + names + ["%s, one link" % name for name in theirs]]
    for i, n in enumerate(counts):
        cells.append([str(n)] + [seconds(made[name][i][1]) for name in names] +
                     [seconds(shared[name][i][1]) for name in theirs])
    cells2 = [["", "published", "ours", "ours, one link"]]
    for what, published, key in (("one node", "27.3 s (given)", lambda s: seconds(s["data"][0][1])),
                                 ("model partition", "rises with the nodes", trend),
                                 ("data partition, best at", "about 4 nodes, then rises",
                                  lambda s: "%d nodes" % min(s["data"], key=lambda x: x[1])[0]),
                                 ("hybrid against model", "up to 20 x", lambda s: "up to %.1f x" % max(
                                     a[1] / b[1] for a, b in zip(s["model"], s["hybrid"]))),
                                 ("hybrid against one node", "up to 5 x", lambda s: "up to %.1f x" % (
                                     CAFFE_MS / min(x[1] for x in s["hybrid"])))):
        cells2.append([what, published] + [key(s) for s in sides])
    optima = [min(s["data"], key=lambda x: x[1])[0] for s in sides]
    fastest = [n for n, h, d, m in zip(counts, *([x[1] for x in made[name]] for name in ("hybrid", "data", "model")))
               if h < min(d, m)]
    best = min(made["planned"], key=lambda x: x[1])
    chosen = ["%s %s" % (name, layer_of(best[2], name)["partition"])
              for name in ("conv1", "conv5", "fc6", "fc7", "fc8")]
    text = ("Agrees: data partition falls, then rises, because the servers' links carry 2PN floats; hybrid is the "
            "fastest with %s nodes. Deviates: model partition falls here, because every node has a link of its own, "
            "over which it gets the others' features at once, while the tech report takes all communication as "
            "going through one switch (4) and measures accordingly (6.3: in accordance with Equation 5); its program "
            "also waits at barriers around each fetch. `One link` is computing plus all floats of the same plans over "
            "one link of 125 MB/s, one after the other: the published shapes, with smaller ratios of hybrid. The "
            "published optimum of data partition, 4, is beside %d and %d of these columns. Without servers (as singa-ws "
            "runs it: every node sums a part) data partition levels off. LRN needs neighbor channels and stays in rows "
            "in our model partition. Planned freely, %d nodes have %s." % (
                ", ".join(map(str, fastest)) or "no", optima[0], optima[1], best[0], ", ".join(chosen)))
    lines = [(name + where, [(math.log2(n), ms / 1e3) for n, ms in s[name]])
             for s, where in zip(sides, ("", ", one link")) for name in theirs]
    most = math.log2(counts[-1])
    plot.picture(bench, "tech-report-7", "Tech report, Figure 7: time of 256 images by nodes", lines,
                 "log2 of the nodes", "seconds for 256 images",
                 [("published: Caffe, one node", [(0, 27.3), (most, 27.3)]),
                  ("published: the best hybrid, 5 x Caffe", [(0, 5.46), (most, 5.46)])], log=True)
    drawn = plot.curves([(name, [(x, min(y, 60)) for x, y in points]) for name, points in lines],
                        "log2 of the nodes", "seconds for 256 images, at most 60", 0)
    return [p.sheet("Figure 7 (tech report): time of 256 images by the nodes of a group, DCNN of 62.4 M parameters, %d "
                    "nodes with servers." % SERVERS, cells, "", report.align(cells2, (0, 1, 2, 3)), drawn,
                    prose(SOURCE % (rate, "%d nodes with a table server each (6.3)." % SERVERS)), prose(text), left=())]


# ---- Figures 8 and 9 ----------------------------------------------------------------------------

def figure_8(bench):
    """Asynchronous groups: images per second by workers and group size, and what a step consists of."""
    p = Plans(bench)
    rate = node_rate(p)
    workers, sizes = ((4,), (1, 2)) if bench.options.trial else ((16, 32, 48), (1, 2, 4, 8, 16))
    cells = [["workers", "group size", "images/s", "over one node", "step", "compute", "parameters", "features",
              "wait", "sum of exchanges", "of moves"]]
    speeds, steps = {}, {}
    for n in workers:
        for m in sizes:
            plan = p.plan(DCNN, ["job.batch=256", "cluster.framework=downpour", "cluster.worker_groups=%d" % (n // m),
                                 "cluster.workers_per_group=%d" % m, "cluster.comm=ps"] + UNGROUPED + (
                                     FC if m > 1 else []), cluster(n, SERVERS, rate))
            images = 256e3 * (n // m) / plan["predicted_ms"]
            speeds[n, m], steps[n, m] = images, plan
            cells.append([str(n), str(m), "%.1f" % images, "%.1f" % (images / 256e3 * CAFFE_MS),
                          seconds(plan["predicted_ms"])] + [
                              seconds(plan[k]) for k in ("compute_ms", "params_ms", "activations_ms", "wait_ms")] +
                         [seconds(total(plan, k)) for k in ("params_ms", "activations_ms")])
            bench.say("tech report 8, %d workers in groups of %d: %.4g images/s" % (n, m, images))
    best, at = max((v, k) for k, v in speeds.items())
    halves = [a["compute_ms"] / b["compute_ms"] for (n, m), a in steps.items()
              for b in [steps.get((n, 2 * m))] if b]
    grows = all(speeds[a, m] < speeds[b, m] for m in sizes for a, b in zip(workers, workers[1:]))
    moves = all(total(steps[n, a], "activations_ms") < total(steps[n, b], "activations_ms") for n in workers
                for a, b in zip(sizes, sizes[1:]))
    cells2 = [["", "published", "ours"],
              ["most images/s", "180", "%.0f, %d workers" % (best, at[0])],
              ["over one node", "20 x", "%.0f x" % (best / 256e3 * CAFFE_MS)],
              ["more workers", "more images/s", "more images/s" if grows else "DIFFERS"],
              ["computing, group doubled", "halves", "%.2f to %.2f times less" % (min(halves), max(halves))],
              ["features, group doubled", "take longer", "take longer" if moves else "DIFFERS"]]
    text = ("Agrees: more workers train more images, and in larger groups a step computes for a shorter and moves "
            "features for a longer time. Deviates: the highest throughput is that of %d x one node, while the paper "
            "reaches 20 x, since here the exchange runs beside computing, no worker waits at a barrier, and SINGA's "
            "workers are taken to compute as fast as Caffe, of which alone a time is published. Figure 9's times are "
            "in plots only; the number of table servers in these runs is not published, and that of 6.3 is assumed. "
            "Published: with the group the parameters' time rises for 16 workers (a server waits for more gradients) "
            "and falls for 48 (fewer copies of the model, a less busy network). Here it is hidden behind computing "
            "until the servers' links are full, with 48 workers in groups of 16; without overlap (the sums, of all "
            "layers one after the other) it falls with the group in all three, because the links of servers are the "
            "limit already with 16 workers." % round(best / 256e3 * CAFFE_MS))
    plot.picture(bench, "tech-report-8", "Tech report, Figure 8: images per second, Downpour",
                 [("%d workers" % n, [(math.log2(m), speeds[n, m]) for m in sizes]) for n in workers],
                 "log2 of the workers of a group", "images per second",
                 [("published: the highest", [(0, 180), (math.log2(sizes[-1]), 180)])])
    return [p.sheet("Figures 8 and 9 (tech report): asynchronous groups (Downpour), a batch of 256 for each group, fc6 "
                    "to fc8 by columns.", cells, "", report.align(cells2, (0, 1, 2)),
                    prose(SOURCE % (rate, "%d nodes with a table server each." % SERVERS)), prose(text), left=())]


# ---- Figure 10 ----------------------------------------------------------------------------------

def figure_10(bench):
    """The transfer of parameters by workers and table servers: one group, hybrid partition, without
    local updates, which is what one group of Downpour does."""
    p = Plans(bench)
    rate = node_rate(p)
    workers = (2, 4) if bench.options.trial else (2, 4, 8, 16)
    servers = (1, 8) if bench.options.trial else (1, 2, 4, 8, 16)
    made = {}
    for s in servers:
        for n in workers:
            plan = p.plan(DCNN, ["job.batch=256", "cluster.framework=downpour", "cluster.worker_groups=1",
                                 "cluster.workers_per_group=%d" % n, "cluster.comm=ps"] + UNGROUPED + FC,
                          cluster(n, s, rate))
            made[s, n] = total(plan, "params_ms")
            bench.say("tech report 10, %d workers, %d servers: %.4g ms" % (n, s, made[s, n]))
    cells = [["servers"] + ["%d workers" % n for n in workers]]
    cells += [[str(s)] + [seconds(made[s, n]) for n in workers] for s in servers]
    falls = all(made[b, n] <= made[a, n] for n in workers for a, b in zip(servers, servers[1:]))
    gain = {n: made[servers[0], n] / made[servers[-1], n] for n in workers}
    drops = [s for s in servers if made[s, 4] < made[s, 2]]
    rises = [s for s in servers if s in drops and made[s, workers[-1]] > min(made[s, n] for n in workers)]
    cells2 = [["", "published", "ours"],
              ["more servers", "less time", "less time" if falls else "DIFFERS"],
              ["%d servers against %d, 2 workers" % (servers[-1], servers[0]), "not much difference",
               "%.1f x" % gain[2]],
              ["the same, %d workers" % workers[-1], "more difference", "%.1f x" % gain[workers[-1]]],
              ["from 2 to 4 workers", "drops", "drops with %s servers" % ", ".join(map(str, drops)) if drops else
               "DIFFERS"],
              ["beyond", "rises", "rises with %s servers" % ", ".join(map(str, rises)) if rises else "DIFFERS"]]
    text = ("Times are those of exchange and update of all layers, one after the other, as if nothing overlapped. "
            "Agrees: two workers are limited by their own links, on which each has half of fc6 to fc8; more workers "
            "have smaller parts, until the servers' links, which carry every worker's convolutions, are the limit. "
            "Deviates: with a single server the time rises from 2 to 4 workers on, since its link is the limit for 2 "
            "already. The published numbers are in a plot only.")
    plot.picture(bench, "tech-report-10", "Tech report, Figure 10: transfer of parameters, simulated",
                 [("%d server%s" % (s, "s"[:s > 1]), [(n, made[s, n] / 1e3) for n in workers]) for s in servers],
                 "workers", "seconds a step")
    return [p.sheet("Figure 10 (tech report): time of transferring parameters by workers and table servers, hybrid "
                    "partition, no local updates.", cells, "", report.align(cells2, (0, 1, 2)),
                    prose(SOURCE % (rate, "")), prose(text), left=())]


FIGURES = {"plan-equations": equations, "plan-tr7": figure_7, "plan-tr8": figure_8, "plan-tr10": figure_10}
