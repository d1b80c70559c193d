"""`python -I supervise.py COMMAND…`: makes Docker's restart policy respect Tidegate's exit codes.

| the service ended with | this ends with | what Docker does with `restart: unless-stopped` |
| --- | --- | --- |
| 0: told to stop | 0 | it was told, too: nothing |
| 1: start me again, or a signal | 1 | starts again, with back-off |
| 2: configuration, 3: LOST | nothing: it stays, the health check fails | nothing: a person decides |

Docker knows no policy that tells exit codes apart: it would start a service again that has said that it must not be.
Invariant: a held service is never started again by a program; told to stop, this ends with the service's own code.
"""

import signal
import subprocess
import sys
import threading

HELD = (2, 3)


def main(command: list[str]) -> int:
    told = threading.Event()
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: object) -> None:
        for child in children:
            child.send_signal(number)

    def stop(number: int, frame: object) -> None:
        told.set()
        pass_on(number, frame)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, pass_on)
    children.append(subprocess.Popen(command))  # noqa: S603 - the image's own service
    if told.is_set():  # told between the two lines above
        children[0].terminate()
    code = children[0].wait()
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
