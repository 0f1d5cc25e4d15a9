# ctest-timeout: 240
# SIGINT and SIGTERM end every long-running verb in every phase: with 75 if a checkpoint can be resumed,
# else by the signal, which is 130 or 143 for a shell. SW_STOPS: the number of moments of a run in
# stages that are tested.
. "$(dirname "$0")/lib.sh"
moments=${SW_STOPS:-3}

# Whether the program has installed its SIGTERM handler (before exec the process is this shell) and has
# computed for a while.
program=$(readlink -f "$SW")
catches() {
    [ "$(readlink "/proc/$pid/exe")" = "$program" ] || return 1
    mask=$(sed -n 's/^SigCgt:[[:space:]]*[0-9a-f]*\([0-9a-f]\{4\}\)$/\1/p' "/proc/$pid/status")
    [ $((0x${mask:-0} & 0x4000)) -ne 0 ]
}
is_busy() {
    catches && awk '{ exit !($14 + $15 >= 10) }' "/proc/$pid/stat"
}
# stopped_by SIGNAL CODE: after one signal the program exits with the code and says why.
stopped_by() {
    kill -s "$1" "$pid" || fail "it has ended before SIG$1"
    ended "$2"
    has err 'stopped'
}
# no_leftovers FOLDER: no unfinished file.
no_leftovers() {
    left=$(find "$1" -name '*.tmp-*' -o -name '.doctor-*')
    [ -z "$left" ] || fail "left behind: $left"
}

# ---- in stages and between them ----

stages=$T/stages.ini
linear stages >"$stages"
cp "$stages" "$T/many.ini"
for i in $(seq 40); do
    printf '[stage s%d]\nsteps = 1\n' "$i" >>"$stages"
done
for i in $(seq "$moments"); do
    start run "$stages" --out "$T/stages$i" --name "stages$i"
    until_true 30 file_has out "^step=$((1 + i % 5)) "
    stopped_by TERM 75
    has err 'singa-ws resume'
    [ "$(sql "SELECT status FROM runs WHERE name = 'stages$i'")" = stopped ] || fail 'not stopped'
done
expect 0 resume "stages$moments" --quiet
[ -s "$T/stages$moments/checkpoint-40.safetensors" ] || fail 'the resumed run did not end'

# ---- before there is a checkpoint ----

# While stages are opened, of which so many take seconds.
for i in $(seq 400); do
    printf '[stage s%d]\nsteps = 1\n' "$i" >>"$T/many.ini"
done
start run "$T/many.ini" --out "$T/early" --name early
until_true 30 catches
stopped_by TERM 143
[ ! -e "$T/early" ] || fail 'a run that did not begin has left its folder'
start resume "stages1"
until_true 30 catches
kill -s INT "$pid"
wait "$pid"
got=$?
[ "$got" = 75 ] || [ "$got" = 130 ] || fail "resume: exit $got"

# Initial values that take minutes.
sed -e '/^\[stage/,$d' -e 's/^batch = 8/&\nsteps = 3/' -e 's/^outputs = 4/outputs = 12000/' \
    -e 's/^src = image$/&\nweight.init = orthogonal/' -e 's/^\(height\|width\) = 8/\1 = 64/' \
    "$stages" >"$T/slow.ini"
start run "$T/slow.ini" --out "$T/slow" --name slow --json
until_true 60 file_has out '"type": *"start"'
is_busy_now() {
    awk -v before="$before" '{ exit !($14 + $15 >= before + 20) }' "/proc/$pid/stat"
}
before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
until_true 60 is_busy_now
stopped_by INT 130
has err 'there is no checkpoint to resume from'
[ "$(sql "SELECT status FROM runs WHERE name = 'slow'")" = stopped ] || fail 'slow: not stopped'
[ -z "$(latest "$T/slow")" ] || fail 'slow: there is a checkpoint'
no_leftovers "$T"

# ---- the other verbs ----

expect 0 run "$tiny" --out "$T/weights" --name weights --steps 2 --quiet
many='--set data.test.records=50000000'
mkdir "$T/text"
for i in $(seq 500); do
    echo "the word number $i is not the last"
done >"$T/text/text8-head"
SINGA_DATA="$T" && export SINGA_DATA
words="$SW_SOURCE_DIR/recipes/rnnlm.ini"
expect 0 run "$words" --out "$T/words" --name words --steps 1 --quiet
# stop_each SIGNAL CODE WHEN
stop_each() {
    # shellcheck disable=SC2086
    start eval "$tiny" --weights weights $many
    until_true 30 "$3"
    stopped_by "$1" "$2"
    # shellcheck disable=SC2086
    start predict "$tiny" --weights weights $many --output "$T/rows.npy"
    until_true 30 "$3"
    stopped_by "$1" "$2"
    start sample "$words" --weights words --length 1000000000
    until_true 30 "$3"
    stopped_by "$1" "$2"
    start data stats "$tiny" --set data.train.records=50000000
    until_true 30 "$3"
    stopped_by "$1" "$2"
    start data inspect --format synthetic --set records=50000000 --verify
    until_true 30 "$3"
    stopped_by "$1" "$2"
    start check "$T/many.ini"
    until_true 30 catches
    stopped_by "$1" "$2"
}
stop_each INT 130 catches
stop_each TERM 143 is_busy
start doctor
until_true 30 catches
stopped_by TERM 143
[ ! -e "$T/rows.npy" ] || fail 'a stopped predict has left its array'
no_leftovers "$T"

# A second signal does not wait until the first is handled.
# shellcheck disable=SC2086
start eval "$tiny" --weights weights $many
until_true 30 is_busy
kill -s INT "$pid"
kill -s TERM "$pid" 2>/dev/null
wait "$pid"
got=$?
[ "$got" = 130 ] || [ "$got" = 143 ] || fail "two signals: exit $got"
