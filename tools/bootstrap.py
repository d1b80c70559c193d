"""Makes a machine ready for `make demo` and `make test`: uv, the environment, Java, the jars, the compiled kernels, and
an archive of Spark's classes.

    python3 tools/bootstrap.py [environment] [java] [jars] [kernels] [classes]        no part named means all of them

Standard library only, and old syntax only: it has to get as far as saying what is missing on any Python 3.
Invariant: safe to run twice, at once, and after being cut off; what is done is remembered by the digest of its inputs,
so a call with nothing to do costs a tenth of a second. Exit 0 ready, 1 try again, 2 a person has to install something.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import uv_wheel
from telling import heartbeat, run_aloud, run_quietly, say
from uv_wheel import Failed, Missing

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
STAMP = CACHE / "bootstrap.json"
PARTS = ("environment", "java", "jars", "kernels", "classes")
JAVA_PACKAGE = "openjdk-17-jre-headless"
OLDEST_PYTHON = (3, 11)

sys.path.insert(0, str(ROOT / "libs" / "src"))  # the jar lock's reader and the Java finder need nothing but this Python


def main(arguments):
    unknown = set(arguments) - set(PARTS)
    if unknown:
        print("usage: python3 tools/bootstrap.py [{}]".format("] [".join(PARTS)), file=sys.stderr)
        return 2
    parts = arguments or PARTS
    try:
        use_new_enough_python()
        if not open_parts(parts):
            return 0
        with only_one():
            make_ready(open_parts(parts))
    except Missing as missing:
        print(f"bootstrap: {missing}", file=sys.stderr)
        return 2
    except Failed as failed:
        print(f"bootstrap: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bootstrap: cut off; the next run goes on from here", file=sys.stderr)
        return 130
    return 0


def make_ready(parts):
    """Side by side: each waits for another server most of the time, or for the environment."""
    begun = time.monotonic()
    running = {}

    def kernels():
        if "environment" in running:
            running["environment"].result()
        return compile_kernels()

    def classes():
        for part in running.keys() - {"classes"}:
            running[part].result()
        return archive_classes()

    steps = {"environment": sync_environment, "java": provide_java, "jars": fetch_jars}
    steps |= {"kernels": kernels, "classes": classes}
    if parts:
        ensure_certificates()
    with concurrent.futures.ThreadPoolExecutor(len(PARTS)) as pool:
        for part in parts:
            running[part] = pool.submit(steps[part])
        problems = [problem for part, step in running.items() if (problem := finish(part, step))]
    for problem in sorted(problems, key=lambda found: isinstance(found, Missing)):
        raise problem
    if parts:
        say("ready", f"{', '.join(parts)} in {time.monotonic() - begun:.0f} s")


def finish(part, step):
    try:
        note = step.result()
    except (Missing, Failed) as problem:
        say(part, "failed")
        return problem
    remember(part, note)
    return None


# ---- what is done already


def open_parts(parts):
    stamp = read_stamp()
    return [part for part in parts if not is_done(part, stamp.get(part))]


def is_done(part, note):
    if not isinstance(note, dict) or note.get("digest") != digest(part):
        return False
    return all(Path(path).exists() for path in note.get("paths", ()))


def digest(part):
    found = hashlib.sha256(Path(__file__).read_bytes())
    for path in inputs(part):
        found.update(str(path.relative_to(ROOT)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def inputs(part):
    if part == "environment":
        projects = [ROOT / "pyproject.toml", *sorted(ROOT.glob("libs/pyproject.toml")), *services()]
        return [ROOT / "uv.lock", ROOT / ".python-version", *projects]
    if part == "kernels":
        return [ROOT / "uv.lock", *sorted(ROOT.glob("libs/src/tidegate/columns/*.py"))]
    jars = ROOT / "libs/src/tidegate/stack/jars.toml"
    if part == "classes":
        spark = ROOT / "services/spark-processor/src/tidegate_processor/spark"
        return [
            ROOT / "uv.lock",
            jars,
            spark / "session.py",
            spark / "class_archive.py",
            ROOT / "tools/archive_spark.py",
        ]
    return [jars] if part == "jars" else []


def services():
    return sorted(ROOT.glob("services/*/pyproject.toml"))


def read_stamp():
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def remember(part, paths):
    stamp = read_stamp()
    stamp[part] = {"digest": digest(part), "paths": [str(path) for path in paths]}
    part_file = STAMP.with_name(STAMP.name + ".part")
    part_file.write_text(json.dumps(stamp, indent=1))
    part_file.replace(STAMP)


@contextlib.contextmanager
def only_one():
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "bootstrap.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("bootstrap", "another one is at work here, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---- Python and certificates


def use_new_enough_python():
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return
    for minor in range(20, OLDEST_PYTHON[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            os.execv(found, [found, *sys.argv])
    raise Missing("Python 3.11 or newer is needed: apt-get install -y python3.11")


def ensure_certificates():
    """A bare Debian has none, and then nothing can be fetched that is worth trusting."""
    import ssl

    paths = ssl.get_default_verify_paths()
    if paths.cafile or Path("/etc/ssl/certs/ca-certificates.crt").exists():
        return
    install_package("ca-certificates", "certificates")


# ---- uv and the environment


def sync_environment():
    uv = uv_wheel.find(CACHE) or uv_wheel.fetch(CACHE)
    environment = dict(os.environ)
    environment.setdefault("UV_SYSTEM_CERTS", "1")  # a company's own authority is known to the system, not to uv
    environment.setdefault("UV_PYTHON_PREFERENCE", "system")
    # Else every process compiles what it imports where PYTHONDONTWRITEBYTECODE is set: seconds, and eight megabytes.
    environment.setdefault("UV_COMPILE_BYTECODE", "1")
    environment.pop("VIRTUAL_ENV", None)
    say("environment", "uv sync")
    run_aloud("environment", [uv, "sync", "--locked", "--all-packages"], environment, ROOT)
    return [ROOT / ".venv" / "bin" / "python", ROOT / ".venv" / "bin" / "pytest"]


def compile_kernels():
    """Else the first lane and the first test would, each behind a deadline of its own."""
    say("kernels", "compiling, about a minute")
    command = [str(ROOT / ".venv/bin/python"), str(ROOT / "tools/warm_kernels.py")]
    with heartbeat("kernels"):
        done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise Failed("the kernels were not compiled; what was said stands above. Mend it and run again.")
    folder = Path(done.stdout.strip())
    return [folder] if folder.exists() else []  # where the cache can't be written, each process compiles anew


def archive_classes():
    """Else each start of the processor parses them anew, for twice as long. Nothing depends on it, so nothing fails."""
    say("classes", "archiving what Spark loads, about half a minute")
    command = [str(ROOT / ".venv/bin/python"), str(ROOT / "tools/archive_spark.py")]
    log = CACHE / "classes.log"
    with log.open("wb") as stream, heartbeat("classes"):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stream, encoding="utf-8", check=False)
    if done.returncode != 0:
        say("classes", f"not archived (see {log}): the processor starts without, and takes longer")
        return []
    return [Path(line) for line in done.stdout.splitlines()[-1:]]


# ---- Java and the jars


def provide_java():
    from tidegate.errors import ConfigError
    from tidegate.stack.jvm import find_java

    try:
        return [find_java()]
    except ConfigError:
        Path("/usr/share/man/man1").mkdir(parents=True, exist_ok=True) if os.geteuid() == 0 else None
        install_package(JAVA_PACKAGE, "java")
    try:
        return [find_java()]
    except ConfigError as error:
        raise Missing(f"{JAVA_PACKAGE} is installed, but {error}. {error.remedy}") from error


def fetch_jars():
    from tidegate.errors import ConfigError, TidegateError
    from tidegate.stack.jars import ensure, fetch_aloud, jar_sets

    try:
        for jar_set in jar_sets():
            fetch_aloud(jar_set)
        return [jar for jar_set in jar_sets() for jar in ensure(jar_set)]
    except TidegateError as error:
        kind = Missing if isinstance(error, ConfigError) else Failed
        raise kind(f"{error}. {error.remedy}") from error


APT = threading.Lock()


def install_package(package, part):
    command = f"apt-get update && apt-get install -y --no-install-recommends {package}"
    if os.geteuid() != 0:
        raise Missing(f"{package} is needed; as root: {command}")
    if shutil.which("apt-get") is None:
        raise Missing(f"{package} is needed, and this is no Debian: install it by your package manager")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "-q", "--no-install-recommends", package]
    Path("/usr/share/man/man1").mkdir(parents=True, exist_ok=True)  # slim images lack it, and Java's package fails then
    with APT:
        say(part, f"apt-get install {package}")
        log = CACHE / f"apt-{package}.log"
        if not run_quietly(part, install, environment, log):
            run_quietly(part, ["apt-get", "update", "-q"], environment, log)
            if not run_quietly(part, install, environment, log):
                raise Missing(f"{package} could not be installed (see {log}); as root: {command}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
