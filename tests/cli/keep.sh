# ctest-timeout: 120
# Checkpoint retention and the best checkpoint: on disk, in the history, for eval, and after a resume.
. "$(dirname "$0")/lib.sh"

files() {
    ls "$1" | sed -n 's/^checkpoint-\(.*\)\.safetensors$/\1/p' | sort -n | tr '\n' ' '
}
rows() {
    "$SW" history sql "SELECT step FROM checkpoints c JOIN runs r ON r.id = c.run_id
        WHERE r.name = '$1' ORDER BY step" | tr '\n' ' '
}
best() {
    sql "SELECT step FROM checkpoints c JOIN runs r ON r.id = c.run_id
        WHERE r.name = '$1' AND is_best = 1"
}
# The step of a run's best value, among steps that have a checkpoint: the first of equal ones.
best_of() {
    sql "SELECT m.step FROM metrics m JOIN runs r ON r.id = m.run_id WHERE r.name = '$1'
        AND m.split = 'test' AND m.name = '$2' AND m.step % 5 = 0
        ORDER BY m.value $3, m.step LIMIT 1"
}

# By default all are kept; the best is the first one with the best accuracy.
expect 0 run "$tiny" --out "$T/all" --name all --quiet --set job.checkpoint_every=5 \
    --set job.eval_every=5
[ "$(files "$T/all")" = '0 5 10 15 20 25 30 35 40 ' ] || fail "files: $(files "$T/all")"
[ "$(rows all)" = "$(files "$T/all")" ] || fail "rows: $(rows all)"
[ "$(best all)" = "$(best_of all accuracy DESC)" ] || fail "best: $(best all)"

# best by loss: the smallest loss.
expect 0 run "$tiny" --out "$T/loss" --name loss --quiet --set job.checkpoint_every=5 \
    --set job.eval_every=5 --set job.best_by=loss
[ "$(best loss)" = "$(best_of loss loss ASC)" ] || fail "best by loss: $(best loss)"
expect 2 check "$tiny" --set job.best_by=acuracy
has err "^--set job\.best_by=acuracy: job: best_by = acuracy: evaluation has no such metric"
has err "did you mean 'accuracy'"

# The newest two and the best.
keep="--set job.checkpoint_every=5 --set job.eval_every=5 --set job.keep_checkpoints=2"
expect 0 run "$tiny" --out "$T/two" --name two --quiet $keep
best=$(best two)
wanted=$(printf '%s\n' "$best" 35 40 | sort -nu | tr '\n' ' ')
[ "$(files "$T/two")" = "$wanted" ] || fail "kept $(files "$T/two"), not $wanted"
[ "$(rows two)" = "$wanted" ] || fail "rows $(rows two), not $wanted"
[ "$best" = "$(best all)" ] || fail "the best is $best, not $(best all)"
have_python && same_tensors "$T/all/checkpoint-40.safetensors" "$T/two/checkpoint-40.safetensors"

# eval of the newest, the best, and that of a step.
expect 0 eval "$tiny" --weights two --json
has out '"step":40[,}]'
expect 0 eval "$tiny" --weights two:best --json
has out "\"step\":$best[,}]"
expect 0 eval "$tiny" --weights best --json
has out "\"step\":$best[,}]"
has out '"run_name":"two"'
expect 0 eval "$tiny" --weights two:35 --json
has out '"step":35[,}]'
expect 3 eval "$tiny" --weights two:1
has err 'no checkpoint of step 1 on disk'
expect 0 history show two
has out "^ *$best .*\(best\)$"

# An evaluation that is better than all before writes a checkpoint.
expect 0 run "$tiny" --out "$T/best" --name best-only --quiet --set job.eval_every=5 \
    --set job.checkpoint_best=yes --set job.keep_checkpoints=1
[ "$(best best-only)" = "$(best all)" ] || fail "checkpoint_best: $(best best-only)"
wanted=$(printf '%s\n' "$(best all)" 40 | sort -nu | tr '\n' ' ')
[ "$(files "$T/best")" = "$wanted" ] || fail "kept $(files "$T/best"), not $wanted"

# A resume knows the best so far, and removes checkpoints of the previous segment, but not the one that
# it starts from.
expect 0 run "$tiny" --out "$T/half" --name half --quiet $keep --steps 20
expect 0 resume half --steps 25 --quiet
case " $(files "$T/half")" in
*' 20 25 '*) ;;
*) fail "after the resume: $(files "$T/half")" ;;
esac
expect 0 resume half --steps 40 --quiet
[ "$(best half)" = "$best" ] || fail "the best of the resumed run is $(best half), not $best"
wanted=$(printf '%s\n' "$best" 25 35 40 | sort -nu | tr '\n' ' ')
[ "$(files "$T/half")" = "$wanted" ] || fail "kept $(files "$T/half"), not $wanted"
[ "$(rows half)" = "$wanted" ] || fail "rows $(rows half), not $wanted"

# A file of another run in the folder is not removed.
expect 0 run "$tiny" --out "$T/shared" --name first --quiet $keep --steps 10
expect 0 run "$tiny" --out "$T/another" --name second --quiet --steps 5 --set job.seed=9
cp "$T/another/checkpoint-5.safetensors" "$T/shared"
expect 0 resume first --steps 20 --quiet
[ -e "$T/shared/checkpoint-5.safetensors" ] || fail "another run's checkpoint was removed"

# Without checkpoints at the ends a run that is done leaves none; a stopped one does, and can be resumed.
expect 0 run "$tiny" --out "$T/none" --name none --quiet --set job.checkpoint_ends=no
[ -z "$(files "$T/none")" ] || fail "checkpoint_ends = no left $(files "$T/none")"
expect 3 resume none
has err 'run [0-9]+ "none" has no checkpoint$'
# An older run of the name that has one is named.
expect 0 run "$tiny" --out "$T/hides" --name first --quiet --set job.checkpoint_ends=no
older=$(sql "SELECT min(id) FROM runs WHERE name = 'first'")
expect 3 eval first
has err "run [0-9]+ \"first\" has no checkpoint; run $older has the same name and one: use $older\$"
expect 0 run "$tiny" --out "$T/middle" --quiet --set job.checkpoint_ends=no --set job.checkpoint_every=15
[ "$(files "$T/middle")" = '15 30 ' ] || fail "in the middle: $(files "$T/middle")"
expect 0 run "$tiny" --out "$T/reached" --quiet --set job.checkpoint_ends=no --set 'job.stop_at=loss<=1000'
[ -z "$(files "$T/reached")" ] || fail "stop_at left $(files "$T/reached")"
start run "$tiny" --out "$T/stopped" --name stopped --set job.checkpoint_ends=no \
    --set job.steps=100000000 --set job.eval_every=0
until_true 20 file_has out '^step=5 '
kill -s TERM "$pid"
ended 75
step=$(files "$T/stopped" | tr -d ' ')
[ "${step:-0}" -ge 5 ] || fail "SIGTERM left '$(files "$T/stopped")'"
expect 0 resume stopped --steps $((step + 2)) --quiet
expect 2 check "$tiny" --set job.checkpoint_ends=no --set job.on_nan=rollback
has err 'no conflicts with on_nan = rollback'
