# ctest-timeout: 300
# The resident memory that check predicts is within 5 %, or 4 MiB for small nets, of what runs use.
. "$(dirname "$0")/lib.sh"
have_python || skip 'no Python'
[ -z "${SINGA_SANITIZE:-}" ] || skip 'sanitizers need more memory'
export SINGA_DATA="$T" # no data: the recipes fall back to synthetic data of the same shape

within() { # RECIPE SECTION.KEY=VALUE...
    recipe="$SW_SOURCE_DIR/recipes/$1.ini"
    shift
    set -- --set job.cores=1 --set job.eval_every=3 --set job.steps=6 "$@"
    expect 0 check --json "$recipe" "$@"
    cp "$T/out" "$T/check"
    expect 0 run --json "$recipe" "$@" --out "$T/run"
    rm -rf "$T/run"
    python3 - "$recipe" "$T/check" "$T/out" <<'END' || fail "the resident memory of $recipe"
import json, os, sys
name, check, run = os.path.basename(sys.argv[1]), json.load(open(sys.argv[2])), open(sys.argv[3])
predicted = check["rss_bytes"]
used = next(e for e in map(json.loads, run) if e["type"] == "summary")["rss_bytes"]
print("%s: %.1f MiB predicted, %.1f MiB used" % (name, predicted / 2**20, used / 2**20))
assert abs(predicted - used) <= max(used / 20, 4 << 20)
END
}
within digits
within lenet
within cifar10-quick
within char-rnn
# A checkpoint does not copy a whole parameter, here of 144 MiB.
within alexnet --set job.batch=2 --set job.eval_batch=2 --set job.steps=1
