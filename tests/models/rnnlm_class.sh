# ctest-timeout: 3600
# The model of words with a softmax over classes comes to a perplexity below 130 too.
. "$(dirname "$0")/lib.sh"
needs text/text8-head
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
train rnnlm-class.ini
below "$(final perplexity)" 130 'perplexity of rnnlm-class'
