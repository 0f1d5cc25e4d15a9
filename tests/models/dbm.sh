# ctest-timeout: 3600
# A deep Boltzmann machine of 500 and 1000 hidden units, pre-trained and then trained as a whole, gives
# test pictures of MNIST a variational bound of at least -120 nats. log Z, and
# with it the bound, is an estimate (see the recipe).
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1
train dbm.ini
echo "log Z: $(final variational_bound.log_partition)"
reaches "$(final variational_bound)" -120 'variational bound of a test picture, nats'
