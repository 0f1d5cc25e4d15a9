# ctest-timeout: 90
# predict: rows in order, each once, for any batch size; arrays in place of data; only the layers that
# the output depends on.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/a" --name a --steps 4 --quiet
expect 0 predict "$tiny" --output "$T/y.npy"
has out '^weights +newest of this recipe, run 1 "a": .*checkpoint-4'
has out '^layer +fc2 \(inner_product\), the input of the loss$'
has out '^split +test$'
has out "^output +$T/y\.npy: 50x4$"
expect 0 predict "$tiny" --weights a --layer pool1 --output "$T/pool.npy" --json
has out '"layer":"pool1","type":"pooling","rows":50,"shape":\[50,8,4,4\],"split":"test"'
has out '"step":4,'

# 50 rows in batches of 32, 7 and 50 give the same array, also from arrays and on a simulated GPU.
expect 0 predict "$tiny" --set job.eval_batch=7 --weights "$T/a/checkpoint-4.safetensors" \
    --output "$T/seven.npy" --quiet
[ -s "$T/out" ] && fail '--quiet says something'
expect 0 predict "$tiny" --weights a --layer image --output "$T/image.npy"
has out '50x3x10x10$'
expect 0 predict "$tiny" --weights a --input "$T/image.npy" --output "$T/by_array.npy"
hasnt out '^split'
expect 0 predict "$tiny" --weights a --input image="$T/image.npy" --output "$T/sim.npy" --device sim
expect 0 predict "$tiny" --weights a --layer label --output "$T/label.npy"
expect 0 predict "$tiny" --weights a --layer loss --output "$T/loss.npy" \
    --input image="$T/image.npy" --input label="$T/label.npy"
expect 0 predict "$tiny" --weights a --split train --layer label --output "$T/train.npy"
has out '200$'
have_python && {
    python3 - "$T" <<'END' || fail 'arrays differ'
import ast, math, struct, sys
def read(name):
    raw = open(sys.argv[1] + "/" + name + ".npy", "rb").read()
    n, = struct.unpack("<H", raw[8:10])
    shape = ast.literal_eval(raw[10:10 + n].decode())["shape"]
    return shape, struct.unpack("<%df" % math.prod(shape), raw[10 + n:])
def near(a, b):
    return a[0] == b[0] and all(abs(x - y) <= 1e-5 * max(1, abs(y)) for x, y in zip(a[1], b[1]))
y = read("y")
assert y[0] == (50, 4) and near(y, read("seven")) and near(y, read("by_array")) and near(y, read("sim"))
assert len(set(y[1][::4])) > 40 # rows differ from one another
# The probabilities are the softmax of the scores.
p = read("loss")[1]
for i in range(50):
    e = [math.exp(v) for v in y[1][4 * i:4 * i + 4]]
    assert all(abs(p[4 * i + k] - e[k] / sum(e)) < 1e-5 for k in range(4))
# Synthetic labels are 0 to 3.
assert read("label")[0] == (50,) and set(read("label")[1]) == {0.0, 1.0, 2.0, 3.0}
END
}

# The metrics of eval follow from the scores.
if have_python; then
    expect 0 eval "$tiny" --weights a --json
    python3 - "$T" "$(sed 's/.*"accuracy":\([^,}]*\).*/\1/' "$T/out")" <<'END' || fail 'another accuracy'
import struct, sys
def floats(name, n):
    return struct.unpack("<%df" % n, open(sys.argv[1] + "/" + name, "rb").read()[-4 * n:])
y, label = floats("y.npy", 200), floats("label.npy", 50)
right = sum(max(range(4), key=lambda k: y[4 * i + k]) == label[i] for i in range(50))
assert abs(right / 50 - float(sys.argv[2])) < 1e-6
END
fi

# With arrays and without a loss, neither the data nor the labels are needed.
sed 's/^format = synthetic/format = idx\npaths = \/none\/images\nlabels = \/none\/labels/; /^classes/d; /^records/d; /^channels/d; /^height/d; /^width/d' \
    "$tiny" >"$T/nodata.ini"
expect 0 predict "$T/nodata.ini" --weights "$T/a/checkpoint-4.safetensors" --input "$T/image.npy" \
    --output "$T/again.npy"
cmp -s "$T/again.npy" "$T/by_array.npy" || fail 'the data mattered'
expect 3 predict "$T/nodata.ini" --weights "$T/a/checkpoint-4.safetensors" --output "$T/no.npy"
has err '/none/images'

# Errors are reported, and no file is created.
no() {
    code=$1 pattern=$2
    shift 2
    expect "$code" predict "$@"
    has err "$pattern"
    [ -e "$T/no.npy" ] && fail "$*: a file appeared"
    return 0
}
if have_python; then
    python3 - "$T" <<'END' || fail 'no integer pixels'
import sys
head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 10, 10), }"
head += b" " * (-(len(head) + 11) % 64) + b"\n"
with open(sys.argv[1] + "/pixels.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(600))
END
    # Pixels are transformed like the data: here (0 - 127) / 64.
    expect 0 predict "$tiny" --weights a --layer image --input "$T/pixels.npy" --output "$T/raw.npy"
    python3 - "$T" <<'END' || fail 'pixels are not transformed'
import struct, sys
x = struct.unpack("<600f", open(sys.argv[1] + "/raw.npy", "rb").read()[-2400:])
assert all(abs(v + 127 / 64) < 1e-6 for v in x)
END
fi
no 2 "no such layer; did you mean 'fc1'" "$tiny" --layer fc3 --weights a --output "$T/no.npy"
no 2 'a layer of type accuracy has no output' "$tiny" --layer accuracy --output "$T/no.npy"
no 2 'no \[data nowhere\]' "$tiny" --split nowhere --output "$T/no.npy"
no 2 'mutually exclusive' "$tiny" --split test --input x.npy --output "$T/no.npy"
no 2 'without files --output or --plot is missing' "$tiny"
no 2 'files and --split are mutually exclusive' "$tiny" x.npy --split test
no 2 '\-\-top is for files' "$tiny" --top 3 --output "$T/no.npy"
no 2 'needs several fields \(image, label\)' "$tiny" --layer loss --input "$T/image.npy" --output "$T/no.npy"
no 2 'also needs the field label' "$tiny" --layer loss --input image="$T/image.npy" --output "$T/no.npy"
no 2 'nothing that leads to layer fc2 reads this field' "$tiny" --input image="$T/image.npy" \
    --input label="$T/label.npy" --output "$T/no.npy"
no 2 'given twice' "$tiny" --input image="$T/image.npy" --input image="$T/image.npy" --output "$T/no.npy"
no 3 'none\.npy' "$tiny" --input "$T/none.npy" --output "$T/no.npy"
    --output "$T/no.npy" 2>/dev/null || true
no 2 'conv1.weight is F32' "$tiny" --input "$T/pool.npy" --output "$T/no.npy"
no 3 'none\.safetensors: no such file' "$tiny" --weights none.safetensors --output "$T/no.npy"
expect 0 weights a export --output "$T/arrays"
no 3 'cannot' "$tiny" --weights a --output "$T/no/such/folder/no.npy"
sed 's/fc2/last/' "$tiny" >"$T/other.ini"
no 3 'has no tensor last\.weight' "$T/other.ini" --weights a --output "$T/no.npy"
exit 0
