"""Two jobs at once, each against its own speed alone: on disjoint cores, half of the machine each
(the side alone has as many cores), and sharing all cores.
"""
from concurrent.futures import ThreadPoolExecutor

from common import Row, Skipped, in_turn


def figure(bench):
    net, n, rows = bench.net("quick"), bench.threads, []
    if n < 2:
        raise Skipped("needs several cores")
    for title, cores, aim in (("%d cores each" % (n // 2), n // 2, 0.9), ("sharing %d" % n, n, 0.45)):
        def alone(cores=cores):
            return bench.ours(net, threads=cores, options=["--cores", str(cores)])

        def slower_of_two():
            with ThreadPoolExecutor(2) as pool:
                return min(pool.map(lambda _: alone(), range(2)))
        title = "two of %s, batch %d, %s" % (net["recipe"][:-4], net["batch"], title)
        a, b, foreign = in_turn(bench, title + " | alone", slower_of_two, alone)
        rows.append(Row(title, "alone", "samples/s", [x[0] for x in a], [x[0] for x in b], aim,
                        note="the slower of the two; foreign load %.0f %%" % (100 * foreign)))
    return rows
