# eval RUN opens only the data that it evaluates on; with --data those need not exist either.
. "$(dirname "$0")/lib.sh"
have_python || skip 'python3 is not installed'

# loss_of FILE: the loss in the object of eval --json.
loss_of() {
    sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out" >"$T/$1"
}

# Classes are words, which the test data have only a part of; the length of the run is in epochs.
python3 - "$T" <<'END'
import random, sys
random.seed(5)
def write(name, classes, rows):
    with open(f"{sys.argv[1]}/{name}.csv", "w") as f:
        f.write("a,b,kind\n")
        for i in range(rows):
            k = i % len(classes)
            x = {"ash": 0, "elm": 5, "oak": 10}[classes[k]]
            f.write(f"{random.gauss(x, 1):.3f},{random.gauss(-x, 2):.3f},{classes[k]}\n")
write("train", ["ash", "elm", "oak"], 120)
write("test", ["ash", "elm", "oak"], 60)
write("oaks", ["oak"], 20)
END
cat >"$T/trees.ini" <<END
[job]
name = trees
batch = 10
eval_batch = 10
epochs = 20
[data train]
format = csv
paths = $T/train.csv
header = yes
label = kind
shuffle = yes
[data test]
format = csv
paths = $T/test.csv
header = yes
label = kind
[updater]
type = adam
lr = 0.1
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = image
outputs = 3
[layer loss]
type = softmax_loss
src = fc, label
[layer accuracy]
type = accuracy
src = fc, label
include = eval
END
expect 0 run "$T/trees.ini" --out "$T/trees" --quiet
expect 0 eval trees --json
loss_of whole
expect 0 eval trees --split train --json
loss_of whole_train
# A target that is standardized with the training data.
sed -e 's/^label = kind/target = b\nignore = kind/' -e '/^\[layer label\]/,$d' "$T/trees.ini" >"$T/line.ini"
cat >>"$T/line.ini" <<'END'
[layer target]
type = input
field = target
standardize = yes
[layer fc]
type = inner_product
src = image
outputs = 1
[layer loss]
type = euclidean_loss
src = fc, target
[layer rmse]
type = rmse
src = fc, target
include = eval
END
expect 0 run "$T/line.ini" --out "$T/line" --name line --quiet
expect 0 eval line --json
loss_of scaled

mv "$T/train.csv" "$T/hidden.csv"
expect 0 eval trees --json
loss_of alone
cmp -s "$T/whole" "$T/alone" || fail 'another loss without the training data'
expect 0 eval line --json
loss_of alone
cmp -s "$T/scaled" "$T/alone" || fail 'another loss of the standardized target'
expect 0 eval trees --report
has out '^oak '
# The only class of these data keeps the number that it had in training.
expect 0 eval trees --data "$T/oaks.csv" --report
has out '^accuracy +(0\.9|1$)'
expect 3 eval trees --split train
has err 'train\.csv'

mv "$T/hidden.csv" "$T/train.csv"
mv "$T/test.csv" "$T/hidden.csv"
expect 3 eval trees
has err 'test\.csv'
expect 0 eval trees --split train --json
loss_of alone
cmp -s "$T/whole_train" "$T/alone" || fail 'another loss without the test data'
expect 2 eval trees --split nowhere
has err '--split nowhere: the recipe has no \[data nowhere\]; it has train, test'

rm "$T/train.csv"
expect 0 eval trees --data "$T/hidden.csv" --json
loss_of alone
cmp -s "$T/whole" "$T/alone" || fail 'another loss with --data alone'
expect 3 eval trees
hasnt err 'train\.csv'
expect 3 eval trees --data "$T/nothing.csv"
has err 'nothing\.csv'
exit 0
