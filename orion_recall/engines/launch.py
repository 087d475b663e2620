"""Launcher script of an engine: drops privileges, ties its life to the parent's, then execs the engine.

    python -I -S launch.py PARENT_PID LOCK_FD DEATH_SIGNAL UID:GID PROGRAM ARG…      ("-" for no lock or no uid)

A script of its own rather than a `preexec_fn`: code between fork and exec may deadlock in a process that has
threads, and a worker has many. The pid stays the same through exec. It imports nothing of orion_recall: it
starts in 25 ms, and as another user it could not read a package in a closed home.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_CANNOT_RUN = 126


def _become(user: str) -> None:
    """Drops root for good: groups first, while that is still allowed."""
    uid, gid = map(int, user.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _die_with_parent(parent_pid: int, death_signal: int) -> None:
    """Asks the kernel for a signal when the parent is gone, even by kill -9.

    Only after the change of user, which would clear the request; exec keeps it. The parent is the thread
    that started us: the event loop's. Without prctl (not Linux) an orphan is found at the next start.
    """
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:  # it died before the request
        sys.exit(_CANNOT_RUN)


def main(arguments: list[str]) -> None:
    """Never returns: the process becomes the program, or exits with 126 and a line on stderr."""
    parent_pid, lock_fd, death_signal, uid, *program = arguments
    try:
        os.umask(0o077)
        if uid != "-":
            _become(uid)
        _die_with_parent(int(parent_pid), int(death_signal))
        if lock_fd != "-":  # from here on the lock is this process's too, and its file says so
            os.ftruncate(int(lock_fd), 0)
            os.pwrite(int(lock_fd), f"{os.getpid()}\n".encode(), 0)
        os.execv(program[0], program)  # noqa: S606  an argument list, no shell
    except OSError as error:
        print(f"cannot run {program[0]} (uid {uid}): {error}", file=sys.stderr)
        sys.exit(_CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
