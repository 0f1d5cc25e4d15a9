# ctest-timeout: 90
# weights: list, verify, diff and export.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/a" --name a --steps 6 --set job.checkpoint_every=2 --quiet
expect 0 run "$tiny" --out "$T/b" --name b --steps 6 --set job.seed=2 --quiet
a=$T/a/checkpoint-6.safetensors
b=$T/b/checkpoint-6.safetensors

expect 0 weights "$a"
has out '^checksum +[0-9a-f]{32}$'
has out '^step +6$'
has out '^tensor +type +shape +bytes +min +max +mean +norm$'
has out '^conv1\.weight +F32 +8x3x3x3 +864 B'
has out '^updater\.fc2\.bias\.momentum +F32 +4 '
expect 0 weights a list --json
[ "$(wc -l <"$T/out")" = 1 ] || fail 'not one line'
expect 0 weights a:2
has out '^step +2$'

if have_python; then
    expect 0 weights "$a" --json
    python3 - "$a" "$T/out" <<'END' || fail 'list --json does not say what the file holds'
import json, math, struct, sys
raw = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", raw[:8])
head = json.loads(raw[8:8 + n])
d = json.load(open(sys.argv[2]))
assert d["metadata"]["step"] == "6" and "[job]" in d["metadata"]["recipe"]
named = {t["name"]: t for t in d["tensors"]}
assert set(named) | {"sw.checksum", "__metadata__"} == set(head)
for name, t in named.items():
    a, b = head[name]["data_offsets"]
    v = struct.unpack("<%df" % ((b - a) // 4), raw[8 + n + a:8 + n + b])
    assert t["shape"] == head[name]["shape"] and t["bytes"] == b - a
    for key, want in (("min", min(v)), ("max", max(v)), ("mean", sum(v) / len(v)),
                      ("norm", math.sqrt(sum(x * x for x in v)))):
        assert abs(t[key] - want) <= 1e-9 * max(1, abs(want)), (name, key, t[key], want)
END
fi

# verify: a file, all checkpoints of a run; damage is detected.
expect 0 weights "$a" verify
has out "^$a: intact, checksum [0-9a-f]{32}$"
expect 0 weights a verify
[ "$(wc -l <"$T/out")" = 4 ] || fail 'not all checkpoints of the run'
cp "$a" "$T/bad.safetensors"
printf 'X' | dd of="$T/bad.safetensors" bs=1 seek=9000 conv=notrunc 2>/dev/null
expect 3 weights "$T/bad.safetensors" verify
has err 'bad\.safetensors.*(checksum mismatch|damaged)'
expect 3 weights "$T/bad.safetensors" verify --json
has out '"whole":false'
expect 3 weights "$T/bad.safetensors"
cp "$T/a/checkpoint-4.safetensors" "$T/keep"
cp "$T/bad.safetensors" "$T/a/checkpoint-4.safetensors"
expect 3 weights a verify
[ "$(wc -l <"$T/out")" = 3 ] || fail 'the whole ones are not told'
cp "$T/keep" "$T/a/checkpoint-4.safetensors"
expect 3 weights "$T/none.safetensors" verify

# diff: exit 0 if equal, 1 if not, like diff(1).
expect 0 weights "$a" diff a
has out '^0 of [0-9]+ tensors differ'
expect 1 weights "$a" diff "$b"
has out '^fc1\.weight +32x128 +[0-9.e-]+ +[0-9.e-]+ +[0-9]+ of 4096 +differs$'
expect 1 weights a diff b --json
has out '"equal":false'
expect 0 weights a diff b --tolerance 1e9
expect 1 weights a:4 diff a:6 --tolerance 1e-9
expect 2 weights a diff b --tolerance nan
sed 's/^outputs = 32/outputs = 16/; s/fc2/last/' "$tiny" >"$T/other.ini"
expect 0 run "$T/other.ini" --out "$T/c" --name c --steps 1 --quiet
expect 1 weights a diff c
has out '^fc1\.weight +32x128 +shape$'
has out '^fc2\.weight +4x32 +only in the first$'
has out '^last\.weight +4x16 +only in the second$'
expect 3 weights a diff nobody

# export: files for other programs, which eval also accepts.
expect 0 weights a export --output "$T/plain.safetensors"
expect 0 eval "$tiny" --weights "$T/plain.safetensors" --json
sed 's/"weights.*//' "$T/out" >"$T/expected"
expect 0 eval "$tiny" --weights a --json
sed 's/"weights.*//' "$T/out" | cmp -s - "$T/expected" || fail 'the exported file has other values'
expect 0 weights "$T/plain.safetensors" --quiet
hasnt out '^updater\.'
expect 1 weights a diff "$T/plain.safetensors"
has out '^updater\.fc1\.weight\.momentum .*only in the first'
expect 0 weights a export --all --output "$T/all.safetensors"
expect 0 weights a diff "$T/all.safetensors"
expect 0 weights a export --output "$T/arrays"
[ "$(ls "$T/arrays" | tr '\n' ' ')" = \
    'conv1.bias.npy conv1.weight.npy fc1.bias.npy fc1.weight.npy fc2.bias.npy fc2.weight.npy ' ] ||
    fail "arrays: $(ls "$T/arrays")"
if have_python; then
    python3 - "$T/arrays/fc2.weight.npy" "$a" <<'END' || fail 'the array is not the tensor'
import ast, json, struct, sys
raw = open(sys.argv[1], "rb").read()
assert raw[:6] == b"\x93NUMPY"
n, = struct.unpack("<H", raw[8:10])
head = ast.literal_eval(raw[10:10 + n].decode())
assert head == {"descr": "<f4", "fortran_order": False, "shape": (4, 32)}, head
st = open(sys.argv[2], "rb").read()
m, = struct.unpack("<Q", st[:8])
a, b = json.loads(st[8:8 + m])["fc2.weight"]["data_offsets"]
assert raw[10 + n:] == st[8 + m + a:8 + m + b]
END
    # A name that would lead out of the folder is refused.
    python3 - "$T/evil.safetensors" <<'END'
import json, struct, sys
head = json.dumps({"../evil": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + b"\0\0\0\0")
END
    expect 3 weights "$T/evil.safetensors" export --output "$T/arrays"
    has err 'cannot be a file name'
    [ -e "$T/evil.npy" ] && fail 'a file outside of the folder'
    expect 3 weights "$T/evil.safetensors" verify
    has err 'sw\.checksum is missing'
fi

expect 2 weights
expect 2 weights a lst
has err "did you mean 'list'"
expect 2 weights a diff
expect 2 weights a export
expect 2 weights a list --output x
expect 2 weights a list b
expect 2 weights best
has err 'use RUN:best'
exit 0
