"""Finds uv, or takes it out of its wheel on the package index: nothing that could install a wheel is assumed.

Standard library only. The checksum is the index's own; the program gets its name when it is whole.
"""

import json
import os
import platform
import shutil
import subprocess
import zipfile

OLDEST = (0, 9)  # reads this lock's revision
INDEX = "https://pypi.org/simple"


class Missing(Exception):
    """Something only a person can install; the text names the exact command."""


class Failed(Exception):
    """A step went wrong that may go right the next time."""


def find(cache):
    for candidate in (shutil.which("uv"), str(cache / "bin" / "uv")):
        if candidate and version_of(candidate) >= OLDEST:
            return candidate
    return None


def version_of(uv):
    try:
        asked = subprocess.run([uv, "--version"], capture_output=True, text=True, timeout=20, check=True)
        return tuple(int(number) for number in asked.stdout.split()[1].split(".")[:2])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return (0, 0)


def fetch(cache):
    """Out of its wheel, since nothing that could install a wheel is assumed."""
    from tidegate.errors import TidegateError
    from tidegate.stack.download import Wanted, download

    wheel = newest_wheel()
    wanted = Wanted(wheel["url"], cache / wheel["filename"], wheel["hashes"]["sha256"], wheel["size"])
    print(f"bootstrap environment: fetching {wheel['filename']} ({wheel['size'] / 1e6:.0f} MB)", flush=True)
    try:
        if not wanted.is_there:
            download(wanted)
    except TidegateError as error:
        raise Failed(f"{error}. {error.remedy}") from error
    return unpack(wanted.target, cache)


def newest_wheel():
    import urllib.request  # slow to import, and mostly not needed
    from urllib.parse import urljoin

    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or INDEX
    request = urllib.request.Request(
        f"{index.rstrip('/')}/uv/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            files = json.load(answer)["files"]
    except (OSError, ValueError, KeyError) as error:
        raise Failed(f"cannot ask {index} for uv: {error}. Check the network and run again.") from error
    wheels = [one for one in files if is_for_this_machine(one["filename"]) and "size" in one and not one.get("yanked")]
    if not wheels:
        raise Missing("there is no uv wheel for this machine; install uv: https://docs.astral.sh/uv/#installation")
    newest = max(wheels, key=lambda one: wheel_version(one["filename"]))
    return {**newest, "url": urljoin(request.full_url, newest["url"])}


def is_for_this_machine(filename):
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    fits = filename.endswith(f"{platform.machine()}.whl") and libc in filename
    return fits and wheel_version(filename) >= OLDEST


def wheel_version(filename):
    try:
        return tuple(int(number) for number in filename.split("-")[1].split("."))
    except ValueError:
        return (0,)  # a pre-release


def unpack(wheel, cache):
    target = cache / "bin" / "uv"
    target.parent.mkdir(exist_ok=True)
    part = target.with_name("uv.part")
    with zipfile.ZipFile(wheel) as archive:
        inside = next(name for name in archive.namelist() if name.endswith("/scripts/uv"))
        with archive.open(inside) as source, part.open("wb") as stream:
            shutil.copyfileobj(source, stream)
    part.chmod(0o755)
    part.replace(target)
    wheel.unlink()
    return str(target)
