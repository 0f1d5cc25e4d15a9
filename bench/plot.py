"""Draws curves as text: a letter for each, on a grid with axes. Later curves are drawn over earlier
ones.
"""

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
        y = y1 - (y1 - y0) * r / (HEIGHT - 1)
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
