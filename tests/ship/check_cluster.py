"""The chart in a cluster: two pipelines install as `restricted`, carry changes, survive, go away cleanly; and so does
one whose lanes run in executors.

`CHART_CLUSTER=1 KUBECONFIG=… make test-helm`, with Tidegate's images and those of cluster/servers.yaml known to the
nodes, and the monitoring CRDs installed. It makes the namespaces `servers` and `tidegate`, and deletes them.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kit.wait import wait

from ship.queries import CHART, ROOT
from tidegate_admin.security.scopes import Scope
from tidegate_admin.security.tokens import create

HERE = Path(__file__).parent / "cluster"
VALUES = CHART / "ci" / "two-values.yaml"
EXECUTORS = CHART / "ci" / "executors-values.yaml"
WAREHOUSE = "postgresql://warehouse@postgres:5432/warehouse"
SPREAD = (
    *("--set", f"pipelines[0].config.sinks[1].options.dsn={WAREHOUSE}"),
    *("--set", "processor.executors.count=2", "--set", "uninstall.slots=drop"),
)
PIPELINES = ("shop", "shop-copy")
SLOTS = "SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots"
STRANGER = """
import pathlib, subprocess, sys
commands = [path.read_text().split(chr(0))[:-1] for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')]
(real,) = (each for each in commands if any(part.endswith('.KubernetesExecutorBackend') for part in each))
less = [part for part in real if not part.startswith(('-Dspark.authenticate.secret', '-Xm'))]
if len(sys.argv) == 1:
    less = [part for part in less if not part.startswith(('-Dspark.authenticate', '-Dspark.network.crypto'))]
less[less.index('--executor-id') + 1] = '77'
done = subprocess.run([less[0], '-Xmx128m', *sys.argv[1:], *less[1:]], capture_output=True, text=True, timeout=90)
print(done.returncode, *(line for line in (done.stdout + done.stderr).splitlines() if 'Exception' in line), sep=chr(10))
"""
LISTENS = """
import pathlib
found = [line.split() for name in ('tcp', 'tcp6') for line in pathlib.Path('/proc/net', name).read_text().splitlines()]
reached = [line[1].split(':') for line in found if line[3] == '0A']
print(*{int(port, 16) for address, port in reached if not address.endswith(('0100007F', '01000000'))})
"""
"""Ports that listen elsewhere than on loopback."""

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("CHART_CLUSTER"), reason="CHART_CLUSTER=1 installs it in a cluster"),
]


def run(*command: str | Path, check: bool = True, given: str | None = None) -> str:
    done = subprocess.run([*map(str, command)], input=given, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 or not check, f"{command}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def kubectl(*arguments: str | Path, namespace: str = "tidegate", check: bool = True, given: str | None = None) -> str:
    return run("kubectl", "-n", namespace, *arguments, check=check, given=given)


def helm(*arguments: str | Path, check: bool = True) -> str:
    return run("helm", "-n", "tidegate", *arguments, check=check)


def psql(statement: str, database: str = "shop") -> str:
    arguments = ("exec", "deploy/postgres", "--", "psql", "-XAtqU", "postgres", "-d", database, "-c", statement)
    return kubectl(*arguments, namespace="servers", check=False).strip()


def changes_go_through(release: str = "demo", pipelines: tuple[str, ...] = PIPELINES) -> None:
    said = helm("test", release, "--logs", "--timeout", "4m")
    for pipeline in pipelines:
        assert f"pipeline {pipeline}: a change is through" in said


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    for namespace in ("tidegate", "servers"):
        run("kubectl", "delete", "namespace", namespace, "--ignore-not-found", "--wait")
        run("kubectl", "create", "namespace", namespace)
    kubectl("create", "configmap", "role", f"--from-file={ROOT}/docs/operations/role.sql", namespace="servers")
    kubectl("apply", "-f", HERE / "servers.yaml", namespace="servers")
    run("kubectl", "label", "namespace", "tidegate", "pod-security.kubernetes.io/enforce=restricted")
    kubectl("apply", "-f", HERE / "names.yaml")
    secrets(tmp_path_factory.mktemp("tokens") / "tokens.json")
    kubectl("wait", "--for=condition=Available", "deploy", "--all", "--timeout=180s", namespace="servers")
    yield
    for namespace in ("tidegate", "servers"):
        run("kubectl", "delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
def release(namespaces: None) -> None:
    helm("install", "demo", CHART, "-f", VALUES, "--wait", "--timeout", "6m")


def secrets(tokens: Path) -> None:
    _, text = create(tokens, "check", frozenset(Scope))
    passwords = ("--from-literal=source-password=check-postgres", "--from-literal=redis-password=check-redis")
    kubectl("create", "secret", "generic", "shop-credentials", *passwords)
    kubectl("create", "secret", "generic", "admin-tokens", f"--from-file=tokens.json={tokens}")
    kubectl("create", "secret", "generic", "admin-read-token", f"--from-literal=token={text}")


def test_a_change_goes_through_each_pipeline(release: None) -> None:
    changes_go_through()
    assert psql(SLOTS) == "tidegate_shop tidegate_shop_copy"


def test_the_api_server_takes_every_object_as_it_is(release: None) -> None:
    rendered = helm("template", "demo", CHART, "-f", VALUES)
    objects = [document for document in yaml.safe_load_all(rendered) if document]
    named = "\n---\n".join(yaml.safe_dump(each) for each in objects)
    kubectl("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-", given=named)


def test_the_namespace_refuses_what_is_not_restricted(release: None) -> None:
    """So that the profile is known to be enforced where the chart was taken."""
    said = kubectl("run", "root", "--image=tidegate-admin:0.1.0", check=False)
    assert "violates PodSecurity" in said


@pytest.mark.parametrize("component", ["reader", "processor", "admin"])
def test_a_pod_that_dies_comes_back(release: None, component: str) -> None:
    selector = f"app.kubernetes.io/component={component}"
    kubectl("delete", "pod", "-l", selector, "--grace-period=0", "--force")
    kubectl("wait", "--for=condition=Available", "deploy", "-l", selector, "--timeout=240s")
    changes_go_through()


def test_an_upgrade_and_its_rollback_carry_changes(release: None) -> None:
    before = checksum()
    changed = ("--set", "reader.podAnnotations.changed=yes")
    helm("upgrade", "demo", CHART, "-f", VALUES, *changed, "--wait", "--timeout", "6m")
    changes_go_through()
    helm("rollback", "demo", "1", "--wait", "--timeout", "6m")
    assert before == checksum()
    changes_go_through()


def checksum() -> str:
    path = "{.spec.template.metadata.annotations.checksum/config}"
    return kubectl("get", "deploy", "demo-tidegate-shop-reader", "-o", f"jsonpath={path}")


def test_an_uninstall_asks_about_the_slots_and_then_drops_them(release: None) -> None:
    refused = helm("uninstall", "demo", check=False)
    assert "failed" in refused.lower()
    assert "demo-tidegate-shop-reader" in kubectl("get", "deploy", "-o", "name")
    said = kubectl("logs", "job/demo-tidegate-slots-ask")
    assert "slot tidegate_shop would stay" in said
    kubectl("create", "configmap", "demo-tidegate-slots", "--from-literal=answer=drop")
    helm("uninstall", "demo", "--wait", "--timeout", "6m")
    wait(lambda: psql(SLOTS) == "", 60.0, "the slots are gone", every_seconds=1.0)


@pytest.fixture(scope="module")
def spread(namespaces: None) -> None:
    helm("install", "spread", CHART, "-f", EXECUTORS, *SPREAD, "--wait", "--timeout", "6m")


def executors() -> set[str]:
    path = "{range .items[?(@.status.phase=='Running')]}{.metadata.name} {end}"
    return set(kubectl("get", "pods", "-l", "spark-role=executor", "-o", f"jsonpath={path}").split())


def arrives_in_the_warehouse(name: str) -> None:
    psql(f"INSERT INTO customers (name) VALUES ('{name}')")
    look = f"SELECT count(*) FROM public.customers WHERE name = '{name}'"
    wait(lambda: psql(look, "warehouse") == "1", 240.0, f"{name} is in the warehouse", every_seconds=1.0)


def test_lanes_run_in_executors_that_the_driver_asks_for(spread: None) -> None:
    assert len(executors()) == 2
    changes_go_through("spread", ("spread",))
    arrives_in_the_warehouse("first")
    holder = "{.items[0].metadata.ownerReferences[0].name}"
    owner = kubectl("get", "pods", "-l", "spark-role=executor", "-o", f"jsonpath={holder}")
    assert owner.startswith("spread-tidegate-spread-processor-")


def test_an_executor_has_no_token_and_the_driver_may_ask_for_pods_only(spread: None) -> None:
    path = "{.items[*].spec.automountServiceAccountToken}"
    assert set(kubectl("get", "pods", "-l", "spark-role=executor", "-o", f"jsonpath={path}").split()) == {"false"}
    who = "--as=system:serviceaccount:tidegate:spread-tidegate-driver"
    assert kubectl("auth", "can-i", "create", "pods", who).strip() == "yes"
    for what in ("secrets", "configmaps", "services"):
        assert kubectl("auth", "can-i", "list", what, who, check=False).strip() == "no"


@pytest.mark.parametrize(
    ("knows", "refused"),
    [
        pytest.param("", "Expected SaslMessage", id="nothing"),
        pytest.param("-Dspark.authenticate.secret.file=/etc/hostname", "while bootstrapping client", id="another"),
    ],
)
def test_the_driver_hears_nobody_who_does_not_know_the_secret(spread: None, knows: str, refused: str) -> None:
    """An executor's own command, less the secret: the real one, from the same pod, was let in."""
    executor = sorted(executors())[0]
    said = kubectl("exec", "-i", executor, "--", "/app/bin/python", "-", *([knows] if knows else []), given=STRANGER)
    ended, told = said.split(maxsplit=1)
    assert int(ended) != 0
    assert refused in told
    assert executor in executors()


def test_driver_and_executors_listen_where_the_policies_say_and_nowhere_else(spread: None) -> None:
    """No policy is enforced where this runs: one that forgot a port would be found out elsewhere."""
    driver = kubectl("get", "pods", "-l", "app.kubernetes.io/component=processor", "-o", "name").split()
    assert [listens(pod) for pod in driver] == [{7078, 7079, 8082}]
    assert [listens(pod) for pod in executors()] == [{7079}, {7079}]


def listens(pod: str) -> set[int]:
    return set(map(int, kubectl("exec", "-i", pod, "--", "/app/bin/python", "-", given=LISTENS).split()))


def test_an_upgrade_keeps_the_secret_and_the_api_server_takes_what_it_renders(spread: None) -> None:
    before = drawn()
    helm("upgrade", "spread", CHART, "-f", EXECUTORS, *SPREAD, "--dry-run=server")
    helm("upgrade", "spread", CHART, "-f", EXECUTORS, *SPREAD, "--wait", "--timeout", "6m")
    helm("rollback", "spread", "1", "--wait", "--timeout", "6m")
    assert before == drawn()
    arrives_in_the_warehouse("after the upgrade")


def drawn() -> str:
    secret = kubectl("get", "secret", "spread-tidegate-spread-spark-secret", "-o", "jsonpath={.data.secret}")
    assert len(secret) == 88
    return secret


def test_an_executor_that_dies_is_replaced_and_its_lanes_go_on(spread: None) -> None:
    before = executors()
    kubectl("delete", "pod", *before, "--grace-period=0", "--force")
    wait(lambda: len(executors() - before) == 2, 240.0, "new executors run", every_seconds=1.0)
    arrives_in_the_warehouse("after the executors")


def test_executors_go_with_their_driver(spread: None) -> None:
    before = executors()
    selector = "app.kubernetes.io/component=processor,app.kubernetes.io/instance=spread"
    kubectl("delete", "pod", "-l", selector, "--grace-period=0", "--force")
    wait(lambda: not executors() & before, 120.0, "the old executors are gone", every_seconds=1.0)
    arrives_in_the_warehouse("after the driver")
    helm("uninstall", "spread", "--wait", "--timeout", "6m")
    wait(lambda: executors() == set() and psql(SLOTS) == "", 120.0, "nothing is left", every_seconds=1.0)
