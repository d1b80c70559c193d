"""What the bootstrap starts, and how it says that it is still at work. Standard library only, as the bootstrap is."""

import contextlib
import subprocess
import sys
import threading
import time

from uv_wheel import Failed

HEARTBEAT_SECONDS = 10.0


def run_aloud(part, command, environment, folder):
    """Its own progress goes to the terminal; where there is none, a heartbeat does."""
    with heartbeat(part, quiet=sys.stderr.isatty()):
        code = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    if code != 0:
        raise Failed(f"{' '.join(command)} ended with {code}; what it said stands above. Mend it and run again.")


def run_quietly(part, command, environment, log):
    with log.open("ab") as stream, heartbeat(part):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False
        )
    return done.returncode == 0


@contextlib.contextmanager
def heartbeat(part, quiet=False):
    over = threading.Event()
    begun = time.monotonic()

    def beat():
        while not over.wait(HEARTBEAT_SECONDS):
            say(part, f"still at work, {time.monotonic() - begun:.0f} s")

    if not quiet:
        threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def say(part, text):
    print(f"bootstrap {part}: {text}", flush=True)
