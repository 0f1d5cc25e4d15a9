# ctest-timeout: 3600
# A classifier that begins as a deep belief net (published: 98.8 %; 98.4 % from random values).
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
train dbn-dnn.ini
reaches "$(best accuracy | cut -d ' ' -f 1)" 0.984 'accuracy of dbn-dnn'
