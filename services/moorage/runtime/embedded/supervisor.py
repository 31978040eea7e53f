"""Runs the broker's JVM as a child that never outlives its owner.

This is a stand-alone program (standard library only, started by its path), so that it starts in about 20 ms and needs
about 10 MB. The owner holds the write end of this program's standard input and never writes to it. That end is closed
when the owner stops the broker, and when the owner ends, even by SIGKILL. Then the JVM gets a SIGTERM, and is killed
after a grace period. This works on every system with pipes. On Linux the JVM also dies with this program
(PR_SET_PDEATHSIG).

Usage: supervisor.py WATCH OWNER_PID GRACE_SECONDS LOCK_FD COMMAND...
    WATCH is 1 to follow the owner, 0 to run detached until SIGTERM. LOCK_FD is an open, locked file that the JVM
    inherits, so that the lock is held for exactly as long as a process may write to the data.

The JVM's process id is the one line on standard output. The exit code is the JVM's (128 + n for signal n).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_CHECK_EVERY = 1.0  # seconds; a forked copy of the owner may hold the pipe open, so the owner's pid is also checked


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function for the child to call before exec, to die with this program's main and only thread."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _stop(child: subprocess.Popen[bytes], grace: float) -> None:
    """End the child: send SIGTERM, wait, kill. A paused child is woken so that it receives the signal."""
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGCONT)
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def main(arguments: list[str]) -> int:
    """Start the command, and wait for whichever ends first: the command, the owner, or a signal."""
    watch, owner, grace, lock = arguments[0] == "1", int(arguments[1]), float(arguments[2]), int(arguments[3])
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stops.append(number))
    signal.signal(signal.SIGINT, lambda number, _frame: stops.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    child = subprocess.Popen(  # noqa: S603 - the owner gives the command, no shell sees it
        arguments[4:],
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        pass_fds=(lock,),
        preexec_fn=_die_with_parent(),  # noqa: PLW1509 - this program has one thread, so forking is safe
    )
    os.write(1, f"{child.pid}\n".encode())
    os.close(1)
    watched = [wake_read, 0] if watch else [wake_read]
    until = time.monotonic()
    while child.poll() is None:
        ready, _, _ = select.select(watched, [], [], max(0.0, until - time.monotonic()))
        until = time.monotonic() + _CHECK_EVERY
        if wake_read in ready:
            os.read(wake_read, 4096)
        gone = watch and ((0 in ready and not os.read(0, 4096)) or os.getppid() != owner)
        if stops or gone:
            _stop(child, grace)
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
