"""Becomes another program whose life is bound to its parent's.

Run as a script: `python -I -S launch.py <signal> <parent pid> <uid> <gid> <program> <argument>…` (uid and gid -1 keep
the account). A script and not a `preexec_fn`: Python code between fork and exec may deadlock in a process that has
threads. The order counts: a change of account clears the death signal, exec keeps it.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
EXIT_ORPHAN = 125


def main(arguments: list[str]) -> None:
    death_signal, parent, uid, gid = (int(argument) for argument in arguments[:4])
    program = arguments[4:]
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:  # it died before the signal was armed
        os._exit(EXIT_ORPHAN)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
