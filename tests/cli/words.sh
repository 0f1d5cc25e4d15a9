# A word model: the shipped recipe learns, its perplexity falls, it samples words; and errors of words,
# lengths and labels.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1 SINGA_DATA="$T/data"
mkdir -p "$T/data/text"
# Lines of 40 words, of which the first predicts the last.
awk 'BEGIN { s = 7; for (i = 0; i < 3000; i++) { s = (s * 75 + 74) % 65537; a = s % 13
    printf "the w%d w%d sees w%d", a, a + 13, (a * 5) % 13; printf "\n" } }' >"$T/data/text/text8-head"

recipe="$SW_SOURCE_DIR/recipes/rnnlm.ini"
few='--set job.steps=400 --set job.eval_every=100'
expect 0 run "$recipe" --out "$T/run" $few --quiet --name words
perplexity() {
    "$SW" history sql "SELECT value FROM metrics WHERE name = 'perplexity' AND split = 'test' AND
        step = $1 AND run_id = (SELECT max(id) FROM runs WHERE name = 'words')"
}
awk -v a="$(perplexity 100)" -v b="$(perplexity 400)" 'BEGIN { exit !(b > 1 && b < a && b < 20) }' ||
    fail "perplexity is $(perplexity 100) after 100 steps, $(perplexity 400) after 400"

# Sampled words are separated by blanks, and equal for equal seeds.
weights="$T/run/checkpoint-400.safetensors"
expect 0 sample "$recipe" --weights "$weights" --prime 'the w3' --length 20 --seed 5
[ "$(wc -w <"$T/out")" = 22 ] || fail "2 words and 20 are $(wc -w <"$T/out")"
has out '^the w3 .* sees '
cp "$T/out" "$T/first"
expect 0 sample "$recipe" --weights "$weights" --prime 'the w3' --length 20 --seed 5
cmp -s "$T/first" "$T/out" || fail 'the same seed wrote another text'
# An unknown word maps to the token for unknown words.
expect 0 sample "$recipe" --weights "$weights" --prime 'the nonsense' --length 3

# The token for line ends ends a line.
lines='--set data.train.line_end=<eos> --set data.test.line_end=<eos>'
expect 0 run "$recipe" --out "$T/lines" $few $lines --quiet
expect 0 sample "$recipe" $lines --weights "$T/lines/checkpoint-400.safetensors" --length 30 --seed 1
hasnt out 'eos'
has out '^the w[0-9]+ w[0-9]+ sees w[0-9]+$'

# A checkpoint stores its vocabulary; another one is refused, since token numbers would change meaning.
refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null && fail "accepted: singa-ws $*"
    has err "$pattern"
}
cp "$T/data/text/text8-head" "$T/text"
sed 's/w3/w99/g' "$T/text" >"$T/data/text/text8-head"
refuses 'trained with another vocabulary, of 2[0-9] tokens; that of data t[a-z]+ has 2[0-9]' \
    eval "$recipe" --weights "$weights"
refuses 'trained with another vocabulary' resume words --steps 410 --quiet
mv "$T/text" "$T/data/text/text8-head"
expect 0 resume words --steps 410 --quiet

# The checkpoint has the vocabulary: a trained net needs no text for sampling and for the next word.
expect 0 sample "$recipe" --weights "$weights" --length 30 --seed 1
cp "$T/out" "$T/with_text"
mv "$T/data" "$T/away"
expect 0 sample "$weights" --length 30 --seed 1
cmp -s "$T/out" "$T/with_text" || fail 'another text without the data'
printf 'w1 w14\n\nthe w3 w22 sees\n' >"$T/lines.txt"
expect 0 predict words 'the w1' "$T/lines.txt" --json --top 2
[ "$(grep -c '^{"input":"[^"]*","top":\[{"class":"[a-z0-9]*","probability":0\.[0-9]*},{[^{}]*}\]}$' "$T/out")" = 3 ] ||
    fail 'not three predictions of two words'
has out '^\{"input":"the w3 w22 sees",'
mv "$T/away" "$T/data"

# What cannot be.
refuses 'data test: its 5 classes or tokens differ from the .* of data train in number or order' \
    check "$recipe" --set data.test.max_tokens=5
refuses 'data train: .*all files together have 15000 tokens; length = 20000 requires at least 20001' \
    check "$recipe" --set data.train.length=20000
refuses 'data train: streams = 16' check "$recipe" --set data.train.part=0,0.001
sed '/^unknown/d' "$recipe" >"$T/bad.ini"
refuses 'max_tokens = 9, but the texts have 2[0-9] distinct tokens; set unknown to a token' \
    check "$T/bad.ini" --set data.train.max_tokens=9 --set data.test.max_tokens=9
printf 'the\nw1\n' >"$T/vocabulary"
refuses 'is not in the vocabulary; set unknown to a token' \
    check "$T/bad.ini" --set data.train.max_tokens=0 --set data.train.vocabulary="$T/vocabulary"
refuses 'layer vectors: .*data train has [0-9]+ tokens: use at least as many' \
    run "$recipe" $few --set layer.vectors.vocabulary=9 --quiet
refuses 'layer scores: outputs = 9: data train has [0-9]+ tokens \(labels 0 to [0-9]+\)' \
    run "$recipe" $few --set layer.scores.outputs=9 --quiet
refuses 'unroll = 10, but layer vectors has 12 steps' check "$recipe" --set data.train.length=12
exit 0
