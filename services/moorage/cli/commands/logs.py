"""`moorage logs`: the logs of the local `moorage up`, merged by time."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from moorage.cli.errors import CliError, UsageError
from moorage.cli.local.log_files import LogFile, LogLine, merged
from moorage.cli.render import colors, output
from moorage.cli.render.durations import parse_instant
from moorage.cli.render.output import LogFormat
from moorage.runtime.settings.environment import state_folder

_PAUSE = 0.2  # seconds between two checks for new lines
_ID = 8  # characters of an id that text shows
_LISTS = {"target": ("targets", "leaving", "previous"), "workload": ("replaces",)}
"""Other fields that name targets and workloads."""


def logs(
    services: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SERVICE]…", help="Only lines of these services, as with --service.", show_default=False
        ),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Also show new lines, until Ctrl-C.")] = False,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", help="Only lines of this service or process, such as eviction or gateway."),
    ] = None,
    since: Annotated[str, typer.Option(help="Start at an RFC 3339 time, or a duration ago such as 5m.")] = "",
    tail: Annotated[int, typer.Option(min=-1, help="Start with this number of last lines. -1 for all.")] = -1,
    target: Annotated[str, typer.Option(help="Only lines about this target, such as Node/n1.")] = "",
    workload: Annotated[str, typer.Option(help="Only lines about this workload, such as Pod/shop/web-0.")] = "",
    correlation: Annotated[str, typer.Option(help="Only lines with this correlation id, or the beginning of it.")] = "",
    grep: Annotated[str, typer.Option(help="Only lines in which this regular expression is found.")] = "",
    form: Annotated[
        LogFormat, typer.Option("-o", "--output", help="text with short ids, or json (the lines as they were written).")
    ] = LogFormat.TEXT,
) -> None:
    """Show the logs of the local `moorage up`, merged by time.

    Each decision has a line. Several filters must all match.
    """
    folder = state_folder() / "logs"
    files = _Files(folder)
    if not files.found:
        raise CliError(f"{folder}: no logs: expected a `moorage up` that runs, or has run, with this state folder")
    start = parse_instant(since, datetime.now(UTC)) if since else None
    wanted = _Filter(
        start, frozenset((*(services or ()), *(service or ()))), target, workload, correlation, _pattern(grep)
    )
    write = _writer(form)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop it
        lines: Iterable[LogLine] = filter(wanted, files.lines())
        for line in lines if tail < 0 else deque(lines, maxlen=tail):
            write(line)
        while follow:
            time.sleep(_PAUSE)
            for line in filter(wanted, files.new()):
                write(line)


def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(f"--grep: invalid value {text!r}: {error}: expected a regular expression") from None


class _Files:
    """The log files of a folder. Files may be added while they are followed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found: dict[str, LogFile] = {}
        self._look()

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines so far."""
        return merged(file.read() for file in self.found.values())

    def new(self) -> Iterator[LogLine]:
        """Yield the lines since the last call."""
        self._look()
        return merged(file.new() for file in self.found.values())

    def _look(self) -> None:
        for path in sorted(self._folder.glob("*.log")):
            self.found.setdefault(path.name, LogFile(path))


@dataclass(frozen=True, slots=True)
class _Filter:
    """The lines to show."""

    since: datetime | None
    services: frozenset[str]
    target: str
    workload: str
    correlation: str
    pattern: re.Pattern[str] | None

    def __call__(self, line: LogLine) -> bool:
        found = line.fields
        if self.since is not None and line.time < self.since:
            return False
        if self.services and not self.services & {line.process, *_texts(found.get("service", ""))}:
            return False
        if self.target and not _is_about(found, "target", self.target):
            return False
        if self.workload and not _is_about(found, "workload", self.workload):
            return False
        if self.correlation and not str(found.get("correlation", "")).startswith(self.correlation):
            return False
        return self.pattern is None or self.pattern.search(line.text) is not None


def _texts(service: Any) -> list[str]:
    """Return the services of a line. One about a chain has several, as text."""
    return [part.strip() for part in str(service).split(",")]


def _is_about(found: dict[str, Any], name: str, key: str) -> bool:
    return any(
        text == key or text.startswith(f"{key}:")
        for field in (name, *_LISTS[name])
        for text in _listed(found.get(field))
    )


def _listed(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _writer(form: LogFormat) -> Callable[[LogLine], None]:
    """Return a function that writes a line at once."""
    if form is LogFormat.JSON:
        return lambda line: output.line(line.text if line.fields else orjson.dumps(_as_fields(line)).decode())
    from moorage.runtime.process.logs import console_renderer  # noqa: PLC0415 - only loaded if text is written

    render = console_renderer(colors=colors.wanted())

    def write(line: LogLine) -> None:
        if line.fields:
            shown = {
                name: output.escaped(value) if isinstance(value, str) else value
                for name, value in _short(line.fields).items()
            }
            output.line(str(render(None, "", {**shown, "event": shown.get("event", "")})))
        else:
            output.line(output.escaped(f"{line.process}: {line.text}"))

    return write


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a line as text.

    Ids would take more than half of it. What is left of them is what `--correlation` takes, and a trace of another id.
    """
    found = {name: value for name, value in fields.items() if name != "event_id"}
    correlation = str(found.get("correlation", ""))
    if correlation:
        found["correlation"] = correlation[:_ID]
        if found.get("trace_id") == correlation:
            del found["trace_id"]
    return found


def _as_fields(line: LogLine) -> dict[str, Any]:
    return {"time": line.time.isoformat(), "event": line.text, "process": line.process}
