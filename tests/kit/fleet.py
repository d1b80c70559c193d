"""Services as processes, as a supervisor would run them: started, ended with everything they started, logs kept."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.stack import jars


class Service:
    def __init__(self, program: str, config: Path, environ: Mapping[str, str], options: Sequence[str] = ()) -> None:
        self._command = [str(Path(sys.executable).with_name(program)), "--config", str(config), *options]
        self._environ = {**os.environ, **environ}
        self._log = config.with_name(f"{program}.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """With the JVM and the workers it started: they are in its process group."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def stop(self, seconds: float = 30) -> int:
        process, self._process = self._process, None
        assert process is not None, "it was not started"
        process.terminate()
        return process.wait(seconds)

    def wait(self, seconds: float) -> int:
        assert self._process is not None, "it was not started"
        return self._process.wait(seconds)

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


@contextmanager
def service(program: str, config: Path, environ: Mapping[str, str], options: Sequence[str] = ()) -> Iterator[Service]:
    """Not started yet; whatever was started is gone afterwards."""
    made = Service(program, config, environ, options)
    try:
        yield made
    finally:
        made.kill()


def spark_jars() -> dict[str, str]:
    return {"TIDEGATE_SPARK_JARS": ":".join(str(path) for path in jars.ensure("spark"))}
