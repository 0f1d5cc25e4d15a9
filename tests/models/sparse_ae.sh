# ctest-timeout: 900
# The sparse auto-encoder leaves less of the test pictures than as many principal components as its code
# has values.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
limit=$(pca_error 64)
train sparse-ae.ini
below "$(final reconstruction_error)" "$limit" 'reconstruction error of sparse-ae'
