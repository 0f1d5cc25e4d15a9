# ctest-timeout: 3600
# Four machines, unfolded and tuned: the auto-encoder of 30 units leaves well below what as many
# principal components leave of the test pictures (Hinton and Salakhutdinov 2006: 3.0 against 13.9).
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
limit=$(pca_error 30)
train autoencoder.ini
echo "30 principal components leave $limit"
below "$(final reconstruction_error)" "$(awk -v all="$limit" 'BEGIN { print 0.4 * all }')" \
    'reconstruction error of autoencoder'
near=$(nearest autoencoder.ini enc4)
reaches "$near" 0.95 'nearest neighbours of the same digit among codes of 30 values'
