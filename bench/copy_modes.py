"""The cost of copying gradients and parameters in each copy mode: the shape of Figure 20a of SINGA
(TOMM, 2017). LeNet runs on simulated GPUs whose links are slowed down as much as computing on a CPU
thread is slower than on a GPU: at the smallest batch the copies of a step take about as long as its
compute. Therefore not the times count but their order (sync > async > none), and that the modes
converge as batches grow, because compute grows and copies do not.
"""
import plot
import report
from common import Row, Sheet, in_turn
from frameworks import median

LINK = "pcie=250MB/s,latency=100us"
BATCHES = (64, 128, 256)  # as published
# Several workers reduce their gradients on the host, so they cannot use copy = none.
PAIRS = {1: (("sync", "async"), ("async", "none")), 4: (("sync", "async"),)}


def step_ms(bench, net, gpus, mode):
    speed, _ = bench.ours(net, workers=gpus, threads=1, options=["--oversubscribe"],
                          sets=["job.device=sim:gpus=%d,mem=1GiB,%s" % (gpus, LINK),
                                "cluster.copy=%s" % mode])
    return (net["batch"] * 1e3 / speed,)


def sheet(bench, gpus, ms):
    """ms: {mode: [(batch, ms), ...]}"""
    title = "Figure 20a (TOMM): time per iteration of LeNet by copy mode, %d simulated GPU%s, %s" % (
        gpus, "s"[:gpus > 1], LINK)
    batches = sorted({b for points in ms.values() for b, _ in points})
    cells = [["batch"] + list(ms)]
    cells += [[str(b)] + ["%s ms" % report.number(dict(points)[b]) for points in ms.values()] for b in batches]
    drawn = plot.drawn(bench, "tomm-20a-%d" % gpus, title.split(",")[0], list(ms.items()), "batch",
                       "ms an iteration", 0)
    return Sheet("%s.\nPublished: sync > async > none at batches of 64 and 128, the less so the larger the batch; at "
                 "256 async is\nfaster than none, because a server makes the updates meanwhile.\n%s\n%s" % (
                     title, report.align(cells, (0,)), drawn))


def figure(bench):
    made, trial = [], bench.options.trial
    for gpus, pairs in PAIRS.items():
        gaps, ms = [], {}
        for batch in BATCHES[:1] if trial else BATCHES:
            net = dict(bench.net("lenet"), batch=batch)
            if not trial:
                net.update(warmup=10, steps=max(20, 3200 // batch))
            for slow, quick in pairs:
                title = "lenet, %d GPU%s, batch %d, %s" % (gpus, "s"[:gpus > 1], batch, slow)
                a, b, foreign = in_turn(bench, "%s | %s" % (title, quick),
                                        lambda m=slow: step_ms(bench, net, gpus, m),
                                        lambda m=quick: step_ms(bench, net, gpus, m))
                a, b = [x[0] for x in a], [x[0] for x in b]
                made.append(Row(title, quick, "ms/step", a, b, 1.0 if batch == BATCHES[0] else None,
                                note="%s; foreign load %.0f %%" % (LINK, 100 * foreign)))
                ms.setdefault(slow, {}).setdefault(batch, median(a))
                ms.setdefault(quick, {}).setdefault(batch, median(b))
                if slow == "sync":
                    gaps.append([x / y for x, y in zip(a, b)])
        if len(gaps) > 1:
            made.append(Row("lenet, %d GPU%s, sync / async at batch %d" %
                            (gpus, "s"[:gpus > 1], BATCHES[0]), "at batch %d" % BATCHES[-1],
                            "ratio", gaps[0], gaps[-1], 1.0))
        made.append(sheet(bench, gpus, {mode: sorted(points.items()) for mode, points in ms.items()}))
    return made
