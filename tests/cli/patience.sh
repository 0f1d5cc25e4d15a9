# ctest-timeout: 120
# Early stopping: a run that is killed or stopped at any moment and resumed ends at the same evaluation,
# with the same bits; it says why it ended, and whose parameters it has.
. "$(dirname "$0")/lib.sh"

early="--set job.steps=100000 --set job.eval_every=20 --set job.patience=60 --set job.best_by=loss
    --set updater.lr=0.05 --set job.checkpoint_every=50 --set job.keep_checkpoints=2"
steps_of() {
    sql "SELECT max(m.step) FROM metrics m JOIN runs r ON r.id = m.run_id WHERE r.name = '$1'"
}

expect 0 run "$tiny" --out "$T/whole" --name whole $early
end=$(steps_of whole)
[ "$end" -lt 100000 ] || fail 'it did not end early'
best=$((end - 60 * 20))
has out "^best +loss [0-9.e-]+ at step $best\$"
has out "patience = 60 is over: the best loss is still [0-9.e-]+, of step $best\"\$"
has out "step $end: ends with the parameters of step $best, whose loss of [0-9.e-]+ is the best\"\$"
expect 0 history show whole
has out "patience = 60 is over: the best loss is still [0-9.e-]+, of step $best\$"
has out "^ *$best .*\(best\)$"
have_python && same_tensors "$T/whole/checkpoint-$best.safetensors" "$T/whole/checkpoint-$end.safetensors"

# The metrics of the parameters that it ends with are those of the best evaluation.
expect 0 eval "$tiny" --weights whole --json
loss=$(sed 's/.*"loss":\([0-9.e-]*\).*/\1/' "$T/out")
expect 0 eval "$tiny" --weights whole:best --json
[ "$loss" = "$(sed 's/.*"loss":\([0-9.e-]*\).*/\1/' "$T/out")" ] || fail "the loss of its end is $loss"

# ended_alike NAME: the run of that name and folder has ended as the one that was left alone.
ended_alike() {
    [ "$(steps_of "$1")" = "$end" ] || fail "$1 ended at $(steps_of "$1"), not $end"
    have_python && same_tensors "$T/whole/checkpoint-$end.safetensors" "$T/$1/checkpoint-$end.safetensors"
}

for at in $best $((best + 30)) $((end - 20)) $((end - 1)); do
    expect 0 run "$tiny" --out "$T/at$at" --name "at$at" --quiet $early --steps "$at"
    expect 0 resume "at$at" --quiet --steps 100000
    ended_alike "at$at"
done
for signal in KILL TERM; do
    start run "$tiny" --out "$T/$signal" --name "$signal" $early
    for round in 1 2; do
        until_true 20 file_has out '^step=[0-9]+ checkpoint='
        kill -s "$signal" "$pid"
        wait "$pid" 2>/dev/null
        got=$?
        [ "$got" = 137 ] || [ "$got" = 75 ] || fail "exit $got: it was not stopped"
        start resume "$signal"
    done
    ended 0
    ended_alike "$signal"
done

# --steps at the evaluation that ends it: it says so. Beyond it, the run keeps the parameters that it has.
expect 0 run "$tiny" --out "$T/exact" --name exact $early --steps "$end"
has out "patience = 60 is over: the best loss is still [0-9.e-]+, of step $best\"\$"
ended_alike exact
expect 0 resume exact --steps $((end + 10))
hasnt out 'ends with the parameters'

# The checkpoint of the best evaluation cannot be written: it ends with the best of those that there are.
expect 0 run "$tiny" --out "$T/lost" --name lost --quiet $early --steps $((best - 10))
mkdir "$T/lost/checkpoint-$best.safetensors"
expect 0 resume lost --steps 100000
has out "the best parameters, those of step $best, cannot be restored: their checkpoint was not written\"\$"
has out "patience = 60 is over: the best loss is still [0-9.e-]+, of step $best\"\$"
hasnt out 'ends with the parameters of .* is the best"$'

# An infinite value is not the best: a checkpoint could not tell a resumed run.
{
    linear endless
    sed -n '/^\[data test\]/,/^crop/p' "$tiny" | sed '/^crop/d; s/= 12/= 8/'
    printf '[layer perplexity]\ntype = perplexity\nsrc = fc, label\ninclude = eval\n'
} >"$T/endless.ini"
endless="--set job.steps=100 --set job.eval_every=2 --set job.patience=2 --set job.best_by=perplexity
    --set updater.lr=0 --set layer.fc.weight.init=gaussian --set layer.fc.weight.std=100"
expect 0 run "$T/endless.ini" --out "$T/endless" --name endless $endless
has out 'patience = 2 is over: no evaluation has a finite perplexity"$'
expect 0 run "$T/endless.ini" --out "$T/again" --name again --quiet $endless --steps 3
expect 0 resume again --quiet --steps 100
[ "$(steps_of again)" = "$(steps_of endless)" ] || fail "it ended at step $(steps_of again)"

# Nothing to count: errors name the remedy.
expect 2 check "$tiny" --set job.patience=3 --set job.eval_every=0
has err 'job: patience = 3: evaluations are counted, and there is only one, at the end'
has err 'set eval_every'
linear none >"$T/none.ini"
expect 2 check "$T/none.ini" --set job.steps=10 --set job.eval_every=5 --set job.patience=3
has err 'patience = 3: evaluations are counted, and there are no data for them'
expect 2 check "$tiny" --set job.patience=3 --set job.checkpoint_best=no
has err 'checkpoint_best = no: no conflicts with patience'
expect 2 check "$tiny" --set job.patience=3 --set job.checkpoint_ends=no
has err 'checkpoint_ends = no: no conflicts with patience'
expect 2 check "$tiny" --set job.patience=-1
has err 'patience = -1: must be'
