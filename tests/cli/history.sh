# history: list, show, sql; as text and JSON; read-only; nothing is created.
. "$(dirname "$0")/lib.sh"

expect 3 history
has err '^singa-ws: no history at .*no run has been recorded'
[ -e "$SINGA_DB" ] && fail 'history created a database'

expect 0 run "$tiny" --out "$T/a" --name first --steps 4 --quiet
expect 0 run "$tiny" --out "$T/b" --name second --steps 2 --quiet

expect 0 history
cp "$T/out" "$T/list"
has out '^ *ID +NAME +STATUS +STEP'
has out '^ *1 +first +done +4/'
sed -n 2p "$T/out" | grep -q second || fail 'the newest run is not the first line'
expect 0 history list
cmp -s "$T/out" "$T/list" || fail 'history and history list differ'
# list cuts a long name between characters; nothing else cuts it.
long=$(printf '\303\244%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 \
    31 32 33 34 35 36 37 38 39 40)
SINGA_DB="$T/long.db" expect 0 run "$tiny" --out "$T/long" --name "${long}tail" --steps 1 --quiet
SINGA_DB="$T/long.db" expect 0 history
has out "^ *1 +$long\.\.\. +done "
SINGA_DB="$T/long.db" expect 0 history show
has out "^run +1 ${long}tail\$"

expect 0 history show first
has out '^run +1 first$'
has out '^status +done$'
has out '^train +loss +4 '
has out '^forward +'
has out 'checkpoint-4\.safetensors'
expect 0 history show
has out '^run +2 second$'
expect 0 history show fi
has out '^run +1 first$'
# After a resume: the command of the run, and that of each segment.
SINGA_DB="$T/twice.db" expect 0 run "$tiny" --out "$T/twice" --name twice --steps 2 --quiet
SINGA_DB="$T/twice.db" expect 0 resume twice --steps 4 --quiet
SINGA_DB="$T/twice.db" expect 0 history show twice
has out '^command +singa-ws run .* --name twice --steps 2 --quiet$'
has out '^ +0 .* singa-ws run .* --name twice --steps 2 --quiet$'
has out '^ +2 .* singa-ws resume twice --steps 4 --quiet$'
expect 3 history show frist
has err "did you mean 'first'"

# sql: prints only rows, NULL is empty, and characters that would break a row are escaped.
expect 0 history sql "select count(*) from metrics where name='loss' and split='train' and run_id=1"
[ "$(cat "$T/out")" = 4 ] || fail 'sql printed something else than the one value'
expect 0 history sql "select 1, null, 'a' || char(9) || 'b' || char(10) || 'c' || char(92), 0.5"
[ "$(cat "$T/out")" = "$(printf '1\t\ta\\tb\\nc\\\\\t0.5')" ] || fail 'a row with NULL, tab, newline and backslash'
expect 0 history sql --header "select id, name from runs order by id"
[ "$(cat "$T/out")" = "$(printf 'id\tname\n1\tfirst\n2\tsecond')" ] || fail 'names of columns and rows'
expect 0 history sql "select id from runs where id = 77"
[ -s "$T/out" ] && fail 'an empty answer is not empty'

before=$(sql 'select count(*) from runs')
for bad in 'delete from runs' "attach '$T/x.db' as x" 'pragma user_version = 9' 'selec 1' \
    'select 1; delete from runs' 'select nothing from runs' "vacuum into '$T/x.db'"; do
    expect 2 history sql "$bad"
    has err '^singa-ws: SQL: '
    [ -s "$T/out" ] && fail "an answer to: $bad"
done
[ "$(sql 'select count(*) from runs')" = "$before" ] || fail 'a query has written'
[ -e "$T/x.db" ] && fail 'a query has made a file'

expect 2 history sql
expect 2 history sql 'select 1' 'select 2'
expect 2 history shwo
has err "did you mean 'show'"
expect 2 history list 1
expect 2 history --header
expect 0 history --db "$SINGA_DB" show 1
has out '^run +1 first$'
expect 3 history show first:best
has err "no run 'first:best', but there is 'first'; first:best and first:STEP are its checkpoints"
expect 0 history list --limit 1
[ "$(wc -l <"$T/out")" = 2 ] || fail 'list --limit 1 has not one run'
expect 0 history list --name 'fir*'
has out first
hasnt out second
expect 0 history list --status running
hasnt out first
expect 2 history list --status runing
has err "did you mean 'running'"
expect 0 history list --sort loss
expect 2 history list --sort size
has err '^singa-ws: --sort=size is unknown: use id, loss, accuracy, speed, or a metric of the history: .*loss'
expect 2 history list --status ended-well
has err 'use one of running, '
expect 2 history --sideways
expect 0 history --help
has out 'where_time_went'

if have_python; then
    expect 0 history --json
    python3 -c 'import json,sys
runs = json.load(open(sys.argv[1]))
assert [r["name"] for r in runs] == ["second", "first"], runs
assert runs[1]["last_step"] == 4 and runs[1]["status"] == "done"' "$T/out" || fail 'list --json'
    expect 0 history show 1 --json
    python3 -c 'import json,sys
run = json.load(open(sys.argv[1]))
assert run["id"] == 1 and run["checkpoints"][0]["step"] == 4
assert any(m["name"] == "loss" and m["points"] == 4 for m in run["metrics"])' "$T/out" || fail 'show --json'
    expect 0 history sql --json "select 1 as a, null as b, '1' as c, 2.5 as d"
    python3 -c 'import json,sys
assert json.load(open(sys.argv[1])) == [{"a": 1, "b": None, "c": "1", "d": 2.5}]' "$T/out" || fail 'sql --json'
fi

# A closed pipe is no failure, however many rows there are.
"$SW" history sql "with recursive n(i) as (values (1) union all select i + 1 from n where i < 300000)
    select i from n" 2>"$T/err" | head -n 1 >"$T/out"
[ "$(cat "$T/out")" = 1 ] && [ ! -s "$T/err" ] || fail 'rows into a pipe that closes'

# A database of a newer program, and a file that is no database.
printf 'this is not a database, and it is long enough that nobody could take it for an empty one; really.' \
    >"$T/junk.db"
expect 3 history --db "$T/junk.db"
has err '^singa-ws: .*not a database'
