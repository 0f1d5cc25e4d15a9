# ctest-timeout: 120
# Transforms of fields by their input layers: log1p, standardize, whiten and scale, in training,
# evaluation and predict, the same after a resume and from a checkpoint without the training data.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

awk 'BEGIN {
    srand(5)
    for (i = 0; i < 200; i++) {
        a = rand(); b = a + rand() / 5; c = int(rand() * 20)
        printf "%.5f,%.5f,%d,%d\n", a, b, c, (a > .5)
    }
}' >all.csv
head -n 150 all.csv >train.csv
tail -n 50 all.csv >test.csv

cat >net.ini <<'END'
[job]
name = transforms
batch = 25
steps = 60
eval_batch = 25
eval_every = 30
[data train]
format = csv
paths = train.csv
shuffle = yes
[data test]
format = csv
paths = test.csv
[updater]
type = sgd
lr = 0.2
[layer x]
type = input
field = image
log1p = yes
standardize = yes
whiten = yes
whiten_epsilon = 0.000001
scale = 2
[layer y]
type = input
field = label
[layer fc]
type = inner_product
src = x
outputs = 2
[layer loss]
type = softmax_loss
src = fc, y
[layer accuracy]
type = accuracy
src = fc, y
include = eval
END

expect 0 run net.ini --out full
has out 'accuracy'

# The training rows are white times 2: mean 0, covariance 4 I (up to epsilon).
expect 0 predict net.ini --weights full --layer x --split train --output x.npy
expect 0 predict net.ini --weights full --layer x --split test --output test.npy
npy_floats() { tail -c $((4 * $2)) "$1" | od -An -v -tf4 -w$((4 * $3)); }
npy_floats x.npy 450 3 | awk '{
    for (i = 1; i <= 3; i++) { s[i] += $i; for (j = 1; j <= 3; j++) c[i, j] += $i * $j }
} END {
    for (i = 1; i <= 3; i++) {
        if ((s[i] / NR) ^ 2 > 1e-6) exit 1
        for (j = 1; j <= 3; j++) if ((c[i, j] / NR - (i == j) * 4) ^ 2 > 1e-4) exit 1
    }
}' || fail "the rows of x are not white"

# Rows from a table and from an array are transformed in the same way, without the training data.
cut -d, -f1-3 test.csv | sed 's/$/,0/' >rows.csv
mv train.csv away.csv
expect 0 predict full --layer x --output again.npy --split test
cmp -s test.npy again.npy || fail "another result without the training data"

# The raw features as an array: a recipe that does nothing to them writes it.
mv away.csv train.csv
sed '/^log1p/d; /^standardize/d; /^whiten/d; /^scale/d; s/^steps.*/steps = 1/; s/^name.*/name = raw/' net.ini >raw.ini
expect 0 run raw.ini --out raw
expect 0 predict raw.ini --weights raw --layer x --split test --output raw.npy
expect 0 predict full --layer x --input raw.npy --output array.npy
cmp -s test.npy array.npy || fail "an array is transformed in another way"

# A resume keeps the numbers, and gives the bits of a run in one go.
expect 0 run net.ini --set job.steps=30 --out half
expect 0 resume half --set job.steps=60

expect 0 predict half --layer fc --split test --output half.npy
expect 0 predict full --layer fc --split test --output fc.npy
cmp -s half.npy fc.npy || fail "a resume changes the result"

# Errors name what to change.
sed 's/^paths = train.csv/&\nscale = 2/' net.ini >both.ini
expect 2 check both.ini
has err 'layer x: the keys of data train'
sed '1,/,/s/^[0-9.]*,/-1.5,/' train.csv >negative.csv
sed 's/^paths = train.csv/paths = negative.csv/' net.ini >negative.ini
expect 3 run negative.ini --out negative
has err 'value 1 of image is -1.5, but log1p = yes needs values above -1'
expect 2 check net.ini --set layer.x.whiten_epsilon=0
has err 'whiten_epsilon'
printf '[layer z]\ntype = input\nfield = image\n[layer fc2]\ntype = inner_product\noutputs = 2\nsrc = z\n' | cat net.ini - >twice.ini
expect 2 check twice.ini
has err 'reads the same field, image, with other values of power, log1p, standardize'

# The same on several workers, and on a simulated device.
expect 0 run net.ini --out two --set cluster.workers_per_group=2 --oversubscribe
expect 0 predict two --layer fc --split test --output two.npy
expect 0 run net.ini --out sim --device sim:gpus=1
expect 0 predict sim --layer x --split test --output sim.npy
npy_floats sim.npy 150 3 >sim.txt
npy_floats test.npy 150 3 >test.txt
awk 'NR == FNR { a[FNR] = $1; next } ($1 - a[FNR]) ^ 2 > 1e-10 { exit 1 }' test.txt sim.txt || fail "another result on sim"
