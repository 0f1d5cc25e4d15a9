"""Says whether two checkpoints hold the same bits: parameters (layer.param), updater state and other
state. With a third argument numbers may differ by that much. Standard library only."""
import array
import json
import sys


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        if name != "sw.checksum":  # over the metadata too, which may name the run
            begin, end = entry["data_offsets"]
            found[name] = (entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return found


def same(a, b, most):
    if a[:2] != b[:2] or most == 0 or a[0] != "F32":
        return a == b
    x, y = array.array("f", a[2]), array.array("f", b[2])
    return all(abs(i - j) <= most for i, j in zip(x, y))


most = float(sys.argv[3]) if len(sys.argv) > 3 else 0
first, second = tensors(sys.argv[1]), tensors(sys.argv[2])
differing = sorted(set(first) ^ set(second)) or [n for n in first if not same(first[n], second[n], most)]
if differing or not first:
    print("different:", ", ".join(differing) or "no tensors at all")
    sys.exit(1)
