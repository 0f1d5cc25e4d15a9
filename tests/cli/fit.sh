# memory = fit:SIZE: the reports of check and run, and the refusal of a budget that is too small.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
recipe=$SW_SOURCE_DIR/recipes/cifar10-full.ini
set -- "$recipe" --set job.batch=64 --set job.eval_batch=16 --set data.test.records=16

expect 0 check "$@"
hasnt out '^budget'
hasnt out ' recomputed'
expect 0 check --json "$@"
has out '"fit":null'

# Too small: the message names the layer and the smallest sufficient budget.
expect 3 check "$@" --set job.memory=fit:1kB
has err 'memory = fit:1kB is too small: layer [a-z0-9]+ needs .* in its (forward|backward) pass'
least=$(sed -n 's/.*budget is memory = fit:\([0-9]*\);.*/\1/p' "$T/err")
[ -n "$least" ] || fail 'no smallest budget is named'
expect 3 run "$@" --out "$T/none" --set job.memory="fit:$((least - 1))"
[ -e "$T/none" ] && fail 'a run that cannot fit left something'
expect 2 check "$@" --set job.memory=4GB
has err 'job: memory = 4GB: must be default or fit:SIZE'

# The named budget suffices.
expect 0 check "$@" --set job.memory="fit:$least"
has out '^budget +[0-9.]+ [kM]B: activations use [0-9.]+ [kM]B less$'
has out '^ +[0-9]+ recomputed in backward: .*flop and .* of memory traffic per step$'
has out 'none offloaded: the CPU computes in host memory'
has out ' recomputed'
expect 0 check --json "$@" --set job.memory="fit:$least"
has out "\"fit\":\{\"budget_bytes\":$least,\"saved_bytes\":[1-9]"
has out '"memory":"repeated"'
expect 0 run "$@" -v --out "$T/run" --no-ui --steps 2 --set job.memory="fit:$least"
has out '^budget '
expect 0 run "$@" --out "$T/json" --json --steps 2 --set job.memory="fit:$least"
has out '"type":"start".*"fit":\{"budget_bytes":'

# On a device, activations may also be offloaded to the host.
expect 3 check "$@" --device sim:gpus=1 --set job.memory=fit:1kB
least=$(sed -n 's/.*budget is memory = fit:\([0-9]*\);.*/\1/p' "$T/err")
expect 0 check "$@" --device sim:gpus=1,pcie=500GB/s --set job.memory="fit:$((least + least / 20))"
has out '^budget .* per device: '
has out '^ +[0-9]+ offloaded: .* to the host and back per step$'
has out ' offloaded'
has out 'activations offloaded to the host'
