# Damaged data files are errors, never a reason for the fallback: the message names file and
# expectation, and nothing is created. Errors of the recipe come first.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
mkdir -p data/cifar10
export SINGA_DATA="$T/data"
recipe=$SW_SOURCE_DIR/recipes/cifar10-quick.ini

refused() {
    expect "$1" run "$2" --out "$T/out-data" --no-ui
    [ -s "$T/out" ] && fail 'output on stdout'
    [ -e "$T/out-data" ] && fail 'the folder was created'
    [ -e "$SINGA_DB" ] && fail 'the history was created'
    return 0
}

# One byte less than two records, and an undamaged test set.
head -c 6145 /dev/zero >data/cifar10/data_batch_1.bin
head -c 6146 /dev/zero >data/cifar10/test_batch.bin
refused 3 "$recipe"
has err 'data_batch_1\.bin'
has err '3073'

# A label that no class has.
head -c 6146 /dev/zero | tr '\000' '\377' >data/cifar10/data_batch_1.bin
"$SW" run "$recipe" --out "$T/out-label" --steps 1 >"$T/out" 2>"$T/err" && fail 'label 255 was taken'
has err 'data_batch_1\.bin'
has err '255'

# An error of the recipe is reported before any file is opened.
sed 's/^momentum = 0.9/momentum = 9/' "$recipe" >broken.ini
refused 2 broken.ini
has err '^broken\.ini:[0-9]+:[0-9]+: .*momentum'

# With undamaged files there is no fallback.
head -c 614600 /dev/zero >data/cifar10/data_batch_1.bin
expect 0 run "$recipe" --out "$T/sound" --steps 1 --set job.batch=4 --set job.eval_batch=2
hasnt out 'fallback'
has out '^data .*cifar10.*200 records'
