# Every recipe, at a small batch, within the smallest budget that it says would do and within one
# half-way to none: after two steps the parameters have the bits of a run without a budget; on the
# CPU with one and two workers, and on simulated GPUs. Where groups go their own ways no two runs have
# the same bits: such recipes are left out.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
# Data made by code, and fully connected layers of which files stay small.
SINGA_DATA=$T/none
small() {
    echo --steps 2 --oversubscribe
    # Where rows carry something on there are as many of them as there are streams.
    grep -q '^streams' "$1" || echo --set job.batch=4 --set job.eval_batch=4
    grep -q '^include = share/imagenet.ini' "$1" && echo --set data.test.records=4
    grep -q '^type = log_likelihood' "$1" &&
        echo --set layer.likelihood.chains=2 --set layer.likelihood.temperatures=5
    grep -q '^type = variational_bound' "$1" &&
        echo --set layer.bound.chains=2 --set layer.bound.temperatures=5
    for layer in fc6 fc7; do
        grep -q "^\[layer $layer\]" "$1" && echo --set "layer.$layer.outputs=32"
    done
}
# within NAME BUDGET: the run's last checkpoint is that of the run without.
within() {
    "$SW" run "$recipe" --out "$T/$1" --no-ui $given --set job.memory="$2" >"$T/out" 2>"$T/err" ||
        fail "$recipe: $given: memory = $2: exit $?"
    "$SW" weights "$T/kept/checkpoint-2.safetensors" diff "$T/$1/checkpoint-2.safetensors" \
        >"$T/diff" || { cat "$T/diff"; fail "$recipe: $given: memory = $2 changes values"; }
    grep '^budget' -A2 "$T/out" | grep -E "[0-9] (computed|swapped)" | sed 's/^ */    /'
    rm -rf "$T/${1:?}"
}
budgets() {
    echo "$recipe $given" | sed 's|.*/recipes/||'
    "$SW" run "$recipe" --out "$T/kept" --no-ui $given >"$T/out" 2>"$T/err" ||
        fail "$recipe: $given: exit $?"
    "$SW" check "$recipe" $(echo "$given" | sed 's/--steps 2//') --set job.memory=fit:1 >"$T/out" 2>"$T/err" &&
        fail "$recipe: $given: one byte is enough"
    least=$(sed -n 's/.*budget is memory = fit:\([0-9]*\);.*/\1/p' "$T/err")
    [ -n "$least" ] || fail "$recipe: $given: no least budget is named"
    within least "fit:$least"
    within more "fit:$((least + least / 10))"
    rm -rf "$T/kept"
}
for recipe in "$SW_SOURCE_DIR"/recipes/*.ini; do
    grep -qE '^(framework|consistency) *= *(downpour|hogwild|async|ssp)' "$recipe" && continue
    # Each stage of a run needs a budget of its own.
    "$SW" check "$recipe" | grep -q '^stage ' && continue
    # One that begins with another's checkpoint has none here.
    grep -q '^init_from' "$recipe" && continue
    base=$(small "$recipe" | tr '\n' ' ')
    given=$base
    budgets
    given="$base --set cluster.workers_per_group=2"
    budgets
    given="$base --device sim:gpus=2,pcie=1GB/s --set cluster.workers_per_group=2"
    budgets
done
