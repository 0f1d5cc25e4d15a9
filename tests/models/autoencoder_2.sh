# ctest-timeout: 3600
# Codes of two values: below what two principal components leave, and digits form clusters, which
# nearest neighbours among the codes tell.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
limit=$(pca_error 2)
train autoencoder-2.ini
below "$(final reconstruction_error)" "$limit" 'reconstruction error of autoencoder-2'
near=$(nearest autoencoder-2.ini enc4)
reaches "$near" 0.65 'nearest neighbours of the same digit among codes of 2 values'
