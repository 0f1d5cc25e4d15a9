# ctest-timeout: 120
# eval --report, --worst and --plot: counts that follow from the scores, names of classes and files,
# the same for any batch and device.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# Three classes that overlap, in rows of two features.
awk 'BEGIN {
    split("ant bee cat", name, " ")
    for (i = 0; i < 120; i++) {
        c = i % 3
        printf "%.4f,%.4f,%s\n", c + (i * 37 % 101) / 60, (c == 1) + (i * 53 % 97) / 60, name[c + 1]
    }
}' >all.csv
head -n 80 all.csv >train.csv
tail -n 40 all.csv >test.csv
cat >insects.ini <<'END'
[job]
name = insects
batch = 16
epochs = 12
eval_batch = 16
[data train]
format = csv
paths = train.csv
shuffle = yes
[data test]
format = csv
paths = test.csv
[updater]
type = sgd
lr = 0.1
[layer x]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = x
outputs = 3
[layer loss]
type = softmax_loss
src = fc, label
[layer accuracy]
type = accuracy
src = fc, label
include = eval
END
expect 0 run insects.ini --name insects --quiet
expect 0 eval insects.ini --report --worst 4
has out '^class +count +precision +recall +f1$'
has out '^bee +1[34] +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[01]\.[0-9]{4}$'
has out '^mean over classes +40 '
has out '^true \\ predicted +ant +bee +cat$'
has out '^worst record +loss +true +probability +predicted +probability'
[ "$(sed -n '/^worst record/,$p' out | wc -l)" = 5 ] || fail 'not four worst records'
accuracy=$(sed -n 's/^accuracy  *\(0\.[0-9]*\)$/\1/p' out | head -n 1)
has out "^accuracy +40 +$accuracy"

# The same report for any batch and on a simulated device.
expect 0 eval insects.ini --report --worst 4 --json
sed 's/.*"report"/"report"/' out >first
for how in job.eval_batch=1 job.eval_batch=40 job.eval_batch=100; do
    expect 0 eval insects.ini --report --worst 4 --json --set $how
    sed 's/.*"report"/"report"/' out | sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g' >other
    sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g' first | cmp -s - other || fail "another report with $how"
done
expect 0 eval insects.ini --report --json --device sim
sed 's/.*"confusion":\(\[\[[^}]*\]\]\).*/\1/' out >there
sed 's/.*"confusion":\(\[\[[^}]*\]\]\).*/\1/' first | cmp -s - there || fail 'another matrix on a simulated device'

# Counts, worst records and their probabilities follow from the scores.
if have_python; then
    expect 0 predict insects.ini --output y.npy
    expect 0 eval insects.ini --report --worst 4 --json
    python3 - <<'END' || fail 'the report and the scores differ'
import json, math, struct
o = json.load(open("out"))
y = struct.unpack("<120f", open("y.npy", "rb").read()[-480:])
names = ["ant", "bee", "cat"]
label = [names.index(line.strip().split(",")[2]) for line in open("test.csv")]
matrix = [[0] * 3 for _ in names]
losses = []
for i, t in enumerate(label):
    row = y[3 * i:3 * i + 3]
    p = [math.exp(v) / sum(map(math.exp, row)) for v in row]
    matrix[t][p.index(max(p))] += 1
    losses.append((-math.log(p[t]), i, names[t], p[t], names[p.index(max(p))], max(p)))
losses.sort(reverse=True)
r = o["report"]
assert r["confusion"] == matrix and r["layer"] == "loss"
assert abs(r["accuracy"] - o["accuracy"]) < 1e-9
assert [c["class"] for c in r["classes"]] == names
for k, c in enumerate(r["classes"]):
    right, count = matrix[k][k], sum(matrix[k])
    predicted = sum(m[k] for m in matrix)
    assert (c["count"], c["predicted"], c["correct"]) == (count, predicted, right)
    assert abs(c["precision"] - (right / predicted if predicted else 0)) < 1e-9
    assert abs(c["recall"] - right / count) < 1e-9
for w, (loss, record, true, of_true, best, of_best) in zip(o["worst"], losses):
    assert w["record"] == record and w["true"] == true and w["predicted"] == best
    assert abs(w["loss"] - loss) < 1e-5 and abs(w["probability"] - of_best) < 1e-5
END
fi

# The matrix as an image, with the names of the classes; eval and predict draw the same.
expect 0 eval insects.ini --plot matrix.svg
has out '^plot +matrix\.svg$'
for name in ant bee cat; do
    [ "$(grep -c ">$name<" matrix.svg)" = 2 ] || fail "$name is not twice in matrix.svg"
done
expect 0 predict insects.ini --plot predicted.svg
has predicted.svg '>bee<'

# Images of the worst records, with their files.
expect 0 run "$tiny" --out "$T/t" --name t --steps 4 --quiet
expect 0 eval "$tiny" --weights t --worst 5 --plot sheet.svg
[ "$(grep -c 'true: ' sheet.svg)" = 5 ] || fail 'not five captions'
has sheet.svg '>record [0-9]+<'
has out '^worst record'

# What cannot be drawn or reported.
expect 2 eval insects.ini --plot matrix.jpg
has err 'must end in .png or .svg'
expect 2 eval insects.ini --worst 3 --plot sheet2.svg
has err 'data test has none of 1 or 3 channels: leave out --worst'
[ -e sheet2.svg ] && fail 'an image without images'
expect 2 eval insects.ini --worst 0
sed 's/,[a-c][a-z]*$/,1/' train.csv >numbers.csv
sed -n '1,/^\[data test\]/p' insects.ini | sed 's/train.csv/numbers.csv\ntarget = 3/; $d' >values.ini
cat >>values.ini <<'END'
[data test]
format = csv
paths = numbers.csv
target = 3
[updater]
type = sgd
lr = 0.01
[layer x]
type = input
field = image
[layer y]
type = input
field = target
[layer fc]
type = inner_product
src = x
outputs = 1
[layer loss]
type = euclidean_loss
src = fc, y
END
expect 0 run values.ini --name values --quiet
expect 2 eval values.ini --report
has err 'a report by class needs a softmax_loss or accuracy layer'
# Predicted values have worst records and a scatter plot.
expect 0 eval values.ini --worst 3 --plot values.svg --json
has values.svg '>test, 80 records: prediction over target<'
if have_python; then
    python3 - <<'END' || fail 'the largest errors are wrong'
import json
worst = json.load(open("out"))["worst"]
assert len(worst) == 3
for a, b in zip(worst, worst[1:]):
    assert a["error"] >= b["error"]
for w in worst:
    assert w["target"] == 1 and abs(w["error"] - abs(w["prediction"] - 1)) < 1e-6
END
fi

# Sets of labels: each one is counted by itself.
have_python || exit 0
python3 - <<'END'
import struct
def write(name, rows):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    flat = [v for r in rows for v in r]
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%df" % len(flat), *flat))
x = [[i * 37 % 101 / 50 - 1, i * 53 % 97 / 48 - 1] for i in range(60)]
write("x.npy", x)
with open("sets.txt", "w") as f:
    for a, b in x:
        words = [w for w, there in (("dry", a > 0.2), ("hot", b > 0), ("wet", a < -0.3)) if there]
        f.write(" ".join(words) + "\n")
END
cat >sets.ini <<'END'
[job]
name = sets
batch = 20
epochs = 40
eval_batch = 25
[data train]
format = pairs
paths = x.npy
labels = sets.txt
[data test]
format = pairs
paths = x.npy
labels = sets.txt
[updater]
type = adam
lr = 0.03
[layer x]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = x
outputs = 3
[layer loss]
type = sigmoid_cross_entropy
src = fc, label
END
expect 0 run sets.ini --name sets --quiet
expect 0 predict sets.ini --output y.npy
expect 0 eval sets --report
has out '^hot +[0-9]+ +[01]\.[0-9]{4} '
has out '^macro average +[0-9]+ '
has out '^micro average +[0-9]+ '
has out '^60 records; no confusion matrix, because a record can have several labels$'
expect 0 eval sets --report --json
hasnt out '"confusion"'
python3 - <<'END' || fail 'the report and the scores of label sets differ'
import json, struct
r = json.load(open("out"))["report"]
y = struct.unpack("<180f", open("y.npy", "rb").read()[-720:])
names = ["dry", "hot", "wet"]
sets = [line.split() for line in open("sets.txt")]
assert [c["class"] for c in r["classes"]] == names
total = [0, 0, 0]
for k, c in enumerate(r["classes"]):
    have = [names[k] in s for s in sets]
    # predict gives the output of the loss's source: scores.
    said = [y[3 * i + k] > 0 for i in range(60)]
    counts = sum(have), sum(said), sum(a and b for a, b in zip(have, said))
    assert (c["count"], c["predicted"], c["correct"]) == counts, (c, counts)
    assert abs(c["f1"] - 2 * counts[2] / (counts[0] + counts[1])) < 1e-9 and c["f1"] > 0.8
    total = [a + b for a, b in zip(total, counts)]
assert abs(r["micro"]["precision"] - total[2] / total[1]) < 1e-9
assert abs(r["macro"]["f1"] - sum(c["f1"] for c in r["classes"]) / 3) < 1e-9
END
expect 2 eval sets --worst 2
has err 'layer loss compares 3 labels per record: the worst records'
expect 2 eval sets --plot sets.svg
has err 'records of data test can have several labels: use --report'
[ -e sets.svg ] && fail 'a matrix of label sets'
exit 0
