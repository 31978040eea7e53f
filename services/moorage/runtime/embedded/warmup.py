"""An ahead-of-time cache for the broker's JVM. It holds loaded and linked classes, so that a start takes half the time.

A JVM of version 25 or newer writes it at the end of a run (JEP 514). An older one refuses the option, and then there is
no cache. The cache is valid for one JVM and one class path. The JVM checks this and ignores a cache that does not
match, so a stale one does no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from moorage.runtime.embedded import config

SUPERVISOR = Path(__file__).with_name("supervisor.py")
_START_WITHIN = 60.0  # seconds
_KEPT = 4  # caches
_WRITE_WITHIN = 90.0  # seconds; takes 5 to 10


def cache_file(home: Path, program: Path, class_path: str) -> Path:
    """Return the path of the cache for this JVM and class path. An empty file means that it cannot be created."""
    try:
        version = (program.resolve().parent.parent / "release").read_bytes()
    except OSError:
        version = b""
    key = hashlib.sha256(b"\0".join([version, str(program).encode(), class_path.encode()]))
    return home / f"start-{key.hexdigest()[:12]}.aot"


def used(cache: Path) -> None:
    """Note that a cache is used now, and delete those of other environments that have not been used for longest.

    Each Java program has its own cache of 64 MB, and so has each virtual environment.
    """
    with contextlib.suppress(OSError):  # another user's cache, or one that another process has just deleted
        os.utime(cache)
        caches = sorted(cache.parent.glob("start-*.aot"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in caches[_KEPT:]:
            old.unlink()  # a JVM that still uses it has it open


def train(cache: Path, command: list[str], *, checkpoint: bytes, lock: int, stop: threading.Event) -> None:
    """Run a temporary broker once so that its JVM writes the cache. After a failure the file is empty.

    Args:
        cache: The file to write.
        command: The Java program and its class path option.
        checkpoint: The feature levels to format the storage with.
        lock: An open, locked file that the JVM keeps open.
        stop: When another thread sets it, this gives up.
    """
    made = False
    part = cache.with_suffix(".part")
    with tempfile.TemporaryDirectory(prefix="moorage-kafka-") as name:
        folder = Path(name)
        port, controller_port = _two_ports()
        properties = config.broker_properties(port=port, controller_port=controller_port, extra={})
        (folder / config.PROPERTIES_FILE).write_text(properties)
        (folder / config.LOGGING_FILE).write_text(config.LOGGING)
        config.format_storage(folder / config.LOGS, checkpoint)
        program, *class_path = command
        with subprocess.Popen(  # noqa: S603 - every word of the command is ours
            [
                *(sys.executable, "-I", "-S", str(SUPERVISOR), "1", str(os.getpid()), str(_WRITE_WITHIN), str(lock)),
                *(program, *config.jvm_flags(heap_mb=256), f"-XX:AOTCacheOutput={part}", *class_path),
                *("kafka.Kafka", config.PROPERTIES_FILE),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            cwd=folder,
            env=config.jvm_environment(),
            start_new_session=True,
        ) as process:
            deadline = time.monotonic() + _START_WITHIN
            while process.poll() is None and time.monotonic() < deadline and not stop.is_set():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    made = True
                    break
                time.sleep(0.1)
            if process.stdin is not None:
                process.stdin.close()  # this makes the broker stop, and its JVM write the file
            while process.poll() is None and not stop.is_set():
                time.sleep(0.1)
            if stop.is_set():
                process.kill()  # on Linux the JVM dies with it, elsewhere when it has finished
    if stop.is_set():
        part.unlink(missing_ok=True)
    elif made and part.exists():
        part.replace(cache)
    else:
        part.unlink(missing_ok=True)
        cache.touch()


def _two_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
