# Completion: the candidates of bash for a partial command line; zsh at least parses its script.
. "$(dirname "$0")/lib.sh"

expect 2 layers --completion=fish
has err 'bash or zsh'
expect 2 layers --completion=bash --json
expect 0 layers --completion=zsh
mv "$T/out" "$T/_singa-ws"
has _singa-ws '^#compdef singa-ws$'
if command -v zsh >/dev/null 2>&1; then
    zsh -n "$T/_singa-ws" || fail 'zsh cannot read its script'
fi
expect 0 layers --completion=bash
mv "$T/out" "$T/singa-ws"
command -v bash >/dev/null 2>&1 || skip 'bash is not here'
expect 0 run "$tiny" --out "$T/a" --name somename --steps 1 --quiet
mkdir "$T/bin" "$T/cwd"
ln -s "$SW" "$T/bin/singa-ws"
: >"$T/cwd/some.ini"
: >"$T/cwd/some.txt"

# offers WORD...: writes the candidates of bash for the last word to $T/out, one per line.
offers() {
    (cd "$T/cwd" && PATH="$T/bin:$PATH" bash -c '
        compopt() { :; }
        source "$1"
        shift
        COMP_WORDS=(singa-ws "$@") COMP_CWORD=$#
        _singa_ws
        printf "%s\n" "${COMPREPLY[@]}"' bash "$T/singa-ws" "$@") >"$T/out" 2>"$T/err"
    [ -s "$T/err" ] && fail "completing: $*"
    return 0
}
offers ''
for verb in run resume history doctor layers; do
    has out "^$verb\$"
done
offers hi
[ "$(cat "$T/out")" = history ] || fail 'a verb by its beginning'
offers history ''
has out '^compare$'
offers history comp
[ "$(cat "$T/out")" = compare ] || fail 'a sub-verb by its beginning'
offers run --st
[ "$(cat "$T/out")" = --steps= ] || fail 'an option by its beginning'
offers run ''
has out '^some\.ini$'
hasnt out 'some\.txt'
offers run some.ini --framework = d
[ "$(cat "$T/out")" = downpour ] || fail 'an argument that is one of a few words'
offers run some.ini --framework =
has out '^hogwild$'
offers history plot some
has out '^somename$'
offers resume @
has out '^@last$'
offers history plot --png = some.t
[ "$(cat "$T/out")" = some.txt ] || fail 'a file behind an option'
offers run --steps = ''
[ -z "$(cat "$T/out")" ] || fail 'a number cannot be completed'

# Keys and values of the recipe on the line, however '=' is written.
cp "$tiny" "$T/cwd/some.ini"
offers run some.ini --set layer.pool1.
has out '^layer\.pool1\.method=$'
hasnt out 'conv1'
offers run some.ini --set = job.ste
[ "$(cat "$T/out")" = job.steps= ] || fail 'a key behind --set='
offers run some.ini --set layer.pool1.method =
[ "$(tr '\n' ' ' <"$T/out")" = 'max avg ' ] || fail 'the values of a key'
offers run some.ini --set = job.tune = y
[ "$(cat "$T/out")" = yes ] || fail 'a value by its beginning'
offers run some.ini --set job.seed = ''
[ -z "$(cat "$T/out")" ] || fail 'a number has no values'
offers run some.ini --set job.batch = 3 --framework = d
[ "$(cat "$T/out")" = downpour ] || fail 'an option after --set'
offers run --set job.
[ -z "$(cat "$T/out")" ] || fail 'keys of no recipe'
if command -v zsh >/dev/null 2>&1; then
    sed '$d' "$T/_singa-ws" >"$T/functions"
    # zsh_offers PREFIX: what the function of --set adds.
    zsh_offers() {
        (cd "$T/cwd" && PATH="$T/bin:$PATH" zsh -f -c '
            compset() { [[ $PREFIX == *=* ]] }
            compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- "$@" }
            source "$1"
            words=(run some.ini --set) PREFIX=$2
            _singa_ws_set' zsh "$T/functions" "$1") >"$T/out" 2>"$T/err"
    }
    zsh_offers ''
    has out '^layer\.pool1\.method=$'
    zsh_offers layer.pool1.method=
    [ "$(tr '\n' ' ' <"$T/out")" = 'max avg ' ] || fail 'the values of a key in zsh'
fi

# Every option of every verb is offered.
"$SW" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r verb; do
    "$SW" "$verb" --help | sed -n '/^Options:/,/^$/s/^ .*--\([a-z-]*\).*/\1/p' >"$T/options"
    offers "$verb" --
    while read -r option; do
        grep -qE "^--$option=?\$" "$T/out" || { echo "$verb --$option is not offered" >&2; exit 1; }
    done <"$T/options"
done || fail 'options are missing'
