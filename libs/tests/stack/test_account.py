"""Where an unprivileged account can get to, and what is copied for it when it cannot."""

import os
from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.stack import account
from tidegate.stack.account import can_pass, readable_copy, unprivileged
from tidegate.stack.jvm import find_java
from tidegate.stack.postgres_home import find_home
from tidegate.stack.process import Account

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
STRANGER = Account("stranger", 54321, 54321)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def open_place(servers_dir: Path, prefix: str, monkeypatch) -> Path:
    place = servers_dir / f"open-{prefix}"
    monkeypatch.setattr(account, "OPEN_FOLDERS", (place,))
    return place


def test_a_closed_folder_anywhere_above_is_in_the_way(closed):
    """The own account passes everywhere, another one only where each folder lets it."""
    assert can_pass(closed, None)
    assert not can_pass(closed / "below", STRANGER)
    assert can_pass(Path("/usr/lib"), STRANGER)


@as_root
def test_an_install_out_of_reach_is_copied_once_with_its_libraries(closed, open_place):
    """The libraries stand at the same relative place, since that is how the programs find them."""
    install, libraries = closed / "site" / "package" / "install", closed / "site" / "package.libs"
    for path in (install / "bin" / "postgres", libraries / "libpq.so"):
        path.parent.mkdir(parents=True)
        path.write_text("x")
    copy = readable_copy(install, (libraries,), STRANGER)
    assert can_pass(copy / "bin", STRANGER)
    assert (copy / "../../package.libs/libpq.so").resolve().read_text() == "x"
    made = copy.stat().st_ctime_ns
    assert readable_copy(install, (libraries,), STRANGER).stat().st_ctime_ns == made
    assert readable_copy(install, (libraries,), None) == install


@as_root
def test_a_home_out_of_reach_lies_elsewhere_and_goes_with_its_state_directory(closed, open_place):
    """The same state directory has the same home; a home whose directory is gone is removed by the next start."""
    first = find_home(closed, STRANGER)
    assert can_pass(first.home.parent, STRANGER)
    assert first.home.stat().st_uid == STRANGER.uid
    assert find_home(closed, STRANGER) == first
    (closed / "home.id").unlink()
    assert find_home(closed, STRANGER).home != first.home
    assert not first.home.exists()


@as_root
def test_a_copied_state_directory_has_a_home_of_its_own(closed, open_place):
    """Two servers never write in one cluster."""
    original = find_home(closed, STRANGER)
    copy = closed / "copy"
    copy.mkdir()
    (copy / "home.id").write_text((closed / "home.id").read_text())
    assert find_home(copy, STRANGER).home != original.home
    assert find_home(closed, STRANGER) == original


@as_root
def test_an_unknown_account_is_named(monkeypatch):
    """With what to do about it."""
    monkeypatch.setenv("TIDEGATE_POSTGRES_ACCOUNT", "nobody-of-that-name")
    with pytest.raises(ConfigError, match="STACK_NO_ACCOUNT"):
        unprivileged()


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return java


def test_java_home_comes_first_if_it_is_new_enough(tmp_path, monkeypatch):
    """An old one is passed over, not used."""
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert find_java() == new
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent))
    monkeypatch.setattr("shutil.which", lambda _name: str(new))
    assert find_java() != old


def test_no_java_names_the_command(tmp_path, monkeypatch):
    """That installs it."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tidegate.stack.jvm.INSTALLATIONS", tmp_path)
    with pytest.raises(ConfigError) as refused:
        find_java()
    assert "apt-get install openjdk-17-jre-headless" in refused.value.remedy
