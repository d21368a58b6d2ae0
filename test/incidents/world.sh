#!/usr/bin/env bash
# Makes a throwaway copy of this machine: its own files (changes go to memory), processes and network with nothing but loopback.
# A program in it can delete everything that it sees, and this machine stays as it is. Runs in new namespaces, as their first process.
# Usage: world.sh FOLDER REPOSITORY FAULTS PROGRAM ARGUMENT...   (FOLDER: an empty folder for the mounts; it stays empty outside)
set -euo pipefail
folder=$1 repository=$2 faults=$3
shift 3
mount --make-rprivate /
mount -t tmpfs -o size=3g,mode=755 world "$folder"
mkdir "$folder"/{changes,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$folder/changes,workdir=$folder/work" world "$folder/root"
root=$folder/root
# Folders of their own, so that nothing of this machine's is in them.
for dir in tmp run srv root home opt media; do
  mkdir -p "$root/$dir"
  mount -t tmpfs -o mode=755 world "$root/$dir"
done
chmod 1777 "$root/tmp"
mkdir -p "$root/var/lib/docker" "$root/run/lock" "$root/mnt/changes" "$root/mnt/old"
mount -t tmpfs -o size=3g world "$root/var/lib/docker"
mount --bind "$folder/changes" "$root/mnt/changes"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
# The repository and the program may be on another disk, or below /tmp.
for path in "$repository" "$faults" "$(dirname "$1")"; do
  mkdir -p "$root$path"
  mount --rbind -o ro "$path" "$root$path"
done
# The channel to the outside: a folder for what is kept.
mkdir -p "$root/mnt/out"
[ -z "${INCIDENTS_OUT:-}" ] || mount --bind "$INCIDENTS_OUT" "$root/mnt/out"
echo 'nameserver 127.0.0.1' >"$root/run/resolv.conf"
mount --bind "$root/run/resolv.conf" "$root/$(readlink -f /etc/resolv.conf)" 2>/dev/null || true
cd "$root"
pivot_root . mnt/old
umount -l /mnt/old
ip link set lo up
exec "$@"
