# ctest-timeout: 240
# A net that is unrolled over steps: the same numbers as the layer that runs over all steps at once;
# recurrent state across batches, a resume and another number of workers; two stacks on two workers;
# sampling; reports.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
awk 'BEGIN { s = 7; for (i = 0; i < 900; i++) { s = (s * 75 + 74) % 65537
    printf "%s", (s % 5 == 0) ? "for (i = 0; i < n; i++)\n" : (s % 5 < 3) ? "\tx += y;\n" : "}\n" } }' >"$T/text"

# Two stacks: lstm of two layers, whose steps hand on four states, and rnn above it. `unrolled` and `whole` say how keys differ.
recipe() { # unrolled|whole
    local steps='' own1='' own2='' state='stateful = yes'
    if [ "$1" = unrolled ]; then
        steps='unroll = 8' own1=', low' own2=', high' state='connections = one-to-one, stateful'
    fi
    cat <<END
[job]
name = text
batch = 6
steps = 12
checkpoint_every = 6
[updater]
type = rmsprop
lr = 0.01
[data train]
format = text
paths = $T/text
length = 8
streams = 6
[data test]
format = text
paths = $T/text
length = 8
streams = 6
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
[layer low]
type = lstm
layers = 2
src = vectors$own1
hidden = 11
$steps
$state
[layer high]
type = rnn
src = low$own2
hidden = 7
$steps
$state
[layer scores]
type = inner_product
src = high
outputs = 20
axis = 2
[layer loss]
type = softmax_loss
src = scores, target
[layer accuracy]
type = accuracy
src = scores, target
END
}
recipe unrolled >"$T/steps.ini"
recipe whole >"$T/whole.ini"

# The file of a run's last step.
last() {
    printf %s "$T/$1/checkpoint-12.safetensors"
}
two='--set cluster.workers_per_group=2 --oversubscribe --quiet'

expect 0 run "$T/whole.ini" --out "$T/whole" --quiet
expect 0 run "$T/steps.ini" --out "$T/steps" --quiet
# The recurrent state has another name; everything else is equal.
"$SW" weights "$(last whole)" diff "$(last steps)" --tolerance 1e-4 >"$T/out" 2>&1
has out '^7 of 31 tensors differ'
hasnt out ' differs$'
has out 'state\.low\.output .*only in the second'
expect 0 eval "$T/whole.ini" --weights "$(last steps)" --json
whole=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
expect 0 eval "$T/steps.ini" --weights "$(last steps)" --json
steps=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
awk -v a="$whole" -v b="$steps" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-8) }' ||
    fail "the loss is $whole over whole sequences, $steps step by step"

# The losses and metrics of all steps equal those of the sequence.
awk '/^axis/ { next } { print } /^\[layer (scores|loss|accuracy)\]/ { print "unroll = 8" }' \
    "$T/steps.ini" >"$T/drawn.ini"
[ "$(grep -c 'unroll = 8' "$T/drawn.ini")" = 5 ] || fail 'five layers are to be unrolled'
expect 0 run "$T/drawn.ini" --out "$T/drawn" --quiet
expect 0 weights "$(last steps)" diff "$(last drawn)" --tolerance 1e-4
for recipe in steps drawn; do
    expect 0 eval "$T/$recipe.ini" --weights "$(last steps)" --json
    sed 's/.*"loss":\([0-9.]*\).*"accuracy":\([0-9.]*\).*/\1 \2/' "$T/out" >"$T/$recipe.values"
done
paste -d ' ' "$T/steps.values" "$T/drawn.values" |
    awk '{ exit !(NF == 4 && ($1 - $3) ^ 2 < 1e-8 && $1 > 1 && ($2 - $4) ^ 2 < 1e-10 && $2 > 0) }' ||
    fail "loss and accuracy: $(cat "$T/steps.values"), every step's $(cat "$T/drawn.values")"
"$SW" eval "$T/drawn.ini" --weights "$(last steps)" --json >"$T/out" 2>&1
hasnt out 'loss@|loss\.loss'
expect 2 check "$T/drawn.ini" --set layer.loss.ignore_label=3
has err 'layer loss: unroll = 8: the number of labels that count'

# Stopped in the middle and resumed: the same bits; with two workers the same numbers.
expect 0 run "$T/steps.ini" --out "$T/half" --steps 6 --quiet --name half
expect 0 resume half --steps 12 --quiet
expect 0 weights "$(last steps)" diff "$(last half)"
expect 0 run "$T/steps.ini" --out "$T/two" --set cluster.framework=allreduce $two
expect 0 weights "$(last steps)" diff "$(last two)" --tolerance 1e-4
# Resumed with more and with fewer workers.
worked() { # RUN STEPS: how many workers did these steps
    "$SW" history sql "SELECT count(DISTINCT worker) FROM step_time JOIN runs ON run_id = id WHERE
        name = '$1' AND step $2"
}
expect 0 run "$T/steps.ini" --out "$T/more" --steps 6 --name more --quiet
expect 0 resume more --steps 12 $two
expect 0 weights "$(last steps)" diff "$(last more)" --tolerance 1e-4
expect 0 run "$T/steps.ini" --out "$T/fewer" --steps 6 --name fewer $two
expect 0 resume fewer --steps 12 --quiet --set cluster.workers_per_group=1
expect 0 weights "$(last steps)" diff "$(last fewer)" --tolerance 1e-4
expect 0 run "$T/steps.ini" --out "$T/exact" --set job.repeat_exact=yes --quiet
expect 0 run "$T/steps.ini" --out "$T/exact-two" --set job.repeat_exact=yes $two
expect 0 weights "$(last exact)" diff "$(last exact-two)"
[ "$(worked more '<= 6') $(worked more '> 6')" = '1 2' ] || fail 'not two workers from the middle on'
[ "$(worked fewer '<= 6') $(worked fewer '> 6')" = '2 1' ] || fail 'not one worker from the middle on'
# Without the recurrent state the numbers differ.
sed 's/, stateful/, previous/' "$T/steps.ini" >"$T/less.ini"
expect 0 run "$T/less.ini" --out "$T/less" --quiet
"$SW" weights "$(last steps)" diff "$(last less)" --tolerance 1e-4 >"$T/out" 2>&1 &&
    fail 'state from the batch before changes nothing'

# A stack on each of two workers gives the numbers of one worker. Each step's output is sent when it is
# computed, so that both workers compute at the same time.
placed='--set layer.low.location=0 --set layer.high.location=1 --set layer.scores.location=1'
expect 0 run "$T/steps.ini" --out "$T/placed" $placed $two
expect 0 weights "$(last steps)" diff "$(last placed)" --tolerance 1e-4
# Also after a resume.
expect 0 run "$T/steps.ini" --out "$T/parted" --steps 6 --name parted --quiet
expect 0 resume parted --steps 12 $placed $two
expect 0 weights "$(last steps)" diff "$(last parted)" --tolerance 1e-4
expect 0 run "$T/steps.ini" --out "$T/sim" $placed --quiet --device sim:gpus=2
expect 0 weights "$(last steps)" diff "$(last sim)" --tolerance 1e-4
expect 0 check "$T/steps.ini" $placed --set cluster.workers_per_group=2 --oversubscribe
has out '^low@0\.\.7 +lstm +6x44 '
has out '^low@0\.\.7\.h +front +6x11 '
has out '^low@0\.\.7\.h:one1 +bridge_dst +6x11 '
has out '^low@0\.\.7\.h:one1 +bridge +528 '
has out '^vectors@0\.\.7 +step +6x9 '
expect 2 check "$T/steps.ini" --set layer.low.location=3
[ "$(grep -c 'worker 3 of a group' "$T/err")" = 1 ] || fail 'the same message for every step'

# So does the shipped recipe, on synthetic data.
small='--set layer.gru1.hidden=16 --set layer.gru2.hidden=12 --steps 12 --set job.eval_every=12'
here=
for layer in gru2 scores loss accuracy perplexity; do
    here="$here --set layer.$layer.location=0"
done
char_rnn_2="$SW_SOURCE_DIR/recipes/char-rnn-2.ini"
expect 0 run "$char_rnn_2" --out "$T/char-two" $small --oversubscribe --quiet
expect 0 run "$char_rnn_2" --out "$T/char-one" $small $here --set cluster.workers_per_group=1 --quiet
expect 0 weights "$(last char-one)" diff "$(last char-two)" --tolerance 1e-4

# One line for all steps, and the parameters once.
expect 0 check "$T/steps.ini" --json
has out '"name":"low@0\.\.7","type":"lstm"'
has out '"name":"high","type":"join"'
expect 0 check "$T/steps.ini"
parameters=$(sed -n 's/^parameters *\([0-9]*\).*/\1/p' "$T/out")
expect 0 check "$T/whole.ini"
has out "^parameters +$parameters "

# With less memory the same bits.
expect 0 run "$T/steps.ini" --out "$T/fit" --set job.memory=fit:180kB --quiet
expect 0 weights "$(last steps)" diff "$(last fit)"

# It samples token by token, like the layer over whole sequences.
expect 0 sample "$T/whole.ini" --weights "$(last steps)" --prime 'for (' --length 50 --seed 3
cp "$T/out" "$T/first"
expect 0 sample "$T/steps.ini" --weights "$(last steps)" --prime 'for (' --length 50 --seed 3
cmp -s "$T/first" "$T/out" || fail 'unrolled it writes another text'
expect 0 predict "$T/steps.ini" --weights "$(last steps)" --layer low --output "$T/low.npy"
expect 0 predict "$T/whole.ini" --weights "$(last steps)" --layer low --output "$T/whole.npy"
[ "$(wc -c <"$T/low.npy")" = "$(wc -c <"$T/whole.npy")" ] || fail 'predict: another number of values'

# Impossible combinations.
sed 's/length = 8/length = 9/' "$T/steps.ini" >"$T/bad.ini"
expect 2 check "$T/bad.ini"
has err 'unroll = 8, but layer vectors has 9 steps'
sed '/streams = 6/d' "$T/steps.ini" >"$T/bad.ini"
expect 2 run "$T/bad.ini" --quiet
has err 'layer low: connections = stateful: .*streams = BATCH'
exit 0
