"""The chart without a cluster: what helm, its unit tests and Kubernetes' own schemas say of it.

Not part of `make test`: `make test-helm`. A tool that is not installed is named; nothing is skipped in silence.
`tests/ship/tools.sh` writes the schemas that kubeconform goes by, those of the monitoring CRDs too; `KUBE_SCHEMAS`
names another folder of them. Without either, kubeconform fetches Kubernetes' own and passes over the CRDs.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ship.queries import CHART, ROOT

VALUES = sorted((CHART / "ci").glob("*.yaml"))
SCHEMAS = Path(os.environ.get("KUBE_SCHEMAS", ROOT / ".cache" / "kube-schemas"))
PLACE = "{{ .ResourceKind }}{{ .KindSuffix }}.json"


def run(tool: str, *arguments: str | Path, given: str = "") -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run([found, *map(str, arguments)], input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_helm_lints_it(values: Path) -> None:
    run("helm", "lint", "--strict", CHART, "-f", values)


def test_its_unit_tests_pass() -> None:
    run("helm-unittest", CHART)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_kubernetes_knows_every_field(values: Path) -> None:
    rendered = run("helm", "template", "check", CHART, "-f", values, "--include-crds")
    run("kubeconform", "-strict", "-summary", *schemas(), "-", given=rendered)


@pytest.mark.parametrize(
    "wrong",
    [
        "{apiVersion: apps/v1, kind: Deployment, spec: {selector: {}, template: {spec: {containers: [], volume: []}}}}",
        "{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, spec: {selector: {}, podMetricsEndpoint: []}}",
    ],
)
def test_a_field_that_kubernetes_does_not_know_is_refused(wrong: str) -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("tests/ship/tools.sh writes the schemas")
    with pytest.raises(AssertionError, match="additional properties"):
        run("kubeconform", "-strict", *schemas(), "-", given=wrong)


def schemas() -> tuple[str, ...]:
    if SCHEMAS.is_dir():
        return ("-schema-location", f"{SCHEMAS}/{PLACE}")
    return ("-schema-location", "default", "-ignore-missing-schemas")


def test_its_page_is_what_helm_docs_writes() -> None:
    before = (CHART / "README.md").read_text()
    assert before == run("helm-docs", "-c", CHART, "--dry-run")[: len(before)]


def test_it_names_the_images_of_its_own_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert {f"tidegate-{image['name']}:{chart['appVersion']}" for image in images} == {
        image["image"] for image in images
    }
