# ctest-timeout: 3600
# A machine of 500 hidden units, trained with persistent chains by one core, gives test pictures a
# likelihood of at least -95 nats; one core takes less than ten minutes for training and estimate.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1
train rbm-pcd.ini
echo 'CPU time of the shell and of its programs:' && times
reaches "$(final log_likelihood)" -95 'log likelihood of a test picture, nats'
