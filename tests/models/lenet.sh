# ctest-timeout: 3600
# lenet has 99.0 % of the test pictures right within 10 000 steps.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
train lenet.ini
found=$(best accuracy)
echo "the best evaluation was at step ${found#* }, the last has $(final accuracy)"
reaches "${found% *}" 0.990 'accuracy of lenet within 10 000 steps'
