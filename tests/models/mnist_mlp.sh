# ctest-timeout: 900
# mnist-mlp has 97.5 % of the test pictures right after 3000 steps of 64.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
train mnist-mlp.ini --steps 3000 --set job.batch=64
reaches "$(final accuracy)" 0.975 'accuracy of mnist-mlp after 3000 steps'
