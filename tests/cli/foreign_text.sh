# ctest-timeout: 400
# Untrusted text on a terminal: names, notes, messages, paths, metadata, words of a model. Whatever it
# contains, stdout and stderr get no control character and no invalid UTF-8; JSON and SVG stay
# well-formed, and JSON keeps the text.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'
helper() {
    python3 "$SW_SOURCE_DIR/tests/cli/foreign_text.py" "$@" || fail "foreign_text.py $1"
}
unicode=$(helper print unicode && printf .)
unicode=${unicode%.}
invalid=$(helper print invalid && printf .)
invalid=${invalid%.}

# shown CODES ARGUMENT...: the program exits with one of the codes and prints something; all output is
# collected in $T/said and checked by all_can_be_shown.
mkdir "$T/said"
count=0
shown() {
    codes=$1
    shift
    timeout 60 "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null
    code=$?
    case " $codes " in
    *" $code "*) ;;
    *) fail "singa-ws $1 $2: exit $code, not one of $codes" ;;
    esac
    [ -s "$T/out" ] || [ -s "$T/err" ] || fail "singa-ws $1 $2 said nothing"
    count=$((count + 1))
    words=$(printf '%s' "$1-${2:-}" | tr -cd 'a-z-')
    cp "$T/out" "$T/said/$count-$words.out"
    cp "$T/err" "$T/said/$count-$words.err"
}
all_can_be_shown() {
    helper check "$T"/said/*
    rm "$T"/said/*
}

# --- A training whose names are hostile, as lines and as JSON.
shown 0 run "$tiny" --out "$T/a" --name "$unicode" --steps 4
shown 0 run "$tiny" --out "$T/b$unicode" --name "$invalid" --steps 4
shown 0 run "$tiny" --out "$T/c" --name "$unicode" --steps 4 --json

all_can_be_shown

# --- Every text of a history.
shown 2 history note 1 "$invalid"
expect 0 history note 1 "$unicode"
shown 0 history note 1
shown 2 history tag 1 "key=$invalid"
expect 0 history tag 1 "key=$unicode"
helper history "$SINGA_DB"
for words in 'list' 'show 1' 'show 2' 'compare 1 2' 'compare 1 2 3' 'plot 1' 'plot 1 2' 'note 1' 'tag 1' \
    'gc --dry-run' 'rm --dry-run 1'; do
    shown '0 3' history $words
done
for words in 'list' 'show 1' 'compare 1 2' 'tag 1'; do
    shown 0 history $words --json
    helper json "$T/out"
done
shown 0 history sql 'select * from runs'
shown 0 history sql 'select * from runs' --json
helper json "$T/out"
for what in events checkpoints placement; do
    shown 0 history export --what $what --json 1
done
shown 0 history show "1"
shown '2 3' history show "$invalid"
shown '2 3' history compare 1 "$unicode"
shown '2 3' history sql "select '$invalid"
shown '0 2 3' history plot --metric "$invalid" 1
shown 0 top --once --db "$SINGA_DB" 1
shown 0 top --once --json --db "$SINGA_DB" 1
helper json "$T/out"
shown '1 2 3' resume 1
shown '1 2 3' weights 1
shown '1 2 3' eval "$tiny" --weights 1
shown '1 2 3' predict "$tiny" --weights 1 --output "$T/x.npy"
shown '1 2 3' history rm --yes "$invalid"
all_can_be_shown
expect 0 history plot 1 2 --svg "$T/plot.svg"
helper xml "$T/plot.svg"

# CSV is data: a pipe gets the bytes, a terminal gets escapes.
expect 0 history export --what events --csv 1
python3 -c 'import sys; sys.exit(b"\x1b]0;title" not in open(sys.argv[1], "rb").read())' "$T/out" ||
    fail 'CSV has lost the text'
for words in 'history list' 'history show 1' 'history compare 1 2' 'history export --what events' 'history plot 1' 'top --once 1'; do
    TERM=xterm-256color LC_ALL=C.UTF-8 helper terminal "$SW" $words
done

# --- Names of files and recipes, and the content of recipes.
cp "$tiny" "$T/r$unicode.ini"
cp "$tiny" "$T/r$invalid.ini"
for file in "$T/r$unicode.ini" "$T/r$invalid.ini"; do
    shown 0 check "$file"
    shown 0 explain "$file"
done
for verb in run check explain eval predict sample weights data resume history top layers doctor "$invalid"; do
    for word in "$T/$invalid" "--$unicode" "$unicode"; do
        shown '1 2 3' "$verb" "$word"
    done
done
sed "s/^name = tiny/name = tiny $(printf '\302\233\342\200\256')/" "$tiny" >"$T/name.ini"
shown '0 2' run "$T/name.ini" --out "$T/d" --steps 2
printf '[layer %s]\ntype = %s\nsrc = %s\n' "$(printf '\342\200\256\302\233fc')" "$(printf '\302\233')" x >>"$T/name.ini"
shown '2 3' check "$T/name.ini"
printf '\033[2J = \377\n' >>"$T/name.ini"
shown '2 3' check "$T/name.ini"
shown '2 3' run "$tiny" --set "job.$unicode=$invalid"
shown '2 3' run "$tiny" --set "job.steps=$invalid"
shown '1 2 3' data inspect "$T/$invalid"

all_can_be_shown

# --- Metadata and names of tensors.
helper weights "$T/hostile.safetensors"
shown '0 3' weights "$T/hostile.safetensors"
shown '0 3' weights "$T/hostile.safetensors" --json
helper json "$T/out"
shown '0 1 3' weights "$T/hostile.safetensors" verify
shown '0 1 3' weights "$T/hostile.safetensors" diff "$T/c/checkpoint-4.safetensors"
shown '1 2 3' eval "$tiny" --weights "$T/hostile.safetensors"

all_can_be_shown

# --- Words of a model.
export SINGA_DATA="$T/data"
mkdir -p "$T/data/text"
helper words "$T/data/text/text8-head"
recipe="$SW_SOURCE_DIR/recipes/rnnlm.ini"
shown 0 run "$recipe" --out "$T/words" --set job.steps=4 --set job.eval_every=4
shown 0 sample "$recipe" --weights "$T/words/checkpoint-4.safetensors" --length 300
has out 'x1b'
shown 0 sample "$recipe" --weights "$T/words/checkpoint-4.safetensors" --length 300 --json
all_can_be_shown
