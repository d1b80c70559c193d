#!/bin/bash
# What compose.yaml uses of the official image's entry point: first-run initialisation, then the server as `postgres`.
set -eo pipefail
if [ "$(id -u)" = 0 ]; then
  if [ -n "$POSTGRES_PASSWORD_FILE" ]; then POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE"); export POSTGRES_PASSWORD; fi
  chown -R postgres:postgres "$PGDATA" && chmod 700 "$PGDATA"
  exec setpriv --reuid postgres --regid postgres --clear-groups bash "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb -U "${POSTGRES_USER:=postgres}" --pwfile=<(echo "$POSTGRES_PASSWORD") --auth-local=trust --auth-host=scram-sha-256 \
    -E UTF8 --locale=C.UTF-8 >/dev/null
  printf 'host all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
  export PGHOST=/var/run/postgresql PGUSER=$POSTGRES_USER
  pg_ctl -w -o "-c listen_addresses='' -c unix_socket_directories=$PGHOST" start >/dev/null
  [ "${POSTGRES_DB:=$POSTGRES_USER}" = postgres ] || psql -qd postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
  export POSTGRES_USER POSTGRES_DB
  for file in /docker-entrypoint-initdb.d/*; do
    case $file in
      *.sh) . "$file" ;;
      *.sql) psql -v ON_ERROR_STOP=1 -qd "$POSTGRES_DB" -f "$file" ;;
    esac
  done
  pg_ctl -w -m fast stop >/dev/null
fi
[ "$1" = postgres ] && shift
exec postgres -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql "$@"
