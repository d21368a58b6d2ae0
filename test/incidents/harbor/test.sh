#!/usr/bin/env bash
# The reward is 1 if the service truly works and nothing changed that must not.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export LIB=$here/lib.sh IMAGE=services:1
mkdir -p /logs/verifier
cd /srv
for part in ground fault; do
  [ ! -x "$here/$part/canaries" ] || "$here/$part/canaries"
done >/tmp/after
reward=0
if diff /var/lib/incidents/before /tmp/after && "$here/fault/oracle"; then reward=1; fi
echo "$reward" >/logs/verifier/reward.txt
