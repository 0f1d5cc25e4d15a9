# ctest-timeout: 1800
# LeNet reaches the accuracy of fp32, within 0.3 %, when factors are rounded; with fp16 under a loss
# scale that has overflowed along the way and grown again.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
steps=5000

go() {
    train lenet.ini --name "$1" --steps $steps --set job.eval_every=$((steps / 5)) --set "job.precision=$1"
}

go fp32
goal=$(awk -v a="$(final accuracy)" 'BEGIN { printf "%.4f", a - 0.003 }')
echo "fp32, $steps steps: $(final accuracy)"
for precision in tf32 bf16; do
    go $precision
    reaches "$(final accuracy)" "$goal" "accuracy of lenet, $precision, $steps steps"
done

train lenet.ini --name fp16 --steps $steps --set job.eval_every=$((steps / 5)) \
    --set job.precision=fp16 --set job.loss_scale=16777216 --set job.loss_scale_every=500
reaches "$(final accuracy)" "$goal" "accuracy of lenet, fp16, $steps steps"
overflows=$("$SW" history sql "SELECT count(*) FROM events WHERE text LIKE '%overflow at loss scale%'
    AND run_id = (SELECT max(id) FROM runs)")
[ "$overflows" -gt 0 ] || fail "no gradient has overflowed at a loss scale of 2^24"
echo "fp16: $overflows updates skipped, loss scale by thousands of steps:"
"$SW" history sql "SELECT step, value FROM metrics WHERE name = 'loss_scale' AND step % 1000 = 0
    AND run_id = (SELECT max(id) FROM runs)"
