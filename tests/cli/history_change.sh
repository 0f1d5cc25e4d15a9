# history tag, note, rm, gc: each changes what it should and nothing else.
. "$(dirname "$0")/lib.sh"

expect 3 history tag 1 x
has err 'no run has been recorded'
[ -e "$SINGA_DB" ] && fail 'tag created a database'
for name in one two three; do
    expect 0 run "$tiny" --out "$T/$name" --name $name --steps 40 --quiet
done

expect 0 history tag one good 'why=lower rate'
expect 0 history tag one
[ "$(cat "$T/out")" = "$(printf 'good\t\nwhy\tlower rate')" ] || fail 'the tags of a run'
expect 0 history list --tag good
has out ' one '
hasnt out ' two '
expect 0 history list --tag 'why=lower rate'
has out ' one '
expect 0 history list --tag why=other
hasnt out ' one '
expect 0 history show one
has out '^why +lower rate$'
expect 0 history tag one --remove good
expect 0 history tag one
[ "$(cat "$T/out")" = "$(printf 'why\tlower rate')" ] || fail 'a tag that was removed'
expect 2 history tag one =x
expect 2 history tag one --remove

expect 0 history note two 'the one for the paper'
expect 0 history note two
[ "$(cat "$T/out")" = 'the one for the paper' ] || fail 'the note'
expect 0 history note two --remove
expect 0 history note two
[ -s "$T/out" ] && fail 'a note that was removed'

# Thinning: fewer rows, the same totals, the same evaluations; runs tagged keep are unchanged.
sums="select group_concat(split || name || points || min || max || round(mean, 9)) from series_stats where run_id < 4"
before=$(sql "$sums")
time_before=$(sql 'select round(total(total_ms), 6) from where_time_went')
bytes_before=$(sql 'select sum(bytes) from traffic')
expect 0 history tag three keep
expect 0 history gc --older-than 0 --keep 10 --dry-run
has out 'would remove [1-9][0-9]* points.* of 2 runs$'
[ "$(sql 'select count(*) from point')" -gt 300 ] || fail 'a dry run removed points'
expect 2 history gc --older-than 0 --keep 10
has err 'Use --yes'
expect 0 history gc --keep 10 --yes
has out ' of 0 runs; '
expect 0 history gc --older-than 0 --keep 10 --yes
has out 'removed [1-9][0-9]* points.* of 2 runs; '
[ "$(sql "$sums")" = "$before" ] || fail 'thinning changed the sums of curves'
[ "$(sql 'select round(total(total_ms), 6) from where_time_went')" = "$time_before" ] || fail 'thinning changed where time went'
[ "$(sql 'select sum(bytes) from traffic')" = "$bytes_before" ] || fail 'thinning changed the sums of traffic'
[ "$(sql "select count(*) from metrics where run_id = 3 and name = 'loss' and split = 'train'")" = 40 ] || fail 'a run tagged keep was thinned'
n=$(sql "select count(*) from metrics where run_id = 1 and name = 'loss' and split = 'train'")
[ "$n" -lt 40 ] && [ "$n" -ge 10 ] || fail "a thinned curve has $n points"
[ "$(sql "select count(*) from metrics where run_id = 1 and name = 'loss' and split = 'test'")" = 2 ] || fail 'evaluations were thinned'
[ "$(sql "select max(step) from metrics where run_id = 1 and split = 'train'")" = 40 ] || fail 'the last point went'
[ "$(sql 'pragma integrity_check')" = ok ] || fail 'integrity_check'

# A thinned run can be resumed.
expect 0 resume one --steps 50 --quiet
[ "$(sql "select points from series_stats where run_id = 1 and split = 'train' and name = 'loss'")" = 50 ] || fail 'points of a thinned run that went on'

# Notes and tags are text.
bytes=$(printf 'a\377b')
expect 2 history note one "$bytes"
has err 'notes and tags must be UTF-8 text'
expect 2 history tag one "key=$bytes"
expect 0 history note one 'über allem'

# Removal.
expect 2 history rm two
has err 'Remove run 2 "two" permanently\?'
expect 0 history rm two three --dry-run --files
has out 'would remove .*two/checkpoint-40\.safetensors'
[ "$(sql 'select count(*) from runs')" = 3 ] || fail 'a dry run removed a run'
expect 0 history rm two --yes
[ -n "$(latest "$T/two")" ] || fail 'rm removed files'
expect 0 history rm three --yes --files
[ -z "$(latest "$T/three")" ] || fail 'rm --files left checkpoints'
[ "$(sql 'select count(*) from runs')" = 1 ] || fail 'rm'
[ "$(sql 'select count(*) from point p where not exists (select 1 from series s where s.id = p.series_id)')" = 0 ] || fail 'points without a run'
[ -z "$(sql 'pragma foreign_key_check')" ] || fail 'rows without a run'
expect 3 history rm two --yes

# A run that is running is neither removed nor thinned.
start run "$tiny" --out "$T/live" --name live --steps 100000000 --quiet
live_runs() { [ "$(sql "select count(*) from point p join series s on s.id = p.series_id join runs r on r.id = s.run_id where r.name = 'live'")" -gt 0 ]; }
until_true 20 live_runs
expect 2 history rm live --yes
has err 'is running; stop it first'
expect 0 history gc live --yes
has out ' of 0 runs; '
expect 0 history tag live watched
kill -TERM "$pid"
ended 75
[ "$(sql "select value is not null from tags where key = 'watched'")" = 1 ] || fail 'a tag of a running run'
