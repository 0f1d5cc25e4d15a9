# A softmax over classes of words: the shipped recipe learns; its perplexity is exp of its loss; it
# samples words; bits after a resume, several workers; and keys that do not fit.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
recipe=$SW_SOURCE_DIR/recipes/rnnlm-class.ini
few='--set job.eval_every=100 --set data.train.records=3000 --set data.test.records=320'

expect 0 run "$recipe" --no-ui --steps 300 --out "$T/run" --name classes $few
values() { # METRIC STEP
    "$SW" history sql "SELECT value FROM metrics WHERE name = '$1' AND split = 'test' AND step = $2 AND
        run_id = (SELECT max(id) FROM runs WHERE name = 'classes')" | tail -n 1
}
awk -v l="$(values loss 300)" -v p="$(values perplexity 300)" -v a="$(values perplexity 100)" '
    BEGIN { exit !(p > 1 && p < a && p < 60 && (exp(l) / p - 1) ^ 2 < 1e-8) }' ||
    fail "loss $(values loss 300), perplexity $(values perplexity 300), first $(values perplexity 100)"

expect 0 run "$recipe" --no-ui --steps 4 --out "$T/one" $few
expect 0 run "$recipe" --no-ui --steps 2 --out "$T/two" $few --name two
expect 0 resume two --no-ui --steps 4
same_tensors "$T/one/checkpoint-4.safetensors" "$T/two/checkpoint-4.safetensors"
expect 0 run "$recipe" --no-ui --steps 4 --out "$T/four" $few --oversubscribe \
    --set cluster.workers_per_group=4
expect 0 weights "$T/one/checkpoint-4.safetensors" diff "$T/four/checkpoint-4.safetensors" \
    --tolerance 1e-4
expect 0 run "$recipe" --no-ui --steps 4 --out "$T/sim" $few --device sim
expect 0 weights "$T/one/checkpoint-4.safetensors" diff "$T/sim/checkpoint-4.safetensors" \
    --tolerance 1e-4

expect 2 check "$recipe" --set layer.loss.classes=4000
has err 'classes = 4000, but vocabulary = 3720'
expect 2 check "$recipe" --set layer.scores.bins=equal
has err 'loss has bins = frequency: set the same here'

# Samples and next words of a text: the labels that the loss reads do not matter.
awk 'BEGIN { for (i = 0; i < 200; i++) printf "one two three four " }' >"$T/text"
text="--set data.train.paths=$T/text --set data.test.paths=$T/text --set job.batch=2
    --set data.train.streams=2 --set data.test.streams=2 --set job.eval_batch=2 --set job.eval_every=0"
expect 0 run "$recipe" --no-ui --steps 300 --out "$T/words" $text
expect 0 sample "$T/words" --length 4 --prime "one two" --temperature 0
has out 'one two three four one two'
expect 0 predict "$T/words" "one two three"
has out 'one two three *four'
