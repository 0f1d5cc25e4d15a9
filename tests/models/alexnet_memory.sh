# ctest-timeout: 900
# recipes/alexnet.ini has the published 60 965 224 parameters, and the memory that check prints is the
# peak of the run to 1 %. Two checkpoints of 488 MB are written.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || {
    echo 'skipped: python3 reads the JSON'
    exit 77
}
free_kb=$(df -Pk "$T" | awk 'NR == 2 { print $4 }')
[ "$free_kb" -gt 1500000 ] || {
    echo "skipped: $T has $free_kb KiB free, 1500000 are needed"
    exit 77
}
set -- --set job.batch=8 --set job.eval_batch=8 --set data.test.records=8 --set job.steps=1
"$SW" check "$SW_SOURCE_DIR/recipes/alexnet.ini" "$@" --json >"$T/check" 2>"$T/err" || fail 'check'
"$SW" run "$SW_SOURCE_DIR/recipes/alexnet.ini" "$@" --out "$T/run" --json >"$T/out" 2>"$T/err" ||
    fail 'run'
python3 - "$T/check" "$T/out" <<'END' || fail 'plan and run differ'
import json
import sys

check = json.load(open(sys.argv[1]))
events = [json.loads(line) for line in open(sys.argv[2])]
peak = [e for e in events if e["type"] == "summary"][0]["peak_bytes"]
print(check["parameters"], "parameters;", peak, "bytes at most,", check["memory_bytes"], "planned")
sys.exit(check["parameters"] != 60965224 or abs(peak / check["memory_bytes"] - 1) > 0.01)
END
