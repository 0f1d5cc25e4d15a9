# What the scripts of this folder share: data, a state of their own, one training to a known result.
# They run long and compute with all cores.
set -u
SW=${SW:?the program to test}
SW_SOURCE_DIR=${SW_SOURCE_DIR:?the source tree}
SINGA_DATA=${SINGA_DATA:-$SW_SOURCE_DIR/../shared/data}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
export SINGA_DATA XDG_STATE_HOME="$T/state" SINGA_DB="$T/history.db"
unset OMP_NUM_THREADS

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 "$T/out" "$T/err" >&2
    exit 1
}

# needs FILE...: below SINGA_DATA, else the test is skipped.
needs() {
    for file; do
        if [ ! -e "$SINGA_DATA/$file" ]; then
            echo "skipped: $SINGA_DATA/$file is not there (SINGA_DATA names the folder of data sets)"
            exit 77
        fi
    done
}

# train RECIPE ARGUMENT...: to its end, in place of the last one; $T/out and $T/err.
train() {
    recipe=$SW_SOURCE_DIR/recipes/$1
    shift
    rm -rf "$T/run" # a new run does not overwrite the checkpoints of another
    began=$(date +%s)
    "$SW" run "$recipe" --out "$T/run" --no-ui "$@" >"$T/out" 2>"$T/err" || fail "exit $?"
    grep -q fallback "$T/out" "$T/err" && fail 'the data were not found'
    echo "trained in $(($(date +%s) - began)) s"
}

# best METRIC: the best value of an evaluation metric up to now, with its step.
best() {
    "$SW" history sql "SELECT printf('%.4f', max(value)), step FROM metrics WHERE split <> 'train' AND
        name = '$1' AND run_id = (SELECT max(id) FROM runs)" | tr '\t' ' '
}
# final METRIC: its value at the last step.
final() {
    "$SW" history sql "SELECT printf('%.4f', value) FROM metrics WHERE split <> 'train' AND
        name = '$1' AND run_id = (SELECT max(id) FROM runs) ORDER BY step DESC LIMIT 1"
}
# reaches VALUE FLOOR WHAT
reaches() {
    echo "$3: $1 (at least $2 is asked for)"
    awk -v value="$1" -v floor="$2" 'BEGIN { exit !(value >= floor) }' || fail "$3 is $1, below $2"
}

# below VALUE CEILING WHAT
below() {
    echo "$3: $1 (less than $2 is asked for)"
    awk -v value="$1" -v ceiling="$2" 'BEGIN { exit !(value < ceiling) }' ||
        fail "$3 is $1, not below $2"
}
# pca_error K: what K principal components leave of the MNIST test pictures, as reconstruction_error.
pca_error() {
    "${CC:-cc}" -O2 -fopenmp "$SW_SOURCE_DIR/tests/models/pca.c" -lz -lm -o "$T/pca" || exit 77
    "$T/pca" "$SINGA_DATA/mnist/train-images-idx3-ubyte.gz" \
        "$SINGA_DATA/mnist/t10k-images-idx3-ubyte.gz" "$1" | cut -d ' ' -f 2
}
# nearest RECIPE LAYER: of the newest run, the share of test pictures of MNIST whose nearest
# neighbour among the training pictures' outputs of that layer has the same label.
nearest() {
    "${CC:-cc}" -O3 -fopenmp "$SW_SOURCE_DIR/tests/models/nearest.c" -lz -o "$T/nearest" || exit 77
    for split in train test; do
        "$SW" predict "$SW_SOURCE_DIR/recipes/$1" --weights @last --layer "$2" --split $split \
            --output "$T/$split.npy" --quiet >"$T/out" 2>"$T/err" || fail "predict: exit $?"
    done
    "$T/nearest" "$T/train.npy" "$SINGA_DATA/mnist/train-labels-idx1-ubyte.gz" \
        "$T/test.npy" "$SINGA_DATA/mnist/t10k-labels-idx1-ubyte.gz"
}
