# A bare Debian in a folder, for scripts that try an installation on a system that has never seen the
# program. Sourced after lib.sh.

# bare_debian SUITE FOLDER: skips where there is no root, no debootstrap or no mirror (SINGA_MIRROR).
bare_debian() {
    [ "$(id -u)" = 0 ] || skip 'only root can make a bare Debian (all before it passed)'
    command -v debootstrap >/dev/null && command -v unshare >/dev/null ||
        skip 'debootstrap or unshare is not here (all before it passed)'
    unshare --mount true 2>/dev/null || skip 'no mount namespaces here (all before it passed)'
    debootstrap --variant=minbase "$1" "$2" "${SINGA_MIRROR:-http://deb.debian.org/debian}" \
        >"$T/out" 2>"$T/err" || skip "debootstrap cannot fetch $1 (all before it passed)"
    cp /etc/resolv.conf "$2/etc/"
}

# in_debian FOLDER SCRIPT: runs the shell script, a file of that Debian, with mounts that end with it.
# What it says is in $T/out and $T/err.
in_debian() {
    unshare --mount --fork sh -e -c '
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
        mount -t tmpfs tmpfs "$1/dev/shm" 2>/dev/null || true
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
            DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$1" sh -e "$2"' sh "$1" "$2" \
        >"$T/out" 2>"$T/err" </dev/null
}
