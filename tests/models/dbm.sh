# ctest-timeout: 3600
# A deep Boltzmann machine of 500 and 1000 hidden units, pre-trained and then trained as a whole, gives
# test images of MNIST a variational bound of at least -100 nats. A third of the temperatures changes
# the estimate of log Z, and with it the bound, by less than 3 nats.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1
train dbm.ini
estimate=$(final variational_bound.log_partition)
low=$(final variational_bound.log_partition_low)
echo "log Z: $estimate ($low, 0 if undefined, to $(final variational_bound.log_partition_high))"
reaches "$(final variational_bound)" -100 'variational bound of a test image, nats'

newest=$(ls -t "$T"/run/checkpoint-*.safetensors | head -n 1)
"$SW" eval "$recipe" --weights "$newest" --json --set layer.bound.temperatures=1000 >"$T/out" \
    2>"$T/err" || fail "exit $?"
fewer=$(grep -o '"variational_bound.log_partition": *[0-9.]*' "$T/out" | sed 's/.*: *//')
apart=$(awk -v a="$estimate" -v b="${fewer:-0}" 'BEGIN { print (a > b ? a - b : b - a) }')
below "$apart" 3 "difference from log Z with 1000 temperatures, $fewer"
