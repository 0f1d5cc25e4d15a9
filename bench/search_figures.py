"""The figures of bench/search."""
import json
import os

import measure
from common import Row, Sheet, Skipped, in_turn

SCAN_GOAL = 0.8


def times_program(bench):
    program = os.path.join(os.path.dirname(bench.options.binary), "tests", "search_times")
    if not os.access(program, os.X_OK):
        raise Skipped("there is no %s: ninja search_times builds it" % os.path.basename(program))
    return program


def peer(bench, *words):
    """Runs search_peer.py; returns its JSON, or None if it prints nothing."""
    python = bench.options.faiss
    try:
        measure.run([python, "-c", "import faiss, numpy"])
    except (OSError, measure.Failed) as e:
        raise Skipped("%s has no faiss (--faiss PYTHON)" % os.path.basename(python)) from e
    ended = measure.run([python, os.path.join(bench.root, "bench", "search_peer.py")] +
                        [str(w) for w in words])
    return json.loads(ended.out) if ended.out.strip() else None


def singa(bench, *words):
    return measure.run([bench.options.binary, "search"] + [str(w) for w in words],
                       env=bench.environment()).out


def lines(bench, *words):
    """Pairs of numbers that search_times prints."""
    ended = measure.run([times_program(bench)] + [str(w) for w in words], env=bench.environment())
    return [tuple(map(float, line.split())) for line in ended.out.splitlines()]


def index(bench, folder, kind, *options):
    path = os.path.join(folder, kind + ".index")
    singa(bench, "index", os.path.join(folder, "base.npy"), "--kind", kind, "--out", path,
          "--quiet", *options)
    return path


def query(bench, folder, path, k, repeats=1):
    return lines(bench, "query", path, os.path.join(folder, "query.npy"), k, bench.threads, repeats)


def recall(bench, folder, path, k, truth="exact"):
    return json.loads(singa(bench, "recall", path, "--queries", os.path.join(folder, "query.npy"),
                            "-k", k, "--truth", truth, "--json"))


def small(bench, count, least):
    return max(least, count // 100) if bench.options.trial else count


# ---- Beside FAISS -------------------------------------------------------------------------------

def scan(bench):
    rows = []
    megabytes = 8 if bench.options.trial else 512
    for threads in sorted({1, bench.threads}):
        for bits in (64, 128, 256, 512):
            pairs = lines(bench, "scan", bits, megabytes, threads, bench.options.repeats)
            gb = megabytes / 1e3
            rows.append(Row("scan, %d bits, %d thread%s" % (bits, threads, "s" * (threads > 1)),
                            "reading memory", "GB/s", [gb / p[0] for p in pairs],
                            [gb / p[1] for p in pairs], SCAN_GOAL))
    return rows


def beside_faiss(bench, title, faiss_index, kind, columns, rows, queries=1000, k=10):
    folder = bench.path("data-%s-%d" % (kind, columns))
    rows, queries = small(bench, rows, 1000), small(bench, queries, 10)
    peer(bench, "random", "codes" if kind == "codes" else "mixture", rows, columns, queries, folder)
    path = index(bench, folder, kind)
    name = peer(bench, "time", faiss_index, folder, k, bench.threads, 1)["faiss"]
    found = recall(bench, folder, path, k, os.path.join(folder, "truth.npy"))["recall"]
    a, b, foreign = in_turn(
        bench, title, lambda: query(bench, folder, path, k)[0],
        lambda: peer(bench, "time", faiss_index, folder, k, bench.threads, 1)["seconds"])
    note = "FAISS %s; %d rows, %d queries, k = %d; share of the same neighbors %.4f; " \
        "foreign load %.0f %%" % (name, rows, queries, k, found, 100 * foreign)
    return [Row(title, "FAISS", "queries/s", [queries / x[0] for x in a],
                [queries / x[0] for x in b], None, note=note)]


def flat(bench):
    return [row for columns in (32, 128)
            for kind in ("exact", "va")
            for row in beside_faiss(bench, "%s, %d dimensions" % (kind, columns), "flat", kind,
                                    columns, 100000)]


def binary(bench):
    # Equal distances are frequent, and FAISS does not order them by row: it has other neighbors of
    # the last distance.
    return [row for columns in (8, 32)
            for row in beside_faiss(bench, "codes, %d bits" % (8 * columns), "binary", "codes",
                                    columns, 1000000)]


# ---- VA-file ------------------------------------------------------------------------------------

def va_line(bench, name, folder, k, bits, metric):
    path = index(bench, folder, "va", "--bits", bits, "--metric", metric)
    r = recall(bench, folder, path, k)
    if r["recall"] != 1:
        raise measure.Failed("VA-file over %s: recall %g" % (name, r["recall"]))
    return "%-28s %9d %8d  %-9s %4d %9.3f %%  exact\n" % (
        name, r["rows"], r["queries"], metric, bits, 100 * r["read_share"])


def va(bench):
    text = "%-28s %9s %8s  %-9s %4s %11s\n" % ("VA-file, k = 10", "vectors", "queries", "metric",
                                               "bits", "vectors read")
    for kind, columns in (("uniform", 8), ("uniform", 16), ("uniform", 32), ("mixture", 32),
                          ("mixture", 128)):
        folder = bench.path("va-%s-%d" % (kind, columns))
        peer(bench, "random", kind, small(bench, 100000, 1000), columns, small(bench, 1000, 10),
             folder)
        for bits in (4, 8):
            text += va_line(bench, "%s, %d dimensions" % (kind, columns), folder, 10, bits,
                            "euclidean")
    folder = bench.path("va-many-queries")
    peer(bench, "random", "uniform", small(bench, 1000, 100), 8, small(bench, 100000, 100), folder)
    text += va_line(bench, "uniform, 8 dimensions", folder, 10, 8, "euclidean")
    try:
        peer(bench, "wikipedia", bench.options.data, bench.path("wikipedia"))
    except measure.Failed as e:
        return [Sheet(text + "Wikipedia: skipped: %s\n" % e)]
    for side, all_bits in (("images", (4, 8)), ("texts", (4, 8))):
        for bits in all_bits:
            for metric in ("euclidean", "cosine"):
                text += va_line(bench, "Wikipedia, " + side, bench.path("wikipedia", side), 10, bits,
                                metric)
    return [Sheet(text)]


# ---- The thesis, 5.7.2 --------------------------------------------------------------------------

def thesis(bench):
    k, columns, queries = 50, 32, 100
    kinds = (("va", ("--bits", 4)), ("exact", ()), ("codes", ("--bits", 32)),
             ("mih", ("--bits", 32)))
    text = "Milliseconds per query, %d neighbors, %d dimensions, codes of 32 bits, %d thread%s\n" % (
        k, columns, bench.threads, "s" * (bench.threads > 1))
    text += "%9s %9s %9s %9s %9s  %12s %12s %9s\n" % (
        "vectors", "VA-file", "all", "codes", "hashing", "VA / codes", "all / codes", "VA reads")
    values = ""
    for rows in (125000, 250000, 500000, 1000000):
        rows, folder = small(bench, rows, 1000), bench.path("thesis-%d" % rows)
        peer(bench, "random", "mixture", rows, columns, queries, folder)
        ms, share = {}, {}
        for kind, options in kinds:
            measured = query(bench, folder, index(bench, folder, kind, *options), k,
                             bench.options.repeats)
            ms[kind] = measure.spread([1e3 * m[0] / queries for m in measured])[1]
            share[kind] = measured[0][1]
            values += "thesis | %s, %d | ms: %s\n" % (
                kind, rows, " ".join("%.6g" % (1e3 * m[0] / queries) for m in measured))
        text += "%9d %9.3f %9.3f %9.3f %9.3f  %12.1f %12.1f %7.2f %%\n" % (
            rows, ms["va"], ms["exact"], ms["codes"], ms["mih"], ms["va"] / ms["codes"],
            ms["exact"] / ms["codes"], 100 * share["va"])
    text += ("The thesis says that binary features are searched 10 times faster than real ones. It\n"
             "compares a scan of codes with a VA-file over vectors; the answers differ (its Tables 5.2\n"
             "and 5.3). All: the exhaustive search of the same vectors, in blocks of queries.\n")
    return [Sheet(text, values)]


FIGURES = {"scan": scan, "flat": flat, "binary": binary, "va": va, "thesis": thesis}
