# ctest-timeout: 300
# Jobs on several hosts that are interrupted: resume --hosts, where the other host gets the checkpoint
# if it does not have it; and restarts without a host that was killed. Every "host" is this machine,
# with a home of its own.
. "$(dirname "$0")/lib.sh"
unset RANK WORLD_SIZE SSH_CONNECTION SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
linear hosts | sed 's/^batch = .*/batch = 12\nsteps = 20\ncheckpoint_every = 0/; s/^width = .*/&\nmean = 127\nstd = 64/
    s/^lr = .*/lr = 0.001/' >"$T/r.ini"
cd "$T" || exit 1

# In place of ssh: runs the command here, as host $1, in the view of the file system that $T/view
# describes.
cat >"$T/ssh" <<'END'
#!/bin/sh
echo $$ >"$T/pid.$1"
export XDG_STATE_HOME="$T/home.$1" HOME="$T/home.$1" SINGA_DB="$T/home.$1/history.db"
mkdir -p "$HOME"
[ ! -e "$T/down.$1" ] || exit 255
shift
[ -s "$T/view" ] || exec "$@"
exec unshare --user --map-root-user --mount sh -c '. "$T/view" && exec "$@"' view "$@"
END
chmod +x "$T/ssh"
export T SINGA_SSH="$T/ssh" SINGA_REMOTE="$SW"
two='--hosts localhost,127.0.0.1 --share-machine'
three='--hosts localhost,127.0.0.1,127.0.0.2 --share-machine'
"$SW" run r.ini $two --steps 1 --quiet >"$T/out" 2>"$T/err" </dev/null
plain=
file_has err 'built without OpenSSL' && plain='--set cluster.network=trusted'

gone() {
    ! kill -0 "$(cat "$T/pid.$1")" 2>/dev/null
}
no_copies() {
    [ -z "$(find "$T"/home.*/singa-ws/hosts -type f 2>/dev/null)" ]
}
# The number of segments of the newest run.
segments() {
    sql 'SELECT count(*) FROM segments WHERE run_id = (SELECT max(id) FROM runs)'
}
# near A B: two checkpoints have the same parameters, to rounding.
near() {
    "$SW" weights "$1" diff "$2" --tolerance 1e-3 >"$T/diff" 2>&1 || fail "$1 and $2: $(cat "$T/diff")"
}

# A run that is resumed over hosts is the one that was never interrupted.
expect 0 run r.ini --out "$T/whole"
expect 0 run r.ini $two $plain --steps 10 --out "$T/parts"
expect 0 resume "$T/parts" $two --steps 20
has out '^hosts        2 hosts by --hosts and ssh'
has out 'from step 10$'
near "$T/whole/checkpoint-20.safetensors" "$T/parts/checkpoint-20.safetensors"
[ "$(segments)" = 2 ] || fail "$(segments) segments"
gone 127.0.0.1 || fail 'join has not ended'

# The same where the other host sees none of host 0's files, so that they are sent.
echo 'mount -t tmpfs none "$T/parts" && [ ! -e "$T/parts/checkpoint-20.safetensors" ]' >"$T/view"
if "$T/ssh" 127.0.0.1 true 2>/dev/null; then
    rm "$T/parts/checkpoint-20.safetensors"
    expect 0 resume "$T/parts" $two --steps 20
    near "$T/whole/checkpoint-20.safetensors" "$T/parts/checkpoint-20.safetensors"
    no_copies || fail 'a copy was left'
    weights=$T/parts/checkpoint-20.safetensors
    expect 0 run r.ini $two $plain --init-from "$weights" --steps 2
    expect 0 run r.ini $two $plain --set job.init_from="$weights" --steps 2
    no_copies || fail 'a copy was left'

    echo 'mount -t tmpfs -o size=4k none "$HOME"' >>"$T/view"
    expect 3 resume "$T/parts" $two --steps 30
    has err '^127\.0\.0\.1: singa-ws: host 127\.0\.0\.1 .*/home\.127\.0\.0\.1/singa-ws/hosts/[0-9a-f]*\.1: .*No space left'
    gone 127.0.0.1 || fail 'join has not ended'
else
    echo 'skipped a part: no user may mount a file system of his own here (unshare --user --mount)'
fi
: >"$T/view"

# lose STEPS HOSTS ARGUMENT...: trains, and meanwhile evaluates $before and kills the hosts $victims;
# again with more steps if it was too late. Sets $steps and $got.
victims=127.0.0.1 before=
lose() {
    steps=$1 hosts=$2
    shift 2
    for try in 1 2 3 4 5; do
        rm -rf "$T"/pid.* "$T"/down.* "$T/lost"
        start run r.ini $hosts $plain --set job.steps="$steps" --out "$T/lost" "$@"
        until_true 20 test -e "$T/lost/checkpoint-0.safetensors"
        sleep 0.1
        eval "$before"
        for victim in $victims; do
            kill -9 "$(cat "$T/pid.$victim")" 2>/dev/null
        done
        wait "$pid"
        got=$?
        file_has err 'wrote a checkpoint of step|lost; going on' && return
        steps=$((steps * 3))
    done
    fail 'host 1 was never killed while it trained'
}

# Of two hosts, host 0 goes on alone, to the end.
lose 3000 "$two"
[ "$got" = 0 ] || fail "exit $got"
has err '^singa-ws: host 127\.0\.0\.1 is lost after step [0-9]+; going on with localhost \(restart 1 of 3\)$'
has out "^done .*step $steps of $steps"
[ "$(grep -c '^done ' "$T/out")" = 1 ] || fail 'not one summary'
[ "$(segments)" = 2 ] || fail "$(segments) segments"
middle=$(sed -n 's/.*is lost after step \([0-9]*\);.*/\1/p' "$T/err")
written=$(sql 'SELECT group_concat(step) FROM (SELECT step FROM checkpoints
    WHERE run_id = (SELECT max(id) FROM runs) ORDER BY step)')
[ "$written" = "0,$middle,$steps" ] || fail "checkpoints of steps $written"
gone 127.0.0.1 || fail 'join has not ended'
expect 0 run r.ini --set job.steps="$steps" --out "$T/undisturbed"
near "$T/undisturbed/checkpoint-$steps.safetensors" "$T/lost/checkpoint-$steps.safetensors"

# Of three hosts two go on, the one that is left in a process of its own.
lose 1000 "$three" --json
[ "$got" = 0 ] || fail "exit $got"
has err 'going on with localhost, 127\.0\.0\.2 \(restart 1 of 3\)$'
[ "$(grep -c '"type":"summary"' "$T/out")" = 1 ] || fail 'not one summary'
[ "$(segments)" = 2 ] || fail "$(segments) segments"
[ -s "$T/lost/checkpoint-$steps.safetensors" ] || fail 'no checkpoint of the last step'
gone 127.0.0.2 || fail 'join has not ended'
no_copies || fail 'a copy was left'

# Two of three hosts are lost, together or one after the other.
victims='127.0.0.1 127.0.0.2'
lose 1000 "$three"
[ "$got" = 0 ] || fail "exit $got"
has err 'going on .*with localhost'
[ -s "$T/lost/checkpoint-$steps.safetensors" ] || fail 'no checkpoint of the last step'
victims=127.0.0.1

# A host that cannot be started again: the run stops, and can be resumed.
before=': >"$T/down.127.0.0.2"'
lose 1000 "$three"
[ "$got" = 75 ] || fail "exit $got"
has err 'host 127\.0\.0\.2 cannot be reached'
has err '^singa-ws: `singa-ws resume [0-9]+` continues the run$'
rm "$T/down.127.0.0.2"
before=

# Without restarts the run stops, and can be resumed on other hosts.
lose 1000 "$two" --set cluster.restarts=0
[ "$got" = 75 ] || fail "exit $got"
has err 'singa-ws resume [0-9]+. continues the run'
hasnt err 'going on'
expect 0 resume "$T/lost" --hosts localhost,127.0.0.2 --share-machine
[ -s "$T/lost/checkpoint-$steps.safetensors" ] || fail 'no checkpoint of the last step'
gone 127.0.0.2 || fail 'join has not ended'
