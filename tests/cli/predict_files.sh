# predict RUN FILE...: images, folders, arrays and tables go through the transforms of training, also when
# the training data is gone.
. "$(dirname "$0")/lib.sh"
have_python || skip 'no python3'

# Pictures of two classes, dark and bright, 12x12; a table of two classes and of a regression.
cat >"$T/make.py" <<'END'
import os, random, struct, sys, zlib
t = sys.argv[1]
random.seed(1)
def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
def png(path, level, side=12):
    rows = b"".join(b"\0" + bytes(min(255, level + random.randrange(30)) for _ in range(3 * side)) for _ in range(side))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
for split in "train", "test":
    for i in range(20):
        png(f"{t}/{split}/night/{i}.png", 20)
        png(f"{t}/{split}/day/{i}.png", 190)
png(t + "/new/a.png", 20); png(t + "/new/deep/B.PNG", 190); png(t + "/large.png", 190, 40)
open(t + "/new/notes.txt", "w").write("no picture")
def npy(path, descr, shape, body):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (descr, shape)).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    open(path, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + body)
npy(t + "/pixels.npy", "|u1", (2, 3, 12, 12), bytes([30] * 432 + [200] * 432))
values = [(30 - 100) / 60] * 432 + [(200 - 100) / 60] * 432
npy(t + "/floats.npy", "<f4", (2, 3, 12, 12), struct.pack("<864f", *values))
npy(t + "/flat.npy", "<f4", (2, 432), struct.pack("<864f", *values))
npy(t + "/other.npy", "<f4", (2, 5), struct.pack("<10f", *range(10)))
with open(t + "/table.csv", "w") as f:
    f.write("id,size,weight,kind,price\n")
    for i in range(80):
        a, b = random.random(), random.random()
        f.write(f"{i},{a},{b},{'apple' if a > b else 'plum'},{a - b}\n")
open(t + "/named.csv", "w").write("weight,note,size\n0.1,x,0.9\n0.8,y,0.2\n")
open(t + "/plain.csv", "w").write("0.9,0.1\n0.2,0.8\n")
END
python3 "$T/make.py" "$T" || fail 'no data'

# net OUTPUTS LOSS FIELD: the rest of a recipe, a linear net.
net() {
    cat <<END
[updater]
lr = 0.5
[layer image]
type = input
field = image
[layer truth]
type = input
field = $3
[layer fc]
type = inner_product
src = image
outputs = $1
weight.init = constant
[layer loss]
type = $2
src = fc, truth
END
}

# ---- images
{
    printf '[job]\nbatch = 10\nsteps = 30\n'
    for split in train test; do
        printf '[data %s]\nformat = image_folder\npaths = %s\nmean = 100\nstd = 60\n' $split "$T/$split"
        printf 'part = 0, 0.9\npart_seed = 1\n'
    done
    net 2 softmax_loss label
} >"$T/light.ini"
sed -i 's/^lr = 0.5/lr = 0.001/' "$T/light.ini"
expect 0 run "$T/light.ini" --out "$T/light" --name light --quiet

# Every input gets its own result, whatever order and part of the records the recipe chooses.
expect 0 predict light "$T/test"
awk 'NR > 1 { n++; k = split($1, at, "/"); bad += at[k - 1] != $2 } END { exit n != 40 || bad }' "$T/out" ||
    fail 'results of other images'

# Other data with its classes: all of one class, whose number is that of the run; then wrong ones.
mkdir -p "$T/dark/night" "$T/wrong/night" "$T/foreign/dusk"
cp "$T/test/night/"1*.png "$T/dark/night"
cp "$T/test/day/"1*.png "$T/wrong/night"
cp "$T/test/day/1.png" "$T/foreign/dusk"
expect 0 eval light --data "$T/dark" --json
has out '"loss":0\.[0-2]'
cd "$T" || exit 1
expect 0 eval light --data wrong --json
has out '"loss":[1-9]'
expect 0 eval light.ini --data test --set data.test.part=0,0.1 --report # of all records
has out '^accuracy +40 '
expect 3 eval light --data "$T/foreign"
has err 'foreign/dusk: the net was not trained on a class of this name'
expect 3 eval light --data "$T/nothing"
has err 'nothing'
expect 2 eval light --data "$T/dark" --split test
has err 'mutually exclusive'
expect 0 run "$tiny" --name made --steps 1 --quiet
expect 2 eval made --data "$T/dark"
has err 'paths'
rm -r "$T/train" "$T/light.ini"
mv "$T/light" "$T/moved"

expect 0 predict "$T/moved" "$T/new" "$T/test/day/3.png"
has out '^input +class +probability +next$'
has out "^$T/new/a\.png +night +(0\.[5-9]|1\.)[0-9]* +day 0\.[0-4]"
has out "^$T/new/deep/B\.PNG +day +(0\.[5-9]|1\.)"
has out "^$T/test/day/3\.png +day "
[ "$(wc -l <"$T/out")" = 4 ] || fail 'not a title and three inputs'
cp "$T/moved"/checkpoint-30.safetensors "$T/alone.bin"
rm -r "$T/moved" "$T/state" "$SINGA_DB"
expect 0 predict "$T/alone.bin" "$T/new" --json --top 1
has out "^\{\"input\":\"$T/new/a\.png\",\"top\":\[\{\"class\":\"night\",\"probability\":(0\.[5-9][0-9]*|1)\}\]\}$"

# A picture of another size gets that of the training pictures.
expect 0 predict "$T/alone.bin" "$T/large.png"
has out '^.*large\.png +day '

# Arrays: pixels are transformed, floats are not, rows of numbers get the shape.
expect 0 predict "$T/alone.bin" "$T/pixels.npy" --json
sed 's/pixels//' "$T/out" >"$T/pixels.json"
has out 'pixels\.npy\[0\]","top":\[\{"class":"night"'
has out 'pixels\.npy\[1\]","top":\[\{"class":"day"'
for array in floats flat; do
    expect 0 predict "$T/alone.bin" "$T/$array.npy" --json
    python3 - "$T/out" "$T/pixels.json" <<'END' || fail "$array.npy gives something else"
import json, sys
a, b = ([[(t["class"], round(t["probability"], 4)) for t in json.loads(l)["top"]] for l in open(f)] for f in sys.argv[1:])
assert a == b and len(a) == 2, (a, b)
END
done

# Missing and unreadable inputs are named, the others predicted.
echo none >"$T/new/bad.jpg"
expect 3 predict "$T/alone.bin" "$T/new" "$T/none.jpg" --output "$T/y.npy"
has err 'none\.jpg: no such file'
has err 'bad\.jpg.*expected a JPEG'
hasnt out 'bad\.jpg'
has out '^.*B\.PNG +day '
[ -s "$T/y.npy" ] || fail 'no array'
expect 3 predict "$T/alone.bin" "$T/none.jpg"
[ -s "$T/out" ] && fail 'a prediction of nothing'
expect 3 predict "$T/alone.bin" "$T/new/bad.jpg"
expect 3 predict "$T/alone.bin" "$T/other.npy"
has err 'other\.npy: image of .* but the net reads image of 3x12x12'
expect 2 predict "$T/alone.bin" "$T/large.png" "$T/pixels.npy"
has err 'is an image and .*pixels\.npy is an array'

# ---- tables
{
    printf '[job]\nbatch = 20\nsteps = 200\n[data train]\nformat = csv\npaths = %s\n' "$T/table.csv"
    printf 'header = yes\nlabel = kind\nignore = id, price\npart = 0, 0.8\npart_seed = 1\n'
    net 2 softmax_loss label
} >"$T/fruit.ini"
expect 0 run "$T/fruit.ini" --name fruit --quiet
expect 0 predict fruit "$T/table.csv" --json --top 1
sed 's/.*"class":"\([a-z]*\)".*/\1/' "$T/out" >"$T/classes"
sed '1d' "$T/table.csv" | cut -d, -f4 | paste -d' ' - "$T/classes" |
    awk '{ n++; bad += $1 != $2 } END { exit n != 80 || bad > 8 }' || fail 'results of other rows'
expect 0 predict fruit "$T/named.csv"
has out 'named\.csv\[0\] +apple '
has out 'named\.csv\[1\] +plum '
expect 0 predict fruit "$T/plain.csv" --set data.train.header=no
has out 'plain\.csv\[0\] +apple '
expect 3 predict fruit "$T/plain.csv"
has err 'columns are named size, expected one'

{
    printf '[job]\nbatch = 20\nsteps = 300\n[data train]\nformat = csv\npaths = %s\n' "$T/table.csv"
    printf 'header = yes\ntarget = price\nignore = id, kind\n'
    net 1 euclidean_loss target
} >"$T/price.ini"
expect 0 run "$T/price.ini" --name price --quiet
rm "$T/table.csv"
expect 0 predict price "$T/named.csv" --json
python3 - "$T/out" <<'END' || fail 'another price'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [len(r["values"]) for r in rows] == [1, 1]
assert abs(rows[0]["values"][0] - 0.8) < 0.1 and abs(rows[1]["values"][0] + 0.6) < 0.1, rows
END
expect 0 predict price "$T/named.csv"
has out '^input +values$'
exit 0
