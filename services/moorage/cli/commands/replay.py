"""`moorage replay`: decide again on recorded input and compare the results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from moorage.cli import completion
from moorage.cli.api import endpoints, topics
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import output
from moorage.cli.render.output import DocumentFormat
from moorage.insight.copy.run import services as every_service
from moorage.insight.replay import comparison
from moorage.insight.replay.comparison import Difference, Replayed, Side, Tally
from moorage.insight.replay.recording import Recording, RecordingError
from moorage.runtime.process.logs import silenced
from moorage.runtime.settings.process_settings import Settings

DIFFERS = 1
"""Exit code: a result differs."""

UNREADABLE = 2
"""Exit code: the recording cannot be read, or nothing in it can be decided on again."""

_TOPICS = "topics"
_COLUMNS = ("sessions", "transactions", "records", "equal", "differing", "missing", "unwritten")
_SHOWN = 2000  # characters of a value


SourceOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="TOPICS|EXPORT",
        help="`topics` to read the live Kafka, or else a file that --record has written, or a folder of such files.",
        autocompletion=completion.files,
    ),
]
RecordOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the recording to a file as JSON lines, compressed if its name ends in .gz, and stop.",
        autocompletion=completion.files,
    ),
]
ServiceOption = Annotated[
    list[str] | None,
    typer.Option(help="Replay only this service. Repeatable.", autocompletion=completion.replayed_services),
]
PartitionOption = Annotated[list[int] | None, typer.Option(min=0, help="Replay only this partition. Repeatable.")]
ReplayFormatOption = Annotated[DocumentFormat, typer.Option("-o", "--output", help="table, json or yaml.")]


def replay(
    source: SourceOption = _TOPICS,
    record: RecordOption = None,
    service: ServiceOption = None,
    partition: PartitionOption = None,
    form: ReplayFormatOption = DocumentFormat.TABLE,
) -> None:
    """Decide again on recorded input, and compare the results byte for byte.

    Every transaction records the input that it was decided on. The services of this version decide on the same input
    again, without Kafka. Transactions whose input has been compacted away or has expired cannot be compared. To keep
    the input, record the topics from time to time.

    The exit code is 0 if nothing differs, 1 if something does, and 2 if the recording cannot be read or nothing in it
    can be compared.

    For example, `moorage replay --record today.jsonl.gz`, and later
    `moorage replay --from today.jsonl.gz --service eviction`.
    """
    known = [one.name for one in every_service(Settings())]
    for name in service or ():
        if name not in known:
            raise UsageError(f"--service: invalid value {name!r}: must be one of {', '.join(known)}")
    topics.quiet()
    with silenced(), Console(stderr=True).status("") as status:
        try:
            recording = _read(source, lambda read, wanted: status.update(f"reading {read} of {wanted} positions"))
            if record is not None:
                recording.save(record)
                found = None
            else:
                found = comparison.replay(
                    recording,
                    services=service or (),
                    partitions=partition or (),
                    progress=lambda name, share: status.update(f"deciding again, {name}: {share:.0%}"),
                )
        except RecordingError as error:
            raise CliError(str(error), code=UNREADABLE) from None
    if found is None:
        output.line(f"{recording.count} records written to {record}")
    else:
        _tell(found, form)


def _tell(found: Replayed, form: DocumentFormat) -> None:
    """Write the result."""
    if form is DocumentFormat.TABLE:
        output.write(_told(found))
    else:
        output.write(output.document(document(found), form))
    if found.differing:
        raise typer.Exit(DIFFERS)
    if not found.equal:
        why = next(
            (reason for one in found.tallies for reason in one.reasons), "no record names the input of its decision"
        )
        raise CliError(f"nothing can be decided on again: {why}", code=UNREADABLE)


def _read(source: str, progress: Any) -> Recording:
    """Read the recording."""
    if source != _TOPICS:
        return Recording.load(Path(source))
    settings = endpoints.kafka_settings()
    try:
        return topics.run(settings, Recording.read(settings, progress))
    except CliError as error:
        raise CliError(error.message, code=UNREADABLE) from None


def document(found: Replayed) -> dict[str, Any]:
    """Return the result as one document."""
    return {
        "records": found.records,
        "equal": found.equal,
        "differing": found.differing,
        "missing": found.missing,
        "partitions": [_row(one) for one in found.tallies],
        "uncompared": found.uncompared,
    }


def _row(one: Tally) -> dict[str, Any]:
    return {
        **{name: getattr(one, name) for name in ("service", "partition", *_COLUMNS)},
        "missingBecause": one.reasons,
        "firstDifference": None if one.difference is None else _difference(one.difference),
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "why": one.why,
        "run": one.run,
        "step": one.step,
        "topic": one.topic,
        "partition": one.topic_partition,
        "offset": one.offset,
        "recorded": None if one.recorded is None else _side(one.recorded),
        "made": None if one.made is None else _side(one.made),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "key": _text(side.key),
        "value": _text(side.value),
        "headers": {name: _text(value) for name, value in side.headers},
    }


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")


def _told(found: Replayed) -> str:
    """Return the result as a table, followed by the first difference of each partition."""
    rows = [("SERVICE", "PARTITION", *(name.upper() for name in _COLUMNS))]
    rows += [
        (one.service, str(one.partition), *(str(getattr(one, name)) for name in _COLUMNS)) for one in found.tallies
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for one in found.tallies:
        lines += [f"{one.service}/{one.partition}: not compared: {reason}" for reason in one.reasons]
    for name, count in found.uncompared.items():
        lines.append(f"{name}: {count} of its records were not compared")
    for one in found.tallies:
        if one.difference is not None:
            lines += _differs(one.difference)
    lines.append(
        f"{found.records} records; transactions: {found.equal} equal, {found.differing} differing, "
        f"{found.missing} not to be compared"
    )
    return "\n".join(lines) + "\n"


def _differs(one: Difference) -> list[str]:
    where_ = f" {one.topic}/{one.topic_partition}" + (f"@{one.offset}" if one.offset >= 0 else "") if one.topic else ""
    lines = [f"{one.service}/{one.partition}, step {one.step} of {one.run}:{where_}: {one.why}"]
    for name, side in (("recorded", one.recorded), ("comes out", one.made)):
        if side is None:
            lines.append(f"  {name}: nothing")
            continue
        value = "a tombstone" if side.value is None else _short(_text(side.value) or "")
        lines += [f"  {name}: {_text(side.key)}", f"    {value}"]
        lines += [f"    {header}: {_text(content)}" for header, content in side.headers]
    return lines


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
