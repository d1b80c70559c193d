"""`python -I executor.py`: what an executor's pod runs, from what Spark on Kubernetes tells it by its environment.

Spark's own images have a shell script for it; here the processor's image is the executor's, so that lanes find the very
packages that the driver has. Invariant: nothing is added to what Spark says, but that it says it on Kubernetes.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import count
from pathlib import Path

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
# The driver says it too, but only to who has proved to know the secret, and Spark reads that from a file only where the
# master is Kubernetes (SecurityManager.secretKeyFromFile).
MASTER = "-Dspark.master=k8s://"
TOLD = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(told: Mapping[str, str], java: str, jars: Path) -> list[str]:
    heap = told["SPARK_EXECUTOR_MEMORY"]
    arguments = [part for option, name in TOLD.items() for part in (option, told[name])]
    return [java, *_java_options(told), MASTER, f"-Xms{heap}", f"-Xmx{heap}", "-cp", f"{jars}/*", BACKEND, *arguments]


def _java_options(told: Mapping[str, str]) -> Iterator[str]:
    for number in count():
        option = told.get(f"SPARK_JAVA_OPT_{number}")
        if option is None:
            return
        yield option


def main() -> None:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        sys.exit("executor: pyspark is not installed")
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    told = command(os.environ, java, Path(found.origin).parent / "jars")
    os.execv(java, told)  # noqa: S606 - the JVM takes this process's place and its signals


if __name__ == "__main__":
    main()
