#!/bin/sh
# ctest-labels: source
# ctest-timeout: 60
# Files of a room call each other in one direction: a circle of files, found in the symbols of the
# built objects, has at most five.
set -eu
[ "$(uname -m)" = x86_64 ] || { echo "skipped: it reads the relocations of x86-64" && exit 77; }
exec python3 - "${SW_BINARY_DIR:?the build to look at}" <<'END'
import collections, pathlib, subprocess, sys

MOST = 5


def circles(edges):
    """Strongly connected components of more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in edges.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


def calls(build):
    """Source file -> source files with functions that it calls. What is only named, in a table that
    others go by, is no call."""
    defined, wanted = {}, collections.defaultdict(set)
    objects = [str(p) for target in ("singa", "singa_ui", "singa-ws", "singa_cuda", "singa_nccl")
               for p in pathlib.Path(build, "CMakeFiles", target + ".dir").rglob("*.c.o")]
    for line in read("nm", "-A", "-g", "--defined-only", *objects):
        path, rest = line.rsplit(":", 1)
        if rest.split()[-2] == "T":
            defined[rest.split()[-1]] = source_of(path)
    for line in read("readelf", "-rW", *objects):
        if line.startswith("File: "):
            source = source_of(line[6:])
        elif "R_X86_64_PLT32" in line:
            wanted[source].add(line.split()[4])
    return {s: {defined[n] for n in names if n in defined} - {s} for s, names in wanted.items()}


def source_of(object_file):
    return object_file.split(".dir/", 1)[1][:-2]


def read(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


planted = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "c"}}
assert circles(planted) == [["b", "c"]], "the checker does not find the circle that is planted"

edges = calls(sys.argv[1])
assert len(edges) > 300, "too few objects: is the build complete?"
large = [c for c in circles(edges) if len(c) > MOST]
for circle in large:
    print(f"{len(circle)} files call each other in a circle, and {MOST} may:", *circle)
sys.exit(bool(large))
END
