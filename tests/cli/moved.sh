# ctest-timeout: 90
# resume FOLDER: a run whose folder was moved, or copied to another machine with other paths and another
# history, goes on as if it had never been stopped.
. "$(dirname "$0")/lib.sh"
mkdir "$T/here" "$T/there"
cd "$T/here" || exit 1
i=0
while [ $i -lt 32 ]; do
    echo "$((i % 7)),$((i % 5)),$((i % 3)),$((i % 2)),$((i % 4))"
    i=$((i + 1))
done >rows.csv
linear moving | sed '/^records\|^height\|^width\|^classes/d; s/^batch = 8/&\nsteps = 40\neval_every = 10/; s/^format = synthetic/format = csv\npaths = ${SINGA_DATA}\/rows.csv\nshuffle = yes/' >moving.ini
SINGA_DATA=$T/here expect 0 run moving.ini --out whole --name whole --quiet
SINGA_DATA=$T/here expect 0 run moving.ini --out first --steps 20 --quiet

# Moved: the message says what to do, and that works.
mv first second
expect 3 resume moving
has err 'are missing from .*first; if its folder was moved, use the path of the folder$'
expect 0 resume second --steps 30
has out '^run +3, moving .* 30 steps .*from step 20$'
[ "$(sql "SELECT status || ' ' || out_dir FROM runs WHERE id = 3")" = "done $T/here/second" ] || fail 'run 3'
[ "$(sql 'SELECT from_step FROM segments WHERE run_id = 3')" = 20 ] || fail 'its segment begins elsewhere'
[ "$(sql 'SELECT min(step) FROM metrics WHERE run_id = 3')" = 21 ] || fail 'its curve begins elsewhere'

# It is an ordinary run from then on, by number, name, and folder.
expect 0 resume second --steps 35 --quiet
expect 0 eval moving --json --split train
[ "$(sql 'SELECT count(*) FROM runs')" = 3 ] || fail 'a known folder became another run'

# Another machine: another history, and the data elsewhere. The newest checkpoint was damaged on the way.
cp -r second "$T/there/copy"
cp rows.csv "$T/there/rows.csv"
mv rows.csv away.csv
mv moving.ini away.ini
cd "$T/there" || exit 1
printf 'x' | dd of=copy/checkpoint-35.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
export XDG_STATE_HOME="$T/there/state" SINGA_DB="$T/there/history.db"
expect 3 resume copy
has err 'here/rows\.csv'
[ "$(sql 'SELECT count(*) FROM runs' 2>/dev/null)" = "" ] || fail 'a run that could not start is stored'
expect 0 resume copy --set "env.SINGA_DATA=$T/there"
has err 'checkpoint-35.*trying the previous checkpoint, of step 30'
has out '^run +1, moving .* 40 steps .*from step 30$'
have_python && same_tensors "$T/here/whole/checkpoint-40.safetensors" "$T/there/copy/checkpoint-40.safetensors"
expect 0 resume copy
has err 'already at step 40 of 40'

# A folder of a run whose recipe or --set names a history goes on in that one, not in the default one.
linear default | sed 's/^batch = 8/&\nsteps = 4/' >default.ini
SINGA_DB='' expect 0 run default.ini --steps 1 --quiet
for given in "$T/of-recipe.db" "$T/of-set.db"; do
    name=$(basename "$given" .db)
    linear "$name" | sed "s|^batch = 8|&\nsteps = 4\ndb = $T/of-recipe.db|" >"$name.ini"
    SINGA_DB='' expect 0 run "$name.ini" --set "job.db=$given" --out "$name" --steps 2 --quiet
    SINGA_DB='' expect 0 resume "$name" --steps 4 --quiet
    [ "$("$SW" history sql --db "$given" "SELECT count(*) FROM segments s JOIN runs r ON r.id = s.run_id
        WHERE r.name = '$name'" | tail -n 1)" = 2 ] || fail "$name did not go on in $given"
done
SINGA_DB='' expect 0 resume of-recipe --set "job.db=$T/of-set.db" --steps 6 --quiet
[ "$("$SW" history sql --db "$T/of-set.db" "SELECT count(*) FROM runs" | tail -n 1)" = 2 ] ||
    fail 'resume --set job.db was ignored'

# What is no such folder.
mkdir empty
expect 3 resume empty
has err "no run 'empty'"
exit 0
