"""Draws curves as text: a letter for each, on a grid with axes. Later curves are drawn over earlier
ones. With --out DIR also as pictures, PNG and SVG, by the program's own plots (bench/chart.c).
"""
import os
import subprocess

import measure

WIDTH, HEIGHT = 64, 16


def scaled(value, least, most, cells):
    if most <= least:
        return 0
    return min(cells - 1, max(0, int((value - least) / (most - least) * (cells - 1) + 0.5)))


def between(points, x):
    """The value of the curve at x by linear interpolation; None outside of it."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1
    return None


def curves(named, x_name, y_name, y_from=None):
    """named: (name, [(x, y), ...]) for each curve, by ascending x. The y axis begins at y_from if
    not None.
    """
    points = [p for _, ps in named for p in ps]
    if not points:
        return ""
    x0, x1 = min(p[0] for p in points), max(p[0] for p in points)
    y0 = min(p[1] for p in points) if y_from is None else y_from
    y1 = max(p[1] for p in points)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for i, (_, ps) in enumerate(named):
        letter = chr(ord("a") + i % 26)
        for column in range(WIDTH):
            y = between(ps, x0 + (x1 - x0) * column / (WIDTH - 1))
            if y is not None and y >= y0:
                grid[HEIGHT - 1 - scaled(y, y0, y1, HEIGHT)][column] = letter
        for x, y in ps:
            if y >= y0:
                row = HEIGHT - 1 - scaled(y, y0, y1, HEIGHT)
                grid[row][scaled(x, x0, x1, WIDTH)] = letter.upper()
    lines = []
    for r, cells in enumerate(grid):
        y = y0 + (y1 - y0) * (HEIGHT - 1 - r) / (HEIGHT - 1)
        mark = "%8.4g" % y if r % 5 == 0 else ""
        lines.append(("%8s |%s" % (mark, "".join(cells))).rstrip())
    lines.append("%8s +%s" % ("", "-" * WIDTH))
    ends = "%.4g" % x0, "%.4g" % x1
    lines.append("%8s  %s%s%s" % ("", ends[0], x_name.center(WIDTH - len(ends[0]) - len(ends[1])),
                                  ends[1]))
    lines.append("%8s  %s; capitals are what was measured:" % ("", y_name))
    lines += ["%8s  %s  %s" % ("", chr(ord("a") + i % 26), name) for i, (name, _) in
              enumerate(named)]
    return "\n".join(lines) + "\n"


# ---- Pictures -----------------------------------------------------------------------------------

def described(title, named, x_name, y_name, published, log):
    """The input of bench/chart.c."""
    lines = ["title " + title, "x " + x_name, "y " + y_name] + ["log"] * log
    for word, curves_of in (("curve", named), ("dashed", published)):
        for name, points in curves_of:
            lines.append("%s %s" % (word, name))
            lines += ["%.9g %.9g" % (x, y) for x, y in points]
    return "\n".join(lines) + "\n"


def picture(bench, key, title, named, x_name, y_name, published=(), log=False):
    """With --out DIR: draws the curves to DIR/KEY.png and .svg, published ones dashed."""
    folder = getattr(bench.options, "out", None)
    if not folder or not any(points for _, points in named):
        return
    program = os.path.join(os.path.dirname(os.path.abspath(bench.options.binary)), "tests", "chart")
    os.makedirs(folder, exist_ok=True)
    files = [os.path.join(folder, key + end) for end in (".png", ".svg")]
    try:
        ended = subprocess.run([program] + files, input=described(title, named, x_name, y_name, published, log),
                               capture_output=True, text=True)
    except OSError as e:
        raise measure.Failed("--out needs %s: build the target `chart`: %s" % (program, e)) from e
    if ended.returncode != 0:
        raise measure.Failed(ended.stderr.strip())
    bench.say("drawn: %s" % files[0])


def drawn(bench, key, title, named, x_name, y_name, y_from=None, published=()):
    """The curves as text, and as pictures."""
    picture(bench, key, title, named, x_name, y_name, published)
    return curves(named, x_name, y_name, y_from)
