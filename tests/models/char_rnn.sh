# ctest-timeout: 5400
# char-rnn comes below 1.5 nats a character on what it trains with, and has more than half of the
# characters right, within 8000 steps; what it writes looks like C.
. "$(dirname "$0")/lib.sh"
needs text/linux_input.txt
train char-rnn.ini
# over the last hundred steps
trained() {
    "$SW" history sql "SELECT printf('%.4f', avg(value)) FROM metrics WHERE split = 'train' AND
        name = '$1' AND run_id = (SELECT max(id) FROM runs) AND step > 7900"
}
echo "test: loss $(final loss), accuracy $(final accuracy), perplexity $(final perplexity)"
below "$(trained loss)" 1.5 'training loss of char-rnn within 8000 steps'
reaches "$(trained accuracy)" 0.5 'training accuracy of char-rnn within 8000 steps'
"$SW" sample "$SW_SOURCE_DIR/recipes/char-rnn.ini" --weights "$T/run/checkpoint-8000.safetensors" \
    --prime 'static int ' --length 2000 --seed 1 >"$T/out" 2>"$T/err" || fail 'sample'
cat "$T/out"
for mark in ';' '{' '}' '(' 'if (' 'return' '->'; do
    grep -qF -- "$mark" "$T/out" || fail "there is no $mark in 2000 characters"
done
