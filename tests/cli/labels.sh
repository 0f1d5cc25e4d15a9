# The classes of the data against the outputs of the net, before the first step.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# recipe OUTPUTS: a net over rows.csv with this number of scores.
recipe() {
    cat <<END
[job]
name = labels
batch = 4
steps = 2
[data train]
format = csv
paths = rows.csv
[data test]
format = csv
paths = rows.csv
[updater]
type = sgd
lr = 0.01
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = image
outputs = $1
[layer loss]
type = softmax_loss
src = fc, label
[layer accuracy]
type = accuracy
src = fc, label
include = eval
END
}

printf '%s\n' 1,2,ant 2,1,bee 3,2,cat 1,1,ant 2,2,bee 1,3,cat 0,1,ant 3,3,bee >rows.csv

# Too few outputs: one error that names the layer, both numbers and what to write.
recipe 2 >few.ini
for verb in check run; do
    expect 2 $verb few.ini
    has err '^few\.ini:23:11: layer fc: outputs = 2: data train has 3 classes \(labels 0 to 2\), which layer loss compares with these outputs: set outputs = 3$'
    [ "$(grep -c 'classes' err)" = 1 ] || fail "more than one error"
done
[ -e "$SINGA_DB" ] && fail "the history was created"

# Where other data took the place of missing files, that is the reason.
sed 's/^paths = rows.csv/paths = row.csv\nfallback = synthetic/' few.ini >typo.ini
expect 2 run typo.ini
has err '^typo\.ini:[0-9]+:2: data train: no file row\.csv; the data of its fallback have 10 classes, but layer loss has scores for 2: correct the path$'
hasnt err 'set outputs'

# Labels without names: the largest one counts.
printf '%s\n' 1,2,0 2,1,1 3,2,3 1,1,0 >rows.csv
expect 2 run few.ini
has err 'data train has 4 classes \(labels 0 to 3\)'
recipe 9 >many.ini
expect 0 run many.ini
hasnt err 'classes'

# More outputs than named classes: a warning, once.
printf '%s\n' 1,2,ant 2,1,bee 3,2,cat 1,1,ant 2,2,bee 1,3,cat 0,1,ant 3,3,bee >rows.csv
expect 0 run many.ini
has err 'warning: .*layer fc: outputs = 9, but data train has only 3 classes \(labels 0 to 2\): use outputs = 3'
[ "$(grep -c 'classes' err)" = 1 ] || fail "more than one warning"
recipe 3 >fit.ini
expect 0 run fit.ini
hasnt err 'classes'

# The scores are two layers away, and the last class is ignored.
sed 's/^src = fc, label/src = act, label/' few.ini >act.ini
printf '[layer act]\ntype = activation\nfunction = tanh\nsrc = fc\n' >>act.ini
expect 2 run act.ini
has err 'layer fc: outputs = 2: data train has 3 classes'
sed 's/^type = softmax_loss/&\nignore_label = 2/; s/^type = accuracy/&\nignore_label = 2/' few.ini >ignore.ini
expect 0 run ignore.ini

# A field whose classes the format does not count: the first bad record ends the run.
# npy FILE TYPE SHAPE: an array with the bytes of stdin.
npy() {
    head="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    printf '\223NUMPY\001\000\166\000%-117s\n' "$head" >"$1"
    cat >>"$1"
}
printf '%64s' '' | npy image.npy '<f4' '(8, 2)'
printf '\000\000\000\000\001\000\000\000\000\000\000\000\007\000\000\000\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000' |
    npy fine.npy '<i4' '(8,)'
recipe 2 | sed 's/^format = csv/format = npy/; s/^paths = rows.csv/paths = image.npy\nfields = fine:fine.npy/; s/^field = label/field = fine/' >fine.ini
expect 1 run fine.ini
has err 'prefetch (train|test): data (train|test): record 3 \(image\.npy\): fine 7, but layer loss has scores for 2 classes \(0 to 1\)'
