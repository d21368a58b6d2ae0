#!/usr/bin/env bash
# Makes the image of the services and puts it into the data folder of a Docker daemon. Runs in new namespaces, so that the daemon ends with
# it. Usage: prepare.sh FOLDER IMAGE
set -euo pipefail
folder=$1 image=$2
ip link set lo up
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/app" ./test/incidents/app
test/incidents/image/build "$work/root" "$work/app"

mount -t tmpfs none /run
mkdir -p "$work/data"
mount -t tmpfs -o size=3g none "$work/data"
echo '{}' >"$work/config.json"
dockerd --config-file "$work/config.json" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" -H "unix://$work/docker.sock" \
  --iptables=false --ip6tables=false --bridge=none >"$work/log" 2>&1 </dev/null &
daemon=$!
export DOCKER_HOST=unix://$work/docker.sock
for ((i = 0; i < 600; i++)); do docker version >/dev/null 2>&1 && break; sleep 0.1; done
tar -C "$work/root" -c . | docker import --change 'ENV PATH=/usr/sbin:/usr/bin:/bin' - "$image" >/dev/null
kill "$daemon" && wait "$daemon" || true

mkdir -p "$(dirname "$folder")"
rm -rf "$(dirname "$folder")"/incidents-image-*
cp -a "$work/data" "$folder.part"
mv "$folder.part" "$folder"
umount "$work/data"
