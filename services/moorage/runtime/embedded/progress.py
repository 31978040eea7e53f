"""Shows the progress of the first start: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

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


class JarProgress:
    """The progress of the download of jars. Its methods may be called from several threads."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title = title
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._total = 0
        self._done = 0
        self._bytes = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def shown(self) -> Iterator[JarProgress]:
        """Show the progress for the duration of the block."""
        if not self._console.is_terminal:
            self._console.print(f"{self._title}: downloading it, once", highlight=False)
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
        """Show one step that takes a while, for the duration of the block."""
        text = f"{self._title}: {what}"
        if self._console.is_terminal:
            with self._console.status(text):
                yield
        else:
            self._console.print(text, highlight=False)
            yield

    def begin(self, total: int) -> None:
        """Set the number of jars, when it is known."""
        self._total = total
        self._tell()

    def finished(self) -> None:
        """Count one more jar as complete."""
        with self._lock:
            self._done += 1
            done = self._done
        if self._bar is not None or done % 10 == 0 or done == self._total:
            self._tell()

    @contextlib.contextmanager
    def download(self, _name: str, size: int) -> Iterator[Callable[[int], None]]:
        """Follow one download of `size` bytes. Yield a function that takes the bytes of each piece (jgo's callback)."""
        bar = self._bar
        if bar is None or not self._total:  # the many small POM files before the jars are not counted
            yield lambda _count: None
            return
        with self._lock:
            self._bytes += size
            bar.update(self._task, total=self._bytes)
        yield lambda count: bar.advance(self._task, count)

    def _tell(self) -> None:
        text = f"{self._title}: {self._done} of {self._total} jars"
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            self._console.print(text, highlight=False)
