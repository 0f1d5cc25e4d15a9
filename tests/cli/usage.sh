# Help, version, and wrong command lines: GNU conventions, exit 2, nothing on stdout.
. "$(dirname "$0")/lib.sh"

expect 0 --version
has out '^singa-ws [0-9]+\.[0-9]+'
expect 0 --help
has out '^Usage: singa-ws VERB'
for verb in run resume eval check topo layers explain weights predict doctor; do
    grep -qE "^  $verb +[a-z]" "$T/out" || fail "--help does not list $verb"
done
[ -s "$T/err" ] && fail "--help writes to stderr"

for verb in run resume eval check topo layers explain weights predict doctor; do
    expect 0 "$verb" --help
    has out "^Usage: singa-ws $verb "
    has out '^      --help +[a-z]'
    has out '^      --json'
    expect 0 "$verb" --version
    has out '^singa-ws [0-9]'
    expect 2 "$verb" --no-such-option
    has err "^singa-ws $verb: unknown option '--no-such-option'"
    has err "Try 'singa-ws $verb --help'"
    [ -s "$T/out" ] && fail "$verb: an error on stdout"
done
expect 0 run --help
for option in steps name out init-from set device db quiet no-ui; do
    has out "^      --$option"
done
has out '^  -v, --verbose'

for word in -h help; do
    expect 0 "$word"
    has out '^Usage: singa-ws VERB'
done
for word in -V version; do
    expect 0 "$word"
    has out '^singa-ws [0-9]'
done
expect 0 help run
has out '^Usage: singa-ws run '

# wrong PATTERN ARGUMENT...
wrong() {
    pattern=$1
    shift
    expect 2 "$@"
    has err "$pattern"
    [ -s "$T/out" ] && fail "$*: an error on stdout"
    [ -e "$SINGA_DB" ] && fail "$*: the history was created"
    [ -e "$XDG_STATE_HOME" ] && fail "$*: the state directory was created"
    return 0
}
wrong "unknown verb 'runn'; did you mean 'run'\?" runn
wrong "unknown verb 'frobnicate'" frobnicate
# Words from other programs.
for pair in train:run fit:run test:eval infer:predict; do
    wrong "unknown verb '${pair%:*}'; use '${pair#*:}'" "${pair%:*}" "$tiny"
done
wrong "unknown option '--epochs'; use --set job\.epochs=VALUE" run --epochs 3 "$tiny"
wrong "unknown option '--gpu'; use --device cuda" run "$tiny" --gpu
wrong "unknown option '--cpu'; use --device cpu" run "$tiny" --cpu
wrong "unknown option '--gpu'; use --device cuda" run "$tiny" --gpu=0
wrong "unknown option '--lr'; use --set updater\.lr=VALUE" run --lr=0.1 "$tiny"
wrong "the file or run comes first: singa-ws weights a diff" weights diff a b
wrong "unknown option '--learning-rate'; use --set updater\.lr=VALUE" run --learning-rate 0.1 "$tiny"
wrong "unknown option '--batch-size'; use --set job\.batch=VALUE" run --batch-size 3 "$tiny"
wrong "unknown option '--momentum'; use --set updater\.momentum=VALUE" check "$tiny" --momentum=0.9
wrong "unknown option '--num-workers'; use --set data\.train\.workers=VALUE" run --num-workers=2 "$tiny"
wrong "unknown option '--pretrained'; use --init-from" run --pretrained x "$tiny"
# Advice is given only for what the verb can do.
wrong "unknown option '--epochs'$" history list --epochs=3
wrong "unknown option '--json'" --json
wrong 'RECIPE is missing' run
wrong 'RECIPE is missing' eval --json
wrong "did you mean '--steps'" run --step5 3 "$tiny"
wrong 'must be a whole number' run --steps many "$tiny"
wrong 'must be 1 or more' run --steps 0 "$tiny"
wrong 'must be a whole number' run --steps 99999999999999999999 "$tiny"
wrong 'needs an argument' run "$tiny" --set
wrong 'takes no argument' run --json=yes "$tiny"
wrong 'is ambiguous' run --n x "$tiny"
wrong "unknown option '-x'" run -x "$tiny"
wrong "unknown option '-x'" run --json -vx "$tiny"
wrong 'unexpected argument' run "$tiny" "$tiny"
wrong 'must not be empty' run --out= "$tiny"
# Verbs that are not implemented are unknown.
for verb in index train; do
    wrong "unknown verb '$verb'" "$verb"
done

# Options may follow the recipe, be abbreviated, and end with --.
expect 0 check "$tiny" --quiet
expect 0 check --qui -- "$tiny"
expect 3 check -- --quiet
has err '--quiet'
expect 3 run "$T/none.ini"
has err 'none\.ini'
wrong "name=7: a name of digits only would be read as the number of a run" run "$tiny" --name 7
expect 2 check "$tiny" --set job.name=7
has err 'job: name = 7: digits only would be read as the number of a run'
sed '/^name/d' "$tiny" >"$T/7.ini"
expect 0 run "$T/7.ini" --out "$T/seven" --steps 1
has out '^run +[0-9]+, recipe-7 '
sed 's/^name = .*/name = 7/' "$tiny" | "$SW" run /dev/stdin --out "$T/piped" >"$T/out" 2>"$T/err"
has err 'job: name = 7: digits only would be read as the number of a run'
if have_python; then # a run of an earlier version keeps its name
    python3 - "$SINGA_DB" <<'END' || fail 'the history could not be edited'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("UPDATE runs SET name = '77', recipe_text = replace(recipe_text, '[job]', '[job]' || char(10) || 'name = 77')")
db.commit()
END
    expect 0 history show 77
    has out '^run +1 77$'
    expect 0 history compare 77 1
fi
