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
# Docker needs it, and this network gets it from the machine's. It is a switch of this network only.
echo 1 >"$root/proc/sys/net/ipv4/ip_forward"
# The kernel is shared: its settings and its disks are out of reach.
for path in sys sysrq-trigger; do
  [ -e "$root/proc/$path" ] || continue
  mount --bind "$root/proc/$path" "$root/proc/$path"
  mount -o remount,bind,ro "$root/proc/$path"
done
mount --rbind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"
mount -t tmpfs -o mode=755 world "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 world "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
# The repository, the faults and the program may be on another disk, or below /tmp.
for path in "$repository" "$faults" "$1"; do
  if [ -d "$path" ]; then mkdir -p "$root$path"; fi
  # The program is often in the repository, and a running program cannot be touched.
  if [ ! -e "$root$path" ]; then mkdir -p "$root$(dirname "$path")" && touch "$root$path"; fi
  mount --bind "$path" "$root$path"
  mount -o remount,bind,ro "$root$path"
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
