# A closed pipe or a full disk under the log ends the output but not the training.
. "$(dirname "$0")/lib.sh"

{
    "$SW" run "$tiny" --out "$T/head" --set job.steps=500 2>"$T/err"
    echo $? >"$T/code"
} | head -n 1 >/dev/null
until_true 20 test -s "$T/code"
[ "$(cat "$T/code")" = 0 ] || fail "exit $(cat "$T/code") with a closed pipe"
[ -s "$T/head/checkpoint-500.safetensors" ] || fail 'a closed pipe ended the training'
[ -s "$T/err" ] && fail 'a closed pipe is worth a word'

"$SW" check "$tiny" 2>"$T/err" | :
[ -s "$T/err" ] && fail 'check complains about a closed pipe'

if [ -w /dev/full ]; then
    "$SW" run "$tiny" --out "$T/full" >/dev/full 2>"$T/err" || fail "exit $? with a full log"
    has err 'standard output: .*the training continues without output'
    [ "$(wc -l <"$T/err")" = 1 ] || fail 'the full log is mentioned more than once'
    [ -s "$T/full/checkpoint-40.safetensors" ] || fail 'a full log ended the training'
    "$SW" layers >/dev/full 2>"$T/err" && fail 'layers did not notice that nothing was written'
    has err 'standard output'
fi
exit 0
