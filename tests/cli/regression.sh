# ctest-timeout: 120
# Regression: standardized targets, and mae, rmse and r2 in the units of the data: the same for any
# batch, workers and device, in history, eval and predict, and after a resume.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# 90 and 41 rows of two features; the targets are far from 0 and 1, and of different size.
awk 'BEGIN {
    print "a,b,price,area"
    for (i = 0; i < 131; i++) {
        a = (i * 37 % 101) / 50 - 1; b = (i * 53 % 97) / 48 - 1; e = (i * 29 % 13) / 6 - 1
        printf "%.4f,%.4f,%.1f,%.3f\n", a, b, 250000 + 40000 * a - 9000 * b + 1500 * e, 80 + 6 * b + e
    }
}' >all.csv
sed -n 1,91p all.csv >train.csv
{ head -n 1 all.csv && tail -n 41 all.csv; } >test.csv

cat >house.ini <<'END'
[job]
name = house
batch = 10
epochs = 30
eval_batch = 16
eval_every = 90
[data train]
format = csv
paths = train.csv
header = yes
target = price, area
shuffle = yes
[data test]
format = csv
paths = test.csv
header = yes
target = price, area
[updater]
type = sgd
lr = 0.1
[layer x]
type = input
field = image
[layer y]
type = input
field = target
standardize = yes
[layer fc]
type = inner_product
src = x
outputs = 2
[layer loss]
type = euclidean_loss
src = fc, y
[layer mae]
type = mae
src = fc, y
include = eval
[layer rmse]
type = rmse
src = fc, y
include = eval
[layer r2]
type = r2
src = fc, y
include = eval
END
expect 0 run house.ini --out "$T/a" --name a --quiet
for name in mae rmse r2; do
    [ "$(sql "SELECT count(*) FROM metrics WHERE run_id = 1 AND split = 'test' AND name = '$name'")" = 3 ] ||
        fail "the history lacks $name"
done

# close A B: two values of a metric differ by less than 1e-5 of the first.
close() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; d = d < 0 ? -d : d; exit !(d <= 1e-5 * (a < 0 ? -a : a)) }'
}
# metric NAME: from the JSON of an evaluation in out.
metric() {
    sed -n "s/.*\"$1\":\([-+.e0-9]*\).*/\1/p" "$T/out"
}

expect 0 eval house.ini --weights a --json
mae=$(metric mae) rmse=$(metric rmse) r2=$(metric r2)
awk -v m="$mae" -v r="$r2" 'BEGIN { exit !(m > 100 && m < 3000 && r > 0.9 && r < 1) }' ||
    fail "mae $mae, r2 $r2 are not in the units of the data"
close "$mae" "$(sql "SELECT value FROM metrics WHERE run_id = 1 AND name = 'mae' ORDER BY step DESC LIMIT 1")" ||
    fail "mae of the run and of eval differ"

# Any evaluation batch.
for batch in 1 7 41 100; do
    expect 0 eval house.ini --weights a --json --set job.eval_batch=$batch
    for name in mae rmse r2; do
        eval "close \"\$$name\" \"$(metric $name)\"" || fail "$name with eval_batch = $batch is $(metric $name)"
    done
done

# Workers, partitions and simulated devices train and evaluate to the same numbers.
same_run() {
    expect 0 run house.ini --quiet --oversubscribe "$@"
    for name in mae rmse r2; do
        have=$(sql "SELECT value FROM metrics WHERE run_id = (SELECT max(id) FROM runs) AND name = '$name' AND split = 'test' ORDER BY step DESC LIMIT 1")
        eval "close \"\$$name\" \"\$have\"" || fail "$name with $* is $have"
    done
}
same_run --set cluster.workers_per_group=2 --set job.eval_batch=6
same_run --set cluster.workers_per_group=2 --set job.eval_batch=10 --set layer.fc.partition=1
same_run --device sim:gpus=2,mem=64MiB --set cluster.workers_per_group=2

# The history sorts by the best value of any metric.
for by in 'r2 max' 'mae min'; do
    set -- $by
    best=$(sql "SELECT run_id FROM metrics WHERE name = '$1' AND split = 'test' GROUP BY run_id
        ORDER BY $2(value) $([ "$2" = max ] && echo DESC), run_id DESC LIMIT 1")
    expect 0 history list --sort "$1"
    sed -n 2p out | grep -qE "^ *$best .* $1 [0-9.]+[k ]* ?@[0-9]+ " || fail "run $best is not the first by $1: $(cat out)"
done
expect 2 history list --sort f1
has err '^singa-ws: --sort=f1 is unknown: use id, loss, accuracy, speed, or a metric of the history: loss, mae, r2, rmse$'

# The columns of other data are found by their names.
expect 0 eval a --json
grep -oE '"(mae|rmse|loss)":[^,}]*' out >straight
awk -F, '{ print $4 "," $2 ",x," $3 "," $1 }' test.csv >other.csv
expect 0 eval a --data other.csv --json
grep -oE '"(mae|rmse|loss)":[^,}]*' out >reordered
[ -s straight ] && cmp straight reordered || fail 'columns in another order give other results'
sed 's/,b,/,c,/' other.csv >wrong.csv
expect 3 eval a --data wrong.csv
has err '0 columns are named b, expected one: the net reads it'

# predict gives the units of the data, without its training data.
mv train.csv hidden.csv
expect 0 predict house.ini --weights a --output y.npy
mv hidden.csv train.csv
if have_python; then
    python3 - "$mae" "$rmse" "$r2" <<'END' || fail 'eval and predict differ'
import csv, math, struct, sys
mae, rmse, r2 = map(float, sys.argv[1:])
raw = open("y.npy", "rb").read()
y = struct.unpack("<82f", raw[-4 * 82:])
rows = list(csv.DictReader(open("test.csv")))
t = [float(r[k]) for r in rows for k in ("price", "area")]
d = [a - b for a, b in zip(y, t)]
def near(a, b):
    return abs(a - b) <= 1e-5 * abs(b)
assert near(mae, sum(map(abs, d)) / 82) and near(rmse, math.sqrt(sum(v * v for v in d) / 82))
parts = []
for k in (0, 1):
    mean = sum(t[k::2]) / 41
    parts.append(1 - sum(v * v for v in d[k::2]) / sum((v - mean) ** 2 for v in t[k::2]))
assert near(r2, sum(parts) / 2)
END
fi

# The worst records, by the distance that the loss sees; and scatter plots in the units of the data.
expect 0 eval house.ini --weights a --worst 5
has out '^worst record +error +target 1 +prediction 1 +target 2 +prediction 2'
[ "$(sed -n '/^worst record/,$p' out | wc -l)" = 6 ] || fail 'not five worst records'
expect 0 eval house.ini --weights a --worst 5 --json
if have_python; then
    python3 - <<'END' || fail 'the worst records do not follow from the predictions'
import csv, json, math, struct
y = struct.unpack("<82f", open("y.npy", "rb").read()[-4 * 82:])
rows = list(csv.DictReader(open("test.csv")))
train = list(csv.DictReader(open("train.csv")))
def std(key):
    v = [float(r[key]) for r in train]
    mean = sum(v) / len(v)
    return math.sqrt(sum((x - mean) ** 2 for x in v) / len(v))
scale = std("price"), std("area")
def error(i):
    t = float(rows[i]["price"]), float(rows[i]["area"])
    return math.dist([t[0] / scale[0], t[1] / scale[1]], [y[2 * i] / scale[0], y[2 * i + 1] / scale[1]])
order = sorted(range(41), key=error, reverse=True)
for w, i in zip(json.load(open("out"))["worst"], order, strict=False):
    assert w["record"] == i and w["file"] is None, (w, i)
    assert abs(w["error"] - error(i)) < 1e-4
    assert abs(w["target"][0] - float(rows[i]["price"])) < 0.1
    assert abs(w["prediction"][1] - y[2 * i + 1]) < 1e-4
END
fi
expect 0 eval house.ini --weights a --plot both.svg
has both.svg '>test, 41 records: prediction 1 over target<'
[ "$(grep -c '<circle' both.svg)" = 82 ] || fail 'not a dot for each value'

# The numbers of a checkpoint hold, also when the training data has changed since.
cp train.csv kept.csv
sed -i '2s/.*/1,1,900000,500/' train.csv
expect 0 eval house.ini --weights a --json
close "$mae" "$(metric mae)" || fail "eval took mean and std from the changed data"
cp kept.csv train.csv

# The first half, then the rest: the same bits as in one go.
expect 0 run house.ini --out "$T/b" --name b --steps 100 --quiet
expect 0 resume b --steps 270 --quiet
have_python && same_tensors "$(latest "$T/a")" "$(latest "$T/b")"

# Given numbers instead of measured ones.
sed 's/^standardize = yes/mean = 250000, 80\nstd = 30000, 4/' house.ini >given.ini
expect 0 run given.ini --quiet --name given
expect 0 eval given.ini --weights given --json
awk -v r="$(metric r2)" 'BEGIN { exit !(r > 0.9 && r < 1) }' || fail "r2 $(metric r2) with given mean and std"
sed 's/^standardize = yes/std = 0/' house.ini >zero.ini
expect 2 check zero.ini
has err 'layer y: std = 0'
sed 's/^standardize = yes/mean = 1, 2, 3/' house.ini >count.ini
expect 2 check count.ini
has err 'layer y: mean: 3 numbers, but the field has 2 values per record'
sed 's/^field = image/&\nstandardize = yes/; s/^paths = train.csv/&\nscale = 2/' house.ini >image.ini
expect 2 check image.ini
has err 'layer x: the keys of data train'
printf '[layer z]\ntype = input\nfield = target\n[layer mae2]\ntype = mae\nsrc = fc, z\n' | cat house.ini - >twice.ini
expect 2 check twice.ini
has err 'layer z: layer y reads the same field, target, with other values of power, log1p, standardize'
