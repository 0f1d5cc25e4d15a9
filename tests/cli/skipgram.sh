# ctest-timeout: 120
# Word vectors by skip-gram: training learns on one worker and without locks on several, a killed run
# resumes to the same bits, evaluation uses the counts of the training text, and errors.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
# Words of four topics; each sentence has words of one, so that words of a topic predict each other.
# Every topic also has a word that occurs once.
awk 'BEGIN { s = 7; for (i = 0; i < 400; i++) { topic = i % 4
    for (k = 0; k < 12; k++) { s = (s * 75 + 74) % 65537; printf "t%dw%d ", topic, s % 9 }
    printf "the%s", i < 4 ? " rare" i " " : " " } }' >"$T/text"

cat >"$T/words.ini" <<END
[job]
name = words
batch = 2
steps = 400
eval_batch = 5
eval_every = 10
[updater]
type = sgd
lr = 0.02
policy = linear
final = 0.001
[data train]
format = text
paths = $T/text
unit = words
min_count = 5
length = 52
shuffle = yes
[data test]
format = text
paths = $T/text
vocabulary_from = $T/text
unit = words
min_count = 5
length = 52
part = 0.9, 1
[layer tokens]
type = input
field = tokens
[layer words]
type = embedding
src = tokens
vocabulary = 37
outputs = 10
weight.init = uniform
weight.low = -0.05
weight.high = 0.05
[layer loss]
type = negative_sampling
src = words, tokens
vocabulary = 37
subsample = 0.05
END

# The loss of an evaluation: the mean over windows of the sum over pairs.
loss() { # RUN STEP
    sql "SELECT value FROM metrics WHERE name = 'loss' AND split = 'test' AND step = $2 AND
        run_id = (SELECT max(id) FROM runs WHERE name = '$1')"
}
learns() { # NAME ARGUMENT...
    name=$1
    shift
    expect 0 run "$T/words.ini" --name "$name" --out "$T/$name" --quiet "$@"
    first=$(loss "$name" 10) last=$(loss "$name" 400)
    awk -v a="$first" -v b="$last" 'BEGIN { exit !(b > 0 && b < 0.85 * a) }' ||
        fail "$name: the loss goes from $first to $last"
}
hogwild='--framework hogwild --set cluster.worker_groups=2 --set cluster.threads_per_worker=1 --oversubscribe'
learns one
learns tree --set layer.loss.type=hierarchical_softmax
learns many $hogwild
learns many-tree $hogwild --set layer.loss.type=hierarchical_softmax
learns adagrad --set updater.type=adagrad

# The vectors of words of one topic are nearer to each other than to those of another.
if have_python; then
    python3 - "$T/many/checkpoint-400.safetensors" <<'END' || fail 'the vectors do not know the topics'
import array, json, math, sys
data = open(sys.argv[1], "rb").read()
size = int.from_bytes(data[:8], "little")
header = json.loads(data[8:8 + size])
words = header["__metadata__"]["data.tokens"].split()
counts = [int(n) for n in header["__metadata__"]["data.token_counts"].split()]
assert len(words) == len(counts) == 37 and "rare0" not in words, words
assert words[0] == "the" and counts[0] == 400 and counts == sorted(counts, reverse=True)
begin, end = header["words.weight"]["data_offsets"]
x = array.array("f", data[8 + size + begin:8 + size + end])
v = [x[10 * i:10 * i + 10] for i in range(37)]
def cosine(a, b):
    return sum(p * q for p, q in zip(a, b)) / math.sqrt(sum(p * p for p in a) * sum(q * q for q in b))
same, other = [], []
for i in range(1, 37):
    for j in range(1, i):
        (same if words[i][:2] == words[j][:2] else other).append(cosine(v[i], v[j]))
assert sum(same) / len(same) > sum(other) / len(other) + 0.3, (sum(same) / len(same), sum(other) / len(other))
END
fi

# A run that is killed and resumed has the bits of one that was not.
expect 0 run "$T/words.ini" --name half --out "$T/half" --quiet --steps 150
expect 0 resume half --steps 400 --quiet
same_tensors "$T/one/checkpoint-400.safetensors" "$T/half/checkpoint-400.safetensors"
start run "$T/words.ini" --name killed --out "$T/killed" --quiet --set job.checkpoint_every=20 \
    --set job.steps=100000
until_true 20 test -f "$T/killed/checkpoint-40.safetensors"
kill -9 "$pid"
wait "$pid" 2>/dev/null
expect 0 resume killed --quiet --steps 20020 --set job.steps=100000

# Updates of the listed rows have the bits of updates of all: clipping at a norm that no gradient
# has needs all of them.
expect 0 run "$T/words.ini" --name dense --out "$T/dense" --quiet --set job.grad_clip=norm:1e30
same_tensors "$T/one/checkpoint-400.safetensors" "$T/dense/checkpoint-400.safetensors"

# A simulated GPU, and workers that share a batch, exchange gradients with all rows.
for type in negative_sampling hierarchical_softmax; do
    few="--quiet --set job.steps=40 --set layer.loss.type=$type"
    expect 0 run "$T/words.ini" --name few --out "$T/few-$type" $few
    expect 0 run "$T/words.ini" --name sim --out "$T/sim-$type" $few --device sim
    expect 0 run "$T/words.ini" --name two --out "$T/two-$type" $few --framework allreduce \
        --set cluster.workers_per_group=2 --oversubscribe
    for other in sim two; do
        expect 0 weights "$T/few-$type/checkpoint-40.safetensors" diff \
            "$T/$other-$type/checkpoint-40.safetensors" --tolerance 1e-5
    done
done

# Evaluation alone has the tree of the training text.
expect 0 eval "$T/words.ini" --weights "$T/tree/checkpoint-400.safetensors" --json \
    --set layer.loss.type=hierarchical_softmax
got=$(sed 's/.*"loss"://; s/[,}].*//' "$T/out")
awk -v a="$got" -v b="$(loss tree 400)" 'BEGIN { exit !((a / b - 1) ^ 2 < 0.003) }' ||
    fail "evaluation alone has the loss $got, not $(loss tree 400)"

expect 2 check "$T/words.ini" --set layer.words.vocabulary=36 --set layer.loss.vocabulary=30
has err 'vocabulary.*has 37 tokens'
expect 2 check "$T/words.ini" --set data.train.min_count=1000
has err 'min_count = 1000: no token occurs so often'
expect 2 check "$T/words.ini" --set layer.loss.src=words,words
has err 'a vector for every token \[N, T, F\], and the tokens'
