# ctest-timeout: 240
# A recurrent text model: recurrent state across batches, a resume and another number of workers;
# evaluation; sampling; and errors.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
awk 'BEGIN { s = 7; for (i = 0; i < 900; i++) { s = (s * 75 + 74) % 65537
    printf "%s", (s % 5 == 0) ? "for (i = 0; i < n; i++)\n" : (s % 5 < 3) ? "\tx += y;\n" : "}\n" } }' >"$T/text"
head -c 481 "$T/text" >"$T/other" # 5 records of 24 for each of 4 streams, or 15 of 8; and what comes next

recipe() { # KIND LENGTH EXTRA
    cat <<END
[job]
name = text
batch = 6
eval_batch = 4
steps = 12
checkpoint_every = 6
[updater]
type = rmsprop
lr = 0.01
[data train]
format = text
paths = $T/text
length = $2
streams = 6
[data test]
format = text
paths = $T/other
vocabulary_from = $T/text
length = $2
streams = 4
[layer tokens]
type = input
field = tokens
[layer target]
type = input
field = target
[layer vectors]
type = embedding
src = tokens
vocabulary = 20
outputs = 9
[layer cell]
type = $1
src = vectors
hidden = 11
stateful = yes
$3
[layer scores]
type = inner_product
src = cell
outputs = 20
axis = 2
[layer loss]
type = softmax_loss
src = scores, target
[layer perplexity]
type = perplexity
src = scores, target
include = eval
END
}

# The file of a run's last step.
last() {
    printf %s "$T/$1/checkpoint-12.safetensors"
}

# Asynchronous groups read streams of their own: with a rate of zero, two groups of 6 rows have the
# losses of one group of 12 rows, over the end of an epoch, after a resume, and in evaluations.
losses() {
    "$SW" history sql "SELECT split, step, round(value, 4) FROM metrics WHERE name = 'loss' AND
        run_id = (SELECT max(id) FROM runs WHERE name = '$1') ORDER BY split, step"
}
recipe gru 8 '' >"$T/still.ini"
still="--set updater.lr=0 --set job.steps=20 --set job.eval_every=5 --quiet"
async='--framework downpour --set cluster.worker_groups=2 --oversubscribe'
expect 0 run "$T/still.ini" --out "$T/wide" --name wide $still --set job.batch=12 \
    --set data.train.streams=12 --set job.eval_batch=8 --set data.test.streams=8
expect 0 run "$T/still.ini" --out "$T/turns" --name turns $still $async
losses wide >"$T/wide.losses"
losses turns >"$T/turns.losses"
[ "$(sort -u -k3 "$T/wide.losses" | wc -l)" -gt 10 ] || fail 'the losses do not differ from step to step'
cmp "$T/wide.losses" "$T/turns.losses" || fail 'asynchronous groups lose their recurrent state'
expect 0 run "$T/still.ini" --out "$T/turns-half" --name turns-half --steps 7 $still $async
expect 0 resume turns-half --steps 20 --quiet
losses turns-half | awk '$1 == "train"' >"$T/half.losses"
awk '$1 == "train"' "$T/wide.losses" | cmp - "$T/half.losses" || fail 'a resume loses the recurrent state'
# Groups that each split the net, too.
expect 0 run "$T/still.ini" --out "$T/split" --name split $still --set job.batch=12 \
    --set data.train.streams=12 --framework custom --set cluster.worker_groups=2 \
    --set cluster.workers_per_group=2 --set layer.scores.partition=none --oversubscribe
losses split >"$T/split.losses"
cmp "$T/wide.losses" "$T/split.losses" || fail 'groups that split the net lose their recurrent state'
expect 2 check "$T/still.ini" $async --set cluster.warmup_steps=3
has err 'stateful = yes: .* remove cluster\.warmup_steps'
expect 2 check "$T/still.ini" $async --set job.batch=800 --set data.train.streams=800
has err '800 streams for each of 2 worker groups: streams = 1600 exceeds the [0-9]+ records'

for kind in rnn gru lstm; do
    recipe $kind 8 'layers = 2' >"$T/$kind.ini"
    expect 0 run "$T/$kind.ini" --out "$T/$kind"
    has out '^next +singa-ws sample [0-9]+, or singa-ws resume '
    # Stopped in the middle and resumed: the same bits.
    expect 0 run "$T/$kind.ini" --out "$T/$kind-half" --steps 6 --quiet --name half-$kind
    expect 0 resume half-$kind --steps 12 --quiet
    expect 0 weights "$(last $kind)" diff "$(last $kind-half)"
    # Two workers, from the beginning and from the middle on: the same numbers.
    expect 0 run "$T/$kind.ini" --out "$T/$kind-two" --set cluster.workers_per_group=2 \
        --set cluster.framework=allreduce --oversubscribe --quiet
    expect 0 weights "$(last $kind)" diff "$(last $kind-two)" --tolerance 1e-4
    expect 0 run "$T/$kind.ini" --out "$T/$kind-more" --steps 6 --quiet --name more-$kind
    expect 0 resume more-$kind --steps 12 --quiet --set cluster.workers_per_group=2 --oversubscribe
    expect 0 weights "$(last $kind)" diff "$(last $kind-more)" --tolerance 1e-4
    # With recurrent state the length of records makes no difference.
    recipe $kind 24 'layers = 2' >"$T/$kind-long.ini"
    expect 0 eval "$T/$kind.ini" --weights "$(last $kind)" --json
    short=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
    expect 0 eval "$T/$kind-long.ini" --weights "$(last $kind)" --json
    long=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
    awk -v a="$short" -v b="$long" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-8) }' ||
        fail "$kind: the loss over records of 8 is $short, of 24 $long"
    "$SW" weights "$(last $kind)" list -v >"$T/out" 2>&1
    has out 'state\.cell\.h2'
done
has out 'state\.cell\.c'
# Without it the length of records matters.
sed 's/stateful = yes//' "$T/gru.ini" >"$T/less.ini"
sed 's/stateful = yes//' "$T/gru-long.ini" >"$T/less-long.ini"
expect 0 eval "$T/less.ini" --weights "$(last gru)" --json
short=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
expect 0 eval "$T/less-long.ini" --weights "$(last gru)" --json
long=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
awk -v a="$short" -v b="$long" 'BEGIN { exit !((a - b) ^ 2 > 1e-10) }' ||
    fail "a model without state does not see where records end: $short"

# Sampling: N tokens, equal for equal seeds, with recurrent state whatever `stateful` is.
expect 0 sample "$T/gru.ini" --weights "$(last gru)" --prime 'for (' --length 50 --seed 3
[ "$(wc -c <"$T/out")" = 56 ] || fail "5 characters, 50 and a line end are $(wc -c <"$T/out")"
cp "$T/out" "$T/first"
expect 0 sample "$T/less.ini" --weights "$(last gru)" --prime 'for (' --length 50 --seed 3
cmp -s "$T/first" "$T/out" || fail 'the same seed wrote another text'
expect 0 sample "$T/gru.ini" --weights "$(last gru)" --prime 'for (' --length 50 --seed 4
! cmp -s "$T/first" "$T/out" || fail 'another seed wrote the same text'
expect 0 sample "$T/gru.ini" --weights "$(last gru)" --length 30 --temperature 0 --json
has out '"text":"[^"]'
expect 2 sample "$T/gru.ini" --weights "$(last gru)" --prime 'Q'
has err "'Q' is not among"
expect 2 sample "$T/gru.ini" --weights "$(last gru)" --temperature hot
has err 'temperature hot: must be a number'

# Impossible combinations.
sed '/streams = 6/d' "$T/gru.ini" >"$T/bad.ini"
expect 2 run "$T/bad.ini" --quiet
has err 'stateful = yes: .*streams = BATCH'
recipe gru 8 'bidirectional = yes' >"$T/bad.ini"
expect 2 check "$T/bad.ini"
has err 'bidirectional = yes: later steps'
sed 's/length = 8/length = 900000/' "$T/gru.ini" >"$T/bad.ini"
"$SW" check "$T/bad.ini" >"$T/out" 2>"$T/err" && fail 'records longer than the text were accepted'
has err 'length|records'
sed 's/vocabulary = 20/vocabulary = 7/' "$T/gru.ini" >"$T/bad.ini"
expect 2 check "$T/bad.ini"
has err 'layer [a-z]+: vocabulary = 7: data train has [0-9]+ tokens'
sed 's/outputs = 20/outputs = 5/' "$T/gru.ini" >"$T/bad.ini"
"$SW" run "$T/bad.ini" --quiet >"$T/out" 2>"$T/err" && fail 'labels beyond the classes were accepted'
has err 'layer scores: outputs = 5: data train has [0-9]+ tokens'
exit 0
