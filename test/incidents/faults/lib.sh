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

# site NAME PORT: nginx with one page, in a container of this name. Its settings are in /srv/conf/NAME, its pages in /srv/www/NAME.
site() {
  mkdir -p "/srv/conf/$1" "/srv/www/$1"
  echo "welcome to $1" >"/srv/www/$1/index.html"
  nginx_conf "listen 127.0.0.1:$2; root /www;" >"/srv/conf/$1/nginx.conf"
  container "$1" -v "/srv/conf/$1:/conf:ro" -v "/srv/www/$1:/www:ro" -- nginx -c /conf/nginx.conf
  until_true answers "http://127.0.0.1:$2/"
}

# nginx_conf LINES-OF-THE-SERVER [LINES-OF-HTTP]: prints a configuration of nginx for a container.
nginx_conf() {
  cat <<NGINX
daemon off;
error_log stderr;
pid /tmp/nginx.pid;
worker_processes 1;
events {}
http {
  access_log /dev/stdout;
  ${2:-}
  server {
    $1
  }
}
NGINX
}

# database [POSTGRES-OPTION...]: PostgreSQL in the container db, with five orders. Its files are in /srv/volumes/db/data.
database() {
  mkdir -p /srv/volumes/db/data
  chown 70:70 /srv/volumes/db/data
  chmod 700 /srv/volumes/db/data
  # A cluster that was made with the image is copied at the first start.
  container db --user 70:70 -v /srv/volumes/db/data:/data -- \
    sh -c '[ -e /data/PG_VERSION ] || cp -a /var/lib/postgresql/template/. /data; exec postgres -D /data "$@"' postgres "$@"
  until_true sql 'SELECT 1'
  sql "CREATE TABLE orders (id serial PRIMARY KEY, item text NOT NULL, done boolean NOT NULL DEFAULT false);
    INSERT INTO orders (item, done) SELECT 'book ' || n, true FROM generate_series(1, 5) AS n" >/dev/null
}

# sql STATEMENT: asks PostgreSQL as its superuser.
sql() { PGCONNECT_TIMEOUT=3 psql -h 127.0.0.1 -U postgres -qAt -v ON_ERROR_STOP=1 -c "$1"; }

# queue [REDIS-OPTION...]: Redis in the container queue. Its files are in /srv/volumes/queue.
queue() {
  mkdir -p /srv/volumes/queue
  container queue -v /srv/volumes/queue:/data -- redis-server --dir /data --bind 127.0.0.1 --save '' "$@"
  until_true pong
}

pong() { [ "$(redis-cli -p 6379 ping)" = PONG ]; }

# writable_check NAME: a program of the operator's that says whether Redis takes writes.
writable_check() {
  program "$1" <<'EOF'
#!/bin/sh
answer=$(redis-cli -p 6379 set probe:write 1 px 50 2>&1)
[ "$answer" = OK ] && { echo writable; exit 0; }
echo "$answer"
exit 1
EOF
}

# clear_cache NAME: a program of the operator's that removes the cached pages from Redis.
clear_cache() {
  program "$1" <<'EOF'
#!/bin/sh
redis-cli -p 6379 --scan --pattern 'cache:*' | xargs -n 100 redis-cli -p 6379 del
EOF
}

# shop [DOCKER-OPTION...]: the application in the container shop, at port 8082. Its settings are in /srv/conf/shop/settings.
shop() {
  container shop -v /srv/conf/shop:/conf:ro "$@" -- app web /conf/settings
  until_true answers http://127.0.0.1:8082/health
}

# settings LINE...: writes the settings of the application.
settings() {
  mkdir -p /srv/conf/shop
  printf '%s\n' "$@" >/srv/conf/shop/settings
}

# signal SIGNAL CONTAINER: sends a signal to every process of a container.
signal() {
  local pid
  docker top "$2" -eo pid | tail -n +2 | while read -r pid; do kill "-$1" "$pid"; done
}

# started CONTAINER...: canaries that say when containers were started.
started() {
  local name
  for name in "$@"; do echo "$name-started $(docker inspect -f '{{.State.StartedAt}} {{.State.Status}}' "$name" 2>/dev/null | head -1)"; done
}

# sum NAME FILE...: a canary that says what is in files.
sum() { echo "$1 $(cat "${@:2}" 2>/dev/null | sha256sum | cut -c1-16)"; }

# dns_is ADDRESS: the name server gives this address for the shop.
dns_is() { [ "$(dig +short +time=1 +tries=1 @127.0.0.1 shop.internal)" = "$1" ]; }
