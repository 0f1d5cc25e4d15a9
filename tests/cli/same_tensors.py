"""Says whether two checkpoints hold the same bits: parameters (layer.param), updater state and other
state. Standard library only."""
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


first, second = tensors(sys.argv[1]), tensors(sys.argv[2])
differing = sorted(set(first) ^ set(second)) or [n for n in first if first[n] != second[n]]
if differing or not first:
    print("different:", ", ".join(differing) or "no tensors at all")
    sys.exit(1)
