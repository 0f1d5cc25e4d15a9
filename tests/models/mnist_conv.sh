# ctest-timeout: 3600
# mnist-conv has 99.0 % of the test pictures right within 10 000 steps.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
train mnist-conv.ini
found=$(best accuracy)
echo "the best evaluation was at step ${found#* }, the last has $(final accuracy)"
reaches "${found% *}" 0.990 'accuracy of mnist-conv within 10 000 steps'
