# Exchange modes of fully-connected layers: a run moves the bytes that check predicts, auto gives its
# reasons, and wrong keys exit with 2 and advice.
. "$(dirname "$0")/lib.sh"

three='--oversubscribe --set cluster.workers_per_group=3 --device sim:gpus=3,mem=64MiB,peer=no'

# shellcheck disable=SC2086
expect 0 check "$tiny" $three
hasnt out 'Gradients and updated parameters'
# shellcheck disable=SC2086
expect 0 check "$tiny" $three --set cluster.comm=sfb
has out '^layer +comm +elements +as papers count$'
has out '^fc1 +sfb +[0-9]+ +[0-9]+$'
has out '^gradients +ps \(whole gradients\) for conv1: the gradient is not a product of factors, unlike that of an inner_product$'
# shellcheck disable=SC2086
expect 0 check "$tiny" $three --set layer.fc1.comm=auto
has out '^layer +comm +elements +as papers count +ps ms +sfb ms +adam ms$'
has out '^gradients +fc1: (ps|sfb|adam), predicted to take [0-9.e-]+ ms per step \([a-z]+ .*, [a-z]+ .*\)$'
[ ! -e "$T/state/singa-ws/rates.json" ] || fail 'check has written rates.json'

# Between devices auto is the default, which measures nothing and says nothing of other layers.
slow='--oversubscribe --set cluster.workers_per_group=3 --device sim:gpus=3,mem=64MiB,peer=no,pcie=100KB/s'
# shellcheck disable=SC2086
expect 0 check "$tiny" $slow
has out '^gradients +fc1: sfb, predicted to take [0-9.e+-]+ ms per step \(ps .*\)$'
has out '^ +chosen for links of 100.0 kB/s and devices of 40 GFLOP/s \(a given and an assumed rate; comm = auto measures\)$'
hasnt out 'whole gradients'
# shellcheck disable=SC2086
expect 0 run "$tiny" -v --no-ui --name default --steps 2 $slow
has out '^gradients +fc1: sfb, predicted'
[ ! -e "$T/state/singa-ws/rates.json" ] || fail 'a run without comm has measured rates'
# shellcheck disable=SC2086
expect 0 check "$tiny" $slow --set job.repeat_exact=yes
hasnt out '^gradients'
expect 0 check "$tiny" --oversubscribe --set cluster.workers_per_group=3 --device cpu
hasnt out '^gradients'

ssp='--framework downpour --set cluster.worker_groups=3 --set cluster.workers_per_group=1
    --set cluster.staleness=2 --oversubscribe --device sim:gpus=3,mem=64MiB,peer=no'
if have_python; then
    for comm in ps sfb adam; do
        for framework in sandblaster allreduce ssp; do
            settings="$three --framework $framework"
            [ $framework != ssp ] || settings=$ssp
            # shellcheck disable=SC2086
            expect 0 run "$tiny" --no-ui --name "$comm-$framework" --steps 2 $settings \
                --set cluster.comm=$comm
            moved=$(sql "SELECT sum(bytes) FROM link_traffic l JOIN runs r ON r.id = l.run_id WHERE
                r.name = '$comm-$framework' AND step = 1 AND kind IN ('d2h', 'h2d', 'factor')")
            # shellcheck disable=SC2086
            expect 0 check --json "$tiny" $settings --set cluster.comm=$comm
            python3 - "$T/out" "$moved" $comm <<'END' || fail "check --json with $comm, $framework"
import json, sys
d = json.load(open(sys.argv[1]))
ways = {l["name"]: l["comm"] for l in d["layers"] if "comm" in l}
assert 4 * sum(c["values"] for c in ways.values()) == int(sys.argv[2]) > 0, (ways, sys.argv[2])
assert ways["conv1"]["way"] == "ps" and ways["fc1"]["way"] == sys.argv[3], ways
END
        done
    done
fi
# shellcheck disable=SC2086
expect 2 check "$tiny" $ssp --set cluster.comm=sfb --set cluster.warmup_steps=2
has err 'sfb is not possible: during warmup_steps one group trains alone, .*use ps'

# Measured rates are stored and used by the next choice.
# shellcheck disable=SC2086
expect 0 run "$tiny" -v --no-ui --name auto --out "$T/auto" --steps 2 $three --set cluster.comm=auto
has out '^gradients +fc1: '
[ -s "$T/state/singa-ws/rates.json" ] || fail 'the rates of the machine are not kept'
before=$(cat "$T/state/singa-ws/rates.json")
chosen=$(grep -o 'fc1: [a-z]*' "$T/out")
# shellcheck disable=SC2086
expect 0 check "$tiny" $three --set cluster.comm=auto
has out "^gradients +$chosen, predicted"
[ "$before" = "$(cat "$T/state/singa-ws/rates.json")" ] || fail 'check has written rates.json'
expect 0 resume --no-ui --oversubscribe --steps 4
has out "^gradients +$chosen, from the checkpoint|^framework" # of ps nothing is said

refuses() {
    says=$1
    shift
    # shellcheck disable=SC2086
    expect 2 check "$tiny" $three "$@"
    has err "$says"
}
refuses 'layer conv1: comm = sfb: convolution cannot exchange factors: the gradient is not a product .*; use ps, or remove the key' \
    --set layer.conv1.comm=sfb
refuses 'comm = adam: inner_product cannot exchange factors: it is not split by rows, .*; use ps, or remove the key' \
    --set layer.fc1.comm=adam --set layer.fc1.partition=1
refuses 'comm = sfb: inner_product cannot exchange factors: its weight is frozen; use ps' \
    --set layer.fc1.comm=sfb --set job.freeze=fc1.weight
refuses 'comm = sfb: sfb is not possible: repeat_exact ' --set cluster.comm=sfb \
    --set job.repeat_exact=yes
refuses 'comm = sfb: sfb is not possible: grad_clip = norm, .* \(adam computes them on the host\); use ps' \
    --set cluster.comm=sfb --set job.grad_clip=norm:1
refuses 'comm = sfb: inner_product cannot exchange factors: grad_clip = norm, .* \(adam computes them on the host\); use ps' \
    --set layer.fc1.comm=sfb --set job.grad_clip=norm:1
refuses 'comm = adam: adam is not possible: with allreduce and copy = none the servers ' \
    --set cluster.comm=adam --set cluster.copy=none --framework allreduce
refuses 'comm = some: ' --set cluster.comm=some
