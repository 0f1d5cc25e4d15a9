"""Code shared by bench/run, bench/papers and bench/gpu: options, measuring the figures one by one,
and the report: machine and date, a table, remarks, all values. The report is printed and stored in
a file.
"""
import os
import shlex
import subprocess
import sys
import tempfile
import time

import common
import measure

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def add_options(p, repeats):
    """Adds the common options."""
    p.add_argument("--repeats", type=int, default=repeats, metavar="N",
                   help="rounds of a figure (%d)" % repeats)
    p.add_argument("--threads", type=int, metavar="N",
                   help="math threads (what singa-ws would take: one per core)")
    p.add_argument("--binary", metavar="FILE",
                   default=os.path.join(ROOT, "build", "release", "singa-ws"),
                   help="the program (build/release/singa-ws)")
    p.add_argument("--results", metavar="DIR", default=os.path.join(ROOT, "bench", "results"),
                   help="where the table is kept (bench/results)")
    p.add_argument("--trial", action="store_true",
                   help="tiny batches and few steps, to try the script; nothing is kept")


def read_options(p, figures):
    o = p.parse_args()
    unknown = [f for f in o.figure if f not in figures]
    if unknown:
        p.error("there is no figure '%s'; there are %s" % (unknown[0], " ".join(figures)))
    if o.repeats < 1:
        p.error("--repeats must be 1 or more")
    if not os.access(o.binary, os.X_OK):
        p.error("there is no program %s: ./bootstrap build makes it" % o.binary)
    o.figure = o.figure or list(figures)
    if o.trial:
        o.repeats = min(o.repeats, 2)
    return o


# ---- Head ---------------------------------------------------------------------------------------

def git(*words):
    try:
        return subprocess.run(["git", "-C", ROOT] + list(words), capture_output=True, text=True,
                              check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit():
    """The commit that was measured, marked if the sources differ from it."""
    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--", "src", "kernels", "recipes", "bench/*.py",
                  "bench/*.c", "bench/run", "bench/papers", "bench/hosts_net",
                  "bench/plan", "bench/search", "bench/skipgram", "CMakeLists.txt")
    return name + ("-changed" if changed else "")


def command():
    """The command line without paths of this machine."""
    words = [os.path.basename(w) if w.startswith("/") else w for w in sys.argv[1:]]
    program = "bench/" + os.path.basename(sys.argv[0])
    return " ".join([program] + [shlex.quote(w) for w in words])


# ---- Text ---------------------------------------------------------------------------------------

def number(x):
    return "%.0f" % x if x >= 1000 else "%.3g" % x if x < 100 else "%.1f" % x


def align(cells, left):
    """Aligns cells in columns: columns in `left` to the left, the others to the right."""
    width = [max(len(c[i]) for c in cells) for i in range(len(cells[0]))]
    return "\n".join("  ".join(c.ljust(w) if i in left else c.rjust(w)
                               for i, (c, w) in enumerate(zip(line, width))).rstrip()
                     for line in cells) + "\n"


def table(rows):
    cells = [["figure", "against", "unit", "ours", "theirs", "least", "median", "most", "aim", ""]]
    for r in rows:
        least, median, most = measure.spread(r.ratios)
        reached = r.reached()
        cells.append([r.name, r.other, r.unit, number(measure.spread(r.a)[1]),
                      number(measure.spread(r.b)[1]), "%.3f" % least, "%.3f" % median,
                      "%.3f" % most,
                      "" if r.aim is None else "%s %g" % ("<=" if r.at_most else ">=", r.aim),
                      "" if r.aim is None else "reached" if reached else "MISSED"])
    return align(cells, (0, 1, 2, 9)) if rows else ""


def notes(rows, skipped):
    text = ""
    for r in rows:
        if r.note:
            text += "%s, %s: %s\n" % (r.name, r.other, r.note)
    for name, why in skipped:
        text += "%s: skipped: %s\n" % (name, why)
    return text


def every_value(rows):
    text = ""
    for r in rows:
        for side, values in (("ours", r.a), ("theirs", r.b)):
            text += "%s | %s | %s %s: %s\n" % (r.name, r.other, side, r.unit,
                                              " ".join("%.6g" % v for v in values))
    return text


def keep(folder, head, text):
    os.makedirs(folder, exist_ok=True)
    name = "%s-%s.txt" % (time.strftime("%Y%m%d-%H%M%S"), head["commit"])
    path = os.path.join(folder, name)
    with open(path, "x") as f:
        f.write(text)
    return path


# ---- The run ------------------------------------------------------------------------------------

def measure_all(o, bench, figures):
    """Returns (rows, sheets, skipped, failed)."""
    rows, sheets, skipped, failed = [], [], [], False
    for name in o.figure:
        try:
            made = figures[name](bench)
            rows += [m for m in made if isinstance(m, common.Row)]
            sheets += [m for m in made if isinstance(m, common.Sheet)]
        except common.Skipped as e:
            skipped.append((name, e))
        except measure.Failed as e:
            print("bench: %s: %s" % (name, e), file=sys.stderr)
            skipped.append((name, "FAILED: %s" % e))
            failed = True
    return rows, sheets, skipped, failed


def make(o, figures):
    """Measures the requested figures; returns the exit status."""
    head = {"date": time.strftime("%Y-%m-%d %H:%M:%S %z"), "commit": commit(),
            "command": command()}
    head.update(measure.machine())
    before = measure.load_average()
    if before > measure.QUIET_LOAD:
        print("bench: WARNING: the machine is not quiet (load average %.2f): these figures will "
              "mean little" % before, file=sys.stderr)

    def say(text):
        print("  " + text, file=sys.stderr, flush=True)

    began = measure.Foreign()
    with tempfile.TemporaryDirectory(prefix="singa-bench-") as temporary:
        bench = common.Bench(o, ROOT, temporary, say)
        rows, sheets, skipped, failed = measure_all(o, bench, figures)
    share = began.share()
    head["threads"] = str(bench.threads)
    head["repeats"] = str(o.repeats)
    head["load"] = "%.2f before, %.2f after (ours included); others took %.1f %% of the CPU" % (
        before, measure.load_average(), 100 * share)
    if share > measure.QUIET_SHARE:
        head["warning"] = "the machine was not quiet"
        print("bench: WARNING: %s" % head["warning"], file=sys.stderr)
    parts = ["".join("%-8s %s\n" % (k, v) for k, v in head.items()), table(rows)]
    parts += [s.text for s in sheets]
    parts += [notes(rows, skipped), every_value(rows)] + [s.values for s in sheets]
    text = "\n".join(p for p in parts if p)
    print(text, end="")
    if o.trial:
        print("\nA trial: the figures mean nothing and are not kept.")
    elif rows or sheets:
        print("\nkept in %s" % os.path.relpath(keep(o.results, head, text), os.getcwd()))
    return 1 if failed else 0


def main(options, figures):
    """options: the function that reads the command line."""
    try:
        sys.exit(make(options(), figures))
    except measure.Failed as e:
        sys.exit("bench: %s" % e)
    except KeyboardInterrupt:
        sys.exit(130)
