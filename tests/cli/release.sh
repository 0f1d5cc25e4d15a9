# ctest-timeout: 120
# pause --release: the run gives back memory, cores and GPUs, another one has them without a warning, and
# what continues ends with the bits of a run that was never paused. stop ends it while it is paused.
. "$(dirname "$0")/lib.sh"
export XDG_RUNTIME_DIR="$T/run"
mkdir -m 700 "$T/run"
lasts='--set job.eval_every=0 --set job.steps=100000000'
set_of() { # NAME: how many cores ps shows for the run; 0: none
    "$SW" ps | awk -v name="$1" '$2 == name { print $5, $8 }'
}

for device in cpu sim:gpus=1; do
    name=$(echo "$device" | cut -c1-3)
    start run "$tiny" --name "$name" --out "$T/$name.d" --device "$device" $lasts --no-ui
    until_true 20 file_has out '^step=5 '
    expect 0 pause --release "$name"
    has err "^singa-ws: run [0-9]+ \"$name\" is paused after step [0-9]+ and has given back its memory, cores and GPUs"
    step=$(sed 's/.*after step \([0-9]*\) .*/\1/' "$T/err")
    [ "$(set_of "$name")" = 'released --' ] || fail "ps: $("$SW" ps)"
    [ -e "$T/$name.d/checkpoint-$step.safetensors" ] || fail "no checkpoint of step $step"
    kill -0 "$pid" || fail 'the process has ended'
    paused=$pid

    # Another run takes all cores, and the paused one still listens.
    expect 0 run "$tiny" --name other --steps 2 --out "$T/other-$name.d"
    hasnt out 'used by run'
    expect 0 ctl "$name" note still here
    expect 0 pause --release "$name"
    expect 0 unpause "$name"
    pid=$paused
    trains_on() {
        [ "$("$SW" ps | awk -v name="$name" '$2 == name && $5 == "running" { print $6 }')" -gt "$step" ] 2>/dev/null
    }
    until_true 20 trains_on
    expect 0 stop "$name"
    pid=$paused
    ended 75
    last=$(latest "$T/$name.d")
    end=$(basename "$last" .safetensors)
    end=${end#checkpoint-}
    [ "$end" -gt "$step" ] || fail "it ended at step $end, and was paused at $step"
    expect 0 run "$tiny" --name "straight-$name" --out "$T/straight-$name.d" --device "$device" $lasts --steps "$end"
    if have_python; then same_tensors "$last" "$T/straight-$name.d/checkpoint-$end.safetensors"; fi
done
[ "$(sql "SELECT count(*) FROM runs WHERE name = 'cpu'")" = 1 ] || fail 'it continued as another run'

# stop, and SIGTERM, while it is paused; then it can be resumed.
for how in stop term; do
    start run "$tiny" --name "$how" --out "$T/$how.d" $lasts
    until_true 20 file_has out '^step=5 '
    expect 0 pause "$how" # from an ordinary pause, too
    kept=$pid
    expect 0 pause --release "$how"
    if [ $how = stop ]; then expect 0 stop stop; else kill -TERM "$kept"; fi
    pid=$kept
    ended 75
    [ "$(sql "SELECT status FROM runs WHERE name = '$how'")" = stopped ] || fail 'it is not stopped'
    at=$(basename "$(latest "$T/$how.d")" .safetensors)
    expect 0 resume "$how" --steps $((${at#checkpoint-} + 2))
done
[ -z "$(ls "$T/run/singa-ws")" ] || fail "left behind: $(ls "$T/run/singa-ws")"
