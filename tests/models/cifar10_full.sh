# ctest-timeout: 1800
# cifar10-full on data_batch_1.bin alone has more than 45 % of the first 1000 test pictures right after
# 1000 of its 70 000 steps: 51.2 % were measured. All five files and all steps give about 81 %.
. "$(dirname "$0")/lib.sh"
needs cifar10/data_batch_1.bin
ls "$SINGA_DATA"/cifar10/test_*.bin >/dev/null 2>&1 || needs cifar10/test_batch.bin
train cifar10-full.ini --steps 1000
reaches "$(final accuracy)" 0.45 'accuracy of cifar10-full after 1000 steps'
