#!/usr/bin/env python3
"""Writes small images of shapes, one folder per class, to try image recipes without images of one's own.

    shapes.py FOLDER [CLASSES [COUNT]]

makes FOLDER/CLASS/0.png ... for the first CLASSES (3) of the shapes below, COUNT (60) images each, of
40 x 40 pixels. Needs no module; the same arguments always make the same images."""
import pathlib, random, struct, sys, zlib

SIDE = 40
# Whether a point is inside; x and y go from -1 to 1 over the shape's box.
SHAPES = {
    "circle": lambda x, y: x * x + y * y < 1,
    "square": lambda x, y: True,
    "triangle": lambda x, y: 2 * abs(x) < 1 + y,
    "cross": lambda x, y: min(abs(x), abs(y)) < 0.3,
    "diamond": lambda x, y: abs(x) + abs(y) < 1,
    "frame": lambda x, y: max(abs(x), abs(y)) > 0.6,
    "ring": lambda x, y: 0.4 < x * x + y * y < 1,
    "saltire": lambda x, y: min(abs(x - y), abs(x + y)) < 0.4,
    "horizontal": lambda x, y: (y + 1) % 0.7 < 0.35,
    "vertical": lambda x, y: (x + 1) % 0.7 < 0.35,
}


def pixels(inside, rng):
    """Rows of RGB bytes: the shape with random size, place and color on a darker background."""
    half = rng.uniform(9, 15)
    cx, cy = (rng.uniform(half, SIDE - half) for _ in "xy")
    front = [rng.randrange(130, 230) for _ in "rgb"]
    back = [rng.randrange(20, 90) for _ in "rgb"]

    for row in range(SIDE):
        line = bytearray()
        for column in range(SIDE):
            x, y = (column - cx) / half, (row - cy) / half
            color = front if max(abs(x), abs(y)) < 1 and inside(x, y) else back
            noise = rng.randrange(20)
            line += bytes(value + noise for value in color)
        yield bytes(line)


def write_png(path, rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def main(folder, classes=3, count=60):
    for name in list(SHAPES)[:int(classes)]:
        rng = random.Random(name)
        (pathlib.Path(folder) / name).mkdir(parents=True, exist_ok=True)
        for i in range(int(count)):
            write_png(pathlib.Path(folder) / name / f"{i}.png", pixels(SHAPES[name], rng))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
