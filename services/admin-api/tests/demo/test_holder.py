"""Who holds a state directory, and asking them to stop."""

import os
import subprocess
import sys
from pathlib import Path

from kit.wait import wait

from tidegate_admin.demo.place import Place

HOLD = """
import signal, sys
from pathlib import Path
from tidegate_admin.demo.place import Place
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
with Place(Path(sys.argv[1])).held():
    signal.sigwait({signal.SIGTERM})
"""


def test_nobody_holds_a_directory_that_was_never_used(tmp_path: Path) -> None:
    assert Place(tmp_path / "new").holder() is None


def test_the_holder_is_known_while_it_holds(tmp_path: Path) -> None:
    place = Place(tmp_path)

    with place.held():
        assert place.holder() == os.getpid()

    assert place.holder() is None


def test_a_holder_that_is_asked_to_stop_is_waited_for(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)]) as process:
        holder = wait(place.holder, 20, "the directory is held")

        place.end(holder)

        assert process.wait(5) == 0
    assert place.holder() is None
