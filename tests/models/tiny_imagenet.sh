# ctest-timeout: 3600
# tiny-imagenet learns from JPEG files: more than half of the validation pictures of its ten classes
# are right after 800 of 2400 steps, where 65.2 % were measured. Chance is 10 %.
. "$(dirname "$0")/lib.sh"
needs tiny-imagenet-10/train tiny-imagenet-10/val
train tiny-imagenet.ini --steps 800
reaches "$(final accuracy)" 0.55 'accuracy of tiny-imagenet after 800 steps'
