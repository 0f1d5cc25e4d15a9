# ctest-timeout: 3600
# cifar10-quick on data_batch_1.bin alone (10 000 of 50 000 pictures) has more than 60 % of the test
# pictures right after 2000 steps: 64.2 % of the first 1000 were measured, 66.1 % after 5000 steps,
# when it knows its training pictures by heart. Caffe's 75 % takes all five files.
. "$(dirname "$0")/lib.sh"
needs cifar10/data_batch_1.bin
ls "$SINGA_DATA"/cifar10/test_*.bin >/dev/null 2>&1 || needs cifar10/test_batch.bin
train cifar10-quick.ini --steps 2000
reaches "$(final accuracy)" 0.60 'accuracy of cifar10-quick after 2000 steps'
