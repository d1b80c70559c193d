#!/usr/bin/env bash
# Builds what `make test-helm` runs from pinned sources, checked by Go's checksum database, into .cache/bin: for machines
# that have Go and none of it, and writes schemas for kubeconform into .cache/kube-schemas, of Kubernetes and of the CRDs
# that the chart uses. About ten minutes the first time; put .cache/bin on the PATH.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export GOBIN=$root/.cache/bin GOFLAGS=-buildvcs=false
mkdir -p "$GOBIN"
go install helm.sh/helm/v4/cmd/helm@v4.3.1
go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
go install github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
# helm-unittest's module replaces others, which `go install` refuses: built from a module of its own.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
printf 'module scratch\n\ngo 1.26\n\nrequire github.com/helm-unittest/helm-unittest v1.1.2\n\nreplace github.com/vmware-labs/yaml-jsonpath v0.3.2 => github.com/helm-unittest/yaml-jsonpath v0.4.0\n' > go.mod
printf '//go:build tools\n\npackage tools\n\nimport _ "github.com/helm-unittest/helm-unittest/cmd/helm-unittest"\n' > tools.go
GOFLAGS="-mod=mod -buildvcs=false" go build -o "$GOBIN/helm-unittest" github.com/helm-unittest/helm-unittest/cmd/helm-unittest
place() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }
crds=$(place github.com/prometheus-operator/prometheus-operator@v0.92.1)/example/prometheus-operator-crd
"$root/.venv/bin/python" "$root/tests/ship/kube_schemas.py" "$root/.cache/kube-schemas" \
  "$(place k8s.io/kubernetes@v1.34.3)/api/openapi-spec/swagger.json" \
  "$crds"/monitoring.coreos.com_{podmonitors,servicemonitors,prometheusrules}.yaml
