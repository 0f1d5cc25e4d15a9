# ctest-timeout: 300
# The first lines of every recipe: at most 8, of at most 80 columns, with its name, the placement, the
# framework, the size, and where history and checkpoints go.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1 SINGA_DATA="$T/none"
mkdir -p "$T/none"

reported() {
    file_has out '^checkpoints ' || ! kill -0 "$pid" 2>/dev/null
}

count=0
for recipe in "$SW_SOURCE_DIR"/recipes/*.ini; do
    name=$(basename "$recipe" .ini)
    case $name in
    alexnet* | googlenet | resnet50 | vgg*) small='--set job.batch=2 --set job.eval_batch=2' ;;
    *) small= ;;
    esac
    start run "$recipe" --out "$T/run-$name" --no-ui --oversubscribe $small
    until_true 60 reported
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    if ! file_has out '^checkpoints '; then # no fallback for its data, or the run that it starts from
        has err 'No such file'
        echo "$name: $(tail -n 1 "$T/err")"
        continue
    fi
    rm -rf "$T/run-$name"
    sed '/^step=/,$d' "$T/out" >"$T/first"
    [ "$(wc -l <"$T/first")" -le 8 ] || fail "$name: more than 8 lines"
    ! grep -E '.{81}' "$T/first" || fail "$name: more than 80 columns"
    for title in run placement framework parameters history checkpoints; do
        has first "^$title +[^ ]"
    done
    count=$((count + 1))
done
echo "$count recipes"
[ "$count" -ge 20 ] || fail "only $count recipes began"
