"""`python docker/root.py ROOT APP`: a root file system of this Python, APP, what both link against, and no more.

The final stage of an image copies it onto nothing: a base that was made for building holds as much again that no
service ever opens, and a shell. Debian's record of each package that a library comes from is written to where scanners
of images look for it (var/lib/dpkg/status.d): they would take the image for empty.

Invariant: a path is in ROOT what it is here: links stay links, and what they lead to is there too.
"""

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# What no service imports: tests and editors of Python, its installers, Tk.
LEFT_OUT = (
    *("test", "tests", "idlelib", "turtledemo", "ensurepip", "lib2to3", "tkinter", "pydoc_data", "distutils"),
    *("site-packages", "dist-packages", "config-*", "__pycache__"),
)
ALSO = (
    "/etc/ld.so.cache",  # where libraries are
    "/etc/nsswitch.conf",  # who knows names
    *("/etc/ssl", "/usr/lib/ssl", "/usr/share/ca-certificates"),
    "/usr/lib/locale/C.utf8",
)
# Not linked against: the C library opens it when a thread ends.
LOADED_LATER = ("libgcc_s.so.1",)
PEOPLE = "root:x:0:0:root:/root:/usr/sbin/nologin\ntidegate:x:10001:10001::/tmp:/usr/sbin/nologin\n"
GROUPS = "root:x:0:\ntidegate:x:10001:\n"
_LINKED = re.compile(r"(?:=> )?(/\S+) \(0x")


class Root:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, path: Path, without: tuple[str, ...] = ()) -> None:
        """With the links that lead to it; of a folder all but what has such a name."""
        real = path.parent.resolve() / path.name
        target = self.at(real)
        if target.exists() or target.is_symlink():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if real.is_symlink():
            target.symlink_to(real.readlink())
            self.put(real.parent / real.readlink())
        elif real.is_dir():
            shutil.copytree(real, target, symlinks=True, ignore=shutil.ignore_patterns(*without))
        else:
            shutil.copy2(real, target)

    def link_as_here(self) -> None:
        """/lib and its like are links since Debian merged them into /usr."""
        for each in Path("/").iterdir():
            if each.is_symlink() and self.at(each.resolve()).exists():
                self.at(each).symlink_to(each.readlink())

    def write(self, path: str, text: str) -> None:
        target = self.at(Path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def at(self, path: Path) -> Path:
        return self.folder / path.relative_to("/")


def main(folder: Path, app: Path) -> None:
    root = Root(folder)
    library = Path(sysconfig.get_path("stdlib"))
    root.put(library, LEFT_OUT)
    root.put(app)
    for link in filter(Path.is_symlink, (app / "bin").iterdir()):
        root.put(link.parent / link.readlink())
    binaries = (path for path in folder.rglob("*.so*") if path.is_file() and not path.is_symlink())
    opened = linked(Path(sys.executable).resolve(), *binaries)
    libraries = sorted(path for path in opened if not path.is_relative_to(folder))  # wheels bring some along
    for path in (*libraries, *filter(Path.exists, map(Path, ALSO))):
        root.put(path)
    compileall.compile_dir(root.at(library), quiet=1, stripdir=folder, prependdir="/")
    root.write("/etc/passwd", PEOPLE)
    root.write("/etc/group", GROUPS)
    root.at(Path("/tmp")).mkdir(exist_ok=True)
    root.at(Path("/tmp")).chmod(0o1777)
    root.link_as_here()
    for package, record in packages(libraries):
        root.write(f"/var/lib/dpkg/status.d/{package}", record)


def linked(*binaries: Path) -> set[Path]:
    """What the loader would open for them, as it names it."""
    found = {Path(match[1]) for match in _LINKED.finditer(told("ldd", *binaries))}
    beside_c = {path.parent for path in found if path.name.startswith("libc.so")}
    return found | {folder / name for folder in beside_c for name in LOADED_LATER if (folder / name).exists()}


def packages(libraries: list[Path]) -> Iterator[tuple[str, str]]:
    """Those that Debian knows, with its record of each."""
    names = {form for path in libraries for form in (path, path.resolve(), _before_merging(path.resolve()))}
    lines = told("dpkg-query", "--search", *sorted(names), some_are_unknown=True).splitlines()
    for owner in sorted({name.strip() for line in lines for name in line.rpartition(": ")[0].split(",")}):
        yield owner.partition(":")[0], told("dpkg-query", "--status", owner)


def told(*command: str | os.PathLike[str], some_are_unknown: bool = False) -> str:
    unheard = subprocess.DEVNULL if some_are_unknown else None
    return subprocess.run(command, check=not some_are_unknown, stdout=subprocess.PIPE, stderr=unheard, text=True).stdout


def _before_merging(path: Path) -> Path:
    """/usr/lib/x as packages of before that merge have it: /lib/x."""
    return Path("/") / path.relative_to("/usr") if path.is_relative_to("/usr/lib") else path


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
