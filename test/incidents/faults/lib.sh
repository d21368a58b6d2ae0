# Functions for the scripts of faults. A script begins with: source "$LIB"
set -euo pipefail

# container NAME [DOCKER-OPTION...] -- COMMAND...: starts a container of the services' image on the network of the machine.
container() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  docker run -d --name "$name" --network host --stop-timeout 1 "${options[@]}" "$IMAGE" "$@" >/dev/null
}

# until_true COMMAND...: waits until a command succeeds, at most ten seconds.
until_true() {
  local i
  for ((i = 0; i < 200; i++)); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.05
  done
  echo "did not succeed in time: $*" >&2
  return 1
}

# answers URL: the page is there.
answers() { curl -fsS -m 2 -o /dev/null "$1"; }

# program NAME: installs a script of the operator's, read from standard input, where guard rules and people find it by its plain name.
program() {
  cat >"/usr/local/bin/$1"
  chmod 755 "/usr/local/bin/$1"
}
