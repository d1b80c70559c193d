"""`python -I supervise.py COMMAND…`: makes Docker's restart policy respect Tidegate's exit codes.

| the service ended with | this ends with | what Docker does with `restart: unless-stopped` |
| --- | --- | --- |
| 0: told to stop | 0 | it was told, too: nothing |
| 1: start me again, or a signal | 1 | starts again, with back-off |
| 2: configuration, 3: LOST | nothing: it stays, and the health check fails | nothing: a person decides, then `docker compose restart` |

Docker knows no policy that tells exit codes apart: it would start a service again that has said that it must not be.
Invariant: a held service is never started again by a program; told to stop, this ends with the service's own code.
"""

import os
import signal
import subprocess
import sys
import threading

HELD = (2, 3)


def main(command: list[str]) -> int:
    told = threading.Event()
    child = subprocess.Popen(command)

    def stop(number: int, _frame: object) -> None:
        told.set()
        if child.poll() is None:
            os.kill(child.pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    code = child.wait()
    if code in HELD and not told.is_set():
        print(
            f"held: {command[0]} ended with {code}, which a restart does not mend. Read its last lines above, mend the "
            "cause, then `docker compose restart` this service.",
            file=sys.stderr,
            flush=True,
        )
        told.wait()
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
