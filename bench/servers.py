"""The exchange of parameters by the number of servers and by slice size (tech report, Figure 10), for
bench/papers: simulated GPUs with little to compute and 61 million parameters, whose servers are
threads of their host.
"""
import measure
import plot
import report
from common import Row, Sheet
from frameworks import STEP_MS, median
from hosts_papers import LARGE

LINK = "pcie=500MB/s,latency=100us,peer=no"
WORKERS, SERVERS, SLICES = (2, 4), (1, 2, 4), (("0.1 M", 100000), ("1 M", 1000000), ("5 M", 5000000))
EXCHANGE_MS = ("SELECT sum(t.comm_exposed_ms + t.update_ms) / count(*) FROM step_time t JOIN runs r ON r.id = t.run_id"
               " WHERE r.name = '%s' AND t.step > %d")


def exchange(bench, recipe, workers, sets):
    """(ms of a step, ms of it in which a worker waits for parameters, or its core makes updates)."""
    warmup, steps = (1, 2) if bench.options.trial else (2, 8)
    name, _ = bench.train(recipe, warmup + steps, [
        "job.device=sim:gpus=%d,mem=4GiB,%s" % (workers, LINK), "cluster.workers_per_group=%d" % workers,
        "cluster.framework=sandblaster", "cluster.comm=ps", "job.checkpoint_ends=no"] + sets, 1, ["--oversubscribe"])
    ms = median([float(row[0]) for row in bench.sql(STEP_MS % (name, warmup))])
    waits = float(bench.sql(EXCHANGE_MS % (name, warmup))[0][0])
    bench.drop(name)
    return ms, waits


def figure_10(bench):
    """Time of a step, and of exchange and update in it, by workers and servers, and by slice size."""
    recipe = bench.path("large.ini")
    with open(recipe, "w") as f:
        f.write(LARGE % ((32, 32) if bench.options.trial else (7000, 7900)))
    cases = [(w, "%d server%s" % (s, "s"[:s > 1]), ["cluster.servers_per_group=%d" % s])
             for w in WORKERS for s in SERVERS]
    cases += [(2, "2 servers, slices of %s" % text, ["cluster.servers_per_group=2", "cluster.slice_size=%d" % size])
              for text, size in SLICES]
    made, foreign = {(w, name): [] for w, name, _ in cases}, measure.Foreign()
    for i in range(bench.options.repeats):
        for workers, name, sets in cases:
            made[workers, name].append(exchange(bench, recipe, workers, sets))
            bench.say("fig. 10, %d workers, %s %d/%d: step %.4g ms, exchange %.4g ms" % (
                (workers, name, i + 1, bench.options.repeats) + made[workers, name][-1]))
    ms = {key: [x[1] for x in v] for key, v in made.items()}
    note = "%s; foreign load %.0f %%; the servers share %d cores" % (LINK, 100 * foreign.share(), bench.threads)
    rows = [Row("fig. 10, exchange, %d workers, 1 server" % w, "%d servers" % s, "ms", ms[w, "1 server"],
                ms[w, "%d servers" % s], 1.0 if s <= bench.threads else None, note=note)
            for w in WORKERS for s in SERVERS[1:]]
    cells = [["workers", "", "step", "exchange"]]
    cells += [[str(w), name, "%s ms" % report.number(median([x[0] for x in made[w, name]])),
               "%s ms" % report.number(median(ms[w, name]))] for w, name, _ in cases]
    drawn = plot.drawn(bench, "tech-report-10-run", "Tech report, Figure 10: exchange of 61 M parameters",
                       [("%d workers" % w, [(s, median(ms[w, "%d server%s" % (s, "s"[:s > 1])])) for s in SERVERS])
                        for w in WORKERS], "servers", "ms of exchange and update a step", 0)
    text = ("Figure 10 (tech report): exchange of %s parameters by servers, simulated GPUs, %s. Published: less time "
            "with more\nservers, and hardly so with 2 workers. Deviates: the servers are threads of one host, which "
            "has %d cores, so that more\nof them than cores do not help; each worker's link stays the same.\n%s\n%s" % (
                "few" if bench.options.trial else "61 M", LINK, bench.threads, report.align(cells, (1,)), drawn))
    values = "".join("fig. 10 | %d workers, %s step,exchange ms: %s\n" % (
        w, name, " ".join("%.6g,%.6g" % x for x in v)) for (w, name), v in made.items())
    return rows + [Sheet(text, values)]


FIGURES = {"10": figure_10}
