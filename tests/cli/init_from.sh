# ctest-timeout: 90
# Starting from files: by equal names, by rules, transposed; the run reports what it took, and what does
# not fit is an error of the recipe.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/a" --name a --steps 3 --quiet
expect 0 run "$tiny" --out "$T/b" --name b --steps 3 --quiet --set job.seed=5
a=$T/a/checkpoint-3.safetensors
b=$T/b/checkpoint-3.safetensors

# The same convolution under another name, and a decoder with the transposed shape of fc2.
sed 's/conv1/first/; s/^src = fc2, label/src = fc3, label/' "$tiny" >"$T/other.ini"
cat >>"$T/other.ini" <<'END'
[layer back]
type = inner_product
src = fc2
outputs = 32
[layer fc3]
type = inner_product
src = back
outputs = 4
END
# begin NAME LIST: the first values of a run with that init_from.
begin() {
    expect 0 run "$T/other.ini" --out "$T/$1" --name "$1" --steps 1 --set "job.init_from=$2"
}
begin renamed "$a, conv1.* -> first.*, fc2.weight^T -> back.weight, $b, fc1.weight -> fc1.weight"
has out '3 of 10 parameters start from .*a/checkpoint-3\.safetensors: first\.weight from conv1\.weight, first\.bias from conv1\.bias, back\.weight from fc2\.weight\^T; unused tensors: fc1\.weight, '
has out '1 of 10 parameters start from .*b/checkpoint-3.*: fc1\.weight from fc1\.weight'
has out 'with the initial values of the recipe: fc1\.bias, fc2\.weight, fc2\.bias, back\.bias, fc3\.'
begin plain "$b"
has out '4 of 10 parameters start from .*b/checkpoint-3\.safetensors; unused tensors: conv1'
begin later "$b, $a, fc2.weight -> fc2.weight"
has out '1 of 10 parameters start from .*a/checkpoint-3'

# Shards of a partitioned parameter get their part of the tensor.
expect 0 run "$T/other.ini" --out "$T/split" --name split --steps 1 --oversubscribe --quiet \
    --set "job.init_from=$a, conv1.* -> first.*, fc2.weight^T -> back.weight, $b, fc1.weight -> fc1.weight" \
    --set cluster.workers_per_group=2 --set layer.back.partition=1 --set layer.fc1.partition=1
have_python && same_tensors "$T/renamed/checkpoint-0.safetensors" "$T/split/checkpoint-0.safetensors"

# An array is a tensor with the name of its file, as `weights export` writes it.
expect 0 weights "$a" export --output "$T/arrays"
cp "$T/arrays/conv1.weight.npy" "$T/kernels.npy"
begin array "$T/arrays/fc1.weight.npy, $T/kernels.npy, kernels -> first.weight"
has out '1 of 10 parameters start from .*arrays/fc1\.weight\.npy"?$'
has out '1 of 10 parameters start from .*kernels\.npy: first\.weight from kernels'
expect 0 run "$T/other.ini" --out "$T/array2" --name array2 --steps 1 --quiet \
    --set "job.init_from=$a, fc1.weight -> fc1.weight, conv1.weight -> first.weight"
have_python && same_tensors "$T/array/checkpoint-0.safetensors" "$T/array2/checkpoint-0.safetensors"

# --init-from replaces the list; a resume no longer needs the files.
expect 0 run "$T/other.ini" --out "$T/option" --name option --steps 1 --init-from "$b" \
    --set job.init_from=nowhere.safetensors
has out '4 of 10 parameters start from .*b/checkpoint-3'
cp "$b" "$T/copy.safetensors"
expect 0 run "$T/other.ini" --out "$T/go" --name go --steps 1 --quiet \
    --set "job.init_from=$T/copy.safetensors"
rm "$T/copy.safetensors"
expect 0 resume go --steps 3 --quiet
expect 0 eval "$T/other.ini" --weights go --set "job.init_from=$T/copy.safetensors" --json

# The recipe names files, the option also runs.
sed 's/^name = tiny/&\ninit_from = b:best/' "$T/other.ini" >"$T/of_run.ini"
expect 3 run "$T/of_run.ini" --steps 1
has err 'init_from: no file .*b:best; if b:best is a run, leave init_from out of the recipe and use --init-from b:best$'

if have_python; then
    python3 - "$T" "$a" "$b" <<'END' || fail 'other values than those of the files'
import json, struct, sys
def tensors(path):
    raw = open(path, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = (t["shape"], raw[8 + n + a:8 + n + b])
    return out
T, a, b = sys.argv[1:]
a, b = tensors(a), tensors(b)
r = tensors(T + "/renamed/checkpoint-0.safetensors")
assert r["first.weight"] == a["conv1.weight"] and r["first.bias"] == a["conv1.bias"]
assert r["fc1.weight"] == b["fc1.weight"] and r["fc1.bias"] != b["fc1.bias"]
(rows, columns), raw = a["fc2.weight"]
w = struct.unpack("<%df" % (rows * columns), raw)
turned = struct.pack("<%df" % len(w), *[w[i * columns + j] for j in range(columns) for i in range(rows)])
assert r["back.weight"] == ([columns, rows], turned)
p = tensors(T + "/plain/checkpoint-0.safetensors")
assert all(p[n] == b[n] for n in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"))
l = tensors(T + "/later/checkpoint-0.safetensors")
assert l["fc2.weight"] == a["fc2.weight"] and l["fc2.bias"] == b["fc2.bias"]
END
fi

# wrong PATTERN LIST: an error at the item, and nothing is created.
wrong() {
    rm -rf "$T/wrong"
    expect 2 run "$T/other.ini" --out "$T/wrong" --set "job.init_from=$2"
    has err "$1"
    [ -e "$T/wrong" ] && fail 'the folder was made'
    return 0
}
wrong 'fc1\.weight is F32 32x[0-9]+ in the file, but fc2\.weight is F32 4x32 in this net' \
    "$a, fc1.weight -> fc2.weight"
wrong 'fc2\.weight is F32 4x32 in the file, to be transposed, but F32 4x32 in this net' \
    "$a, fc2.weight^T -> fc2.weight"
wrong "has no tensor 'fc1\.wieght'" "$a, fc1.wieght -> fc1.weight"
has err "did you mean 'fc1\.weight'"
wrong "the net has no parameter 'fc9\.weight'" "$a, fc1.weight -> fc9.weight"
wrong 'a rule must follow the file' "fc1.weight -> fc1.weight, $a"
wrong 'a \* must appear once on each side' "$a, fc1.* -> fc1.weight"
wrong 'a rule is TENSOR -> PARAMETER' "$a, -> fc1.weight"
wrong "has no tensor 'conv9\.weight', nor any other that the parameters of 'first\.\*'" \
    "$a, conv9.* -> first.*"
wrong "no parameter that matches 'conv9\.\*'" "$a, conv1.* -> conv9.*"
expect 3 run "$T/other.ini" --out "$T/wrong" --set job.init_from=none.safetensors
has err 'none\.safetensors'

# Every verb treats non-finite weights as damaged.
if have_python; then
    expect 0 run "$tiny" --out "$T/sound" --name sound --steps 1 --quiet
    python3 - "$T/sound/checkpoint-1.safetensors" "$T/nan.safetensors" <<'END' || fail 'no file of NaN'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", raw[:8])
head, data = json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])
head.pop("__metadata__")
at = head["fc2.weight"]["data_offsets"][0]
data[at:at + 4] = struct.pack("<f", float("nan"))
end = head.pop("sw.checksum")["data_offsets"][0]
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + bytes(data[:end]))
END
    for verb in 'run --steps 1 --init-from' 'eval --weights' "predict --output $T/no.npy --weights"; do
        expect 3 ${verb%% *} "$tiny" ${verb#* } "$T/nan.safetensors"
        has err 'nan\.safetensors: fc2\.weight holds values that are not finite'
    done
fi
exit 0
