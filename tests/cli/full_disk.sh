# ctest-timeout: 120
# A checkpoint that does not fit on the disk: before the last step it is an event, the previous one is
# kept and training continues; at the last step the exit code is 1, and the previous one can be resumed.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip 'only root may mount a small disk'
mkdir "$T/disk"
mount -t tmpfs -o size=4m tmpfs "$T/disk" 2>/dev/null || skip 'mounting is not allowed here'
mounted=$T/disk

# A net whose checkpoint takes about 1.7 MB: two fit, the next does not.
big='--set layer.fc1.outputs=1600'
expect 0 run "$tiny" $big --out "$T/disk/probe" --steps 1 --quiet
size=$(wc -c <"$(latest "$T/disk/probe")")
rm -rf "$T/disk/probe"
"$SW" run "$tiny" $big --out "$T/disk/run" --name full --set job.steps=60 \
    --set job.checkpoint_every=10 >"$T/out" 2>"$T/err"
got=$?
[ "$got" = 1 ] || fail "exit $got with a full disk at the last step (a checkpoint has $size bytes)"
has err 'No space left'
has out '^step=[0-9]+ level=(warning|error) .*checkpoint'
has out '^step=[56][0-9] steps=60 |^step=60 '
kept=$(latest "$T/disk/run")
[ -s "$kept" ] || fail 'no checkpoint was kept'
left=$(find "$T/disk/run" -name '*.tmp-*')
[ -z "$left" ] || fail "left behind: $left"
step=${kept##*-}
step=${step%.safetensors}
expect 0 eval "$tiny" $big --weights "$kept"

# With free space again the run resumes from there.
mount -o remount,size=64m "$T/disk"
expect 0 resume full
has out "from step $step"
[ -s "$T/disk/run/checkpoint-60.safetensors" ] || fail 'resume did not end'
