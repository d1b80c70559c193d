"""Finds uv, or takes it out of its wheel on the package index: nothing that could install a wheel is assumed.

Standard library only. The checksum is the index's own; the program gets its name when it is whole.
"""

import os
import platform
import shutil
import subprocess
import zipfile
from html.parser import HTMLParser
from urllib.parse import urljoin

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

    filename, url, sha256 = newest_wheel()
    wanted = Wanted(url, cache / filename, sha256, size_of(url))
    print(f"bootstrap environment: fetching {filename} ({wanted.size / 1e6:.0f} MB)", flush=True)
    try:
        if not wanted.is_there:
            download(wanted)
    except TidegateError as error:
        raise Failed(f"{error}. {error.remedy}") from error
    return unpack(wanted.target, cache)


def newest_wheel():
    """Its file name, URL and SHA-256, as the index has them; in HTML, which every index serves (PEP 503)."""
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or INDEX
    page = f"{index.rstrip('/')}/uv/"
    links = Links()
    with opened(page, headers={"Accept": "text/html"}) as answer:
        links.feed(answer.read().decode())
    wheels = [link for link in links.found if is_for_this_machine(link[0])]
    if not wheels:
        raise Missing("there is no uv wheel for this machine; install uv: https://docs.astral.sh/uv/#installation")
    filename, href = max(wheels, key=lambda link: wheel_version(link[0]))
    url, _, fragment = urljoin(page, href).partition("#sha256=")
    if not fragment:
        raise Missing(f"{page} names no checksum for {filename}; install uv: pip install uv")
    return filename, url, fragment


class Links(HTMLParser):
    """File name and address of each file of a project that was not withdrawn."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        href = attributes.get("href")
        if tag == "a" and href and "data-yanked" not in attributes:
            self.found.append((href.partition("#")[0].rpartition("/")[2], href))


def size_of(url):
    with opened(url, method="HEAD") as answer:
        return int(answer.headers["Content-Length"])


def opened(url, **options):
    import urllib.request  # slow to import, and mostly not needed

    try:
        return urllib.request.urlopen(urllib.request.Request(url, **options), timeout=30)
    except OSError as error:
        raise Failed(f"cannot ask {url}: {error}. Check the network and run again.") from error


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
