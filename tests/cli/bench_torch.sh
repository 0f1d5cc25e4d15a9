# ctest-timeout: 600
# Before it times PyTorch, bench/run verifies that both sides compute the same gradients, and detects a
# recipe that differs.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'
torch=${SW_TORCH:-/usr/bin/python3}
"$torch" -c 'import torch' 2>"$T/err" || skip "$torch has no PyTorch"

cat >"$T/same.py" <<'EOF'
import sys, types
sys.dont_write_bytecode = True
bench, binary, folder, python = sys.argv[1:]
sys.path.insert(0, bench + "/bench")
import common, measure, torch_peer

options = types.SimpleNamespace(db=None, threads=1, binary=binary, trial=True)
b = common.Bench(options, bench, folder, print)
torch = torch_peer.Torch(b, python)
for name, changes in (("quick", []), ("lenet", []), ("lenet", ["updater.weight_decay=0.0003"]),
                      ("lenet", ["layer.pool2.method=avg"])):
    both = torch_peer.SameNet(b, torch, name, b.net(name), ("default", "as it comes", False), changes)
    try:
        print(name, *changes, "same:", both.gradients())
    except measure.Failed as e:
        print(name, *changes, "other:", e)
    both.close()
EOF
mkdir "$T/bench"
python3 "$T/same.py" "$SW_SOURCE_DIR" "$SW" "$T/bench" "$torch" >"$T/out" 2>"$T/err" ||
    fail 'nets are not compared'
has out '^quick same: gradients against double precision: ours within [0-9.e-]+ \('
has out '^lenet same: gradients against double precision: ours within [0-9.e-]+ \('
has out '^lenet updater.weight_decay=0.0003 other: not the same net: the gradient of [a-z0-9]+.weight '
has out '^lenet layer.pool2.method=avg other: not the same net: the gradient of [a-z0-9.]+ '
