"""`moorage export` and `moorage restore`: the fleet as YAML, and back into empty topics."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from moorage.cli import completion
from moorage.cli.api import endpoints, topics
from moorage.cli.backup import file_check, fleet_writer
from moorage.cli.backup.declared_objects import DeclaredObjects
from moorage.cli.backup.file_check import CheckedFile, InvalidFileError
from moorage.cli.backup.fleet_file import STANDARD, Begin, End, FileError, FileReader, FileWriter, PipeClosed
from moorage.cli.backup.fleet_reader import Cut, ExportReader
from moorage.cli.backup.fleet_writer import FleetWriter, RestoreError
from moorage.cli.backup.restore_plan import RestorePlan
from moorage.cli.backup.saved_record import SavedRecord, document_of, parsed, record_of
from moorage.cli.backup.saved_topics import flaw_of, is_secret
from moorage.cli.errors import CliError, warn
from moorage.runtime.identities import kafka_identities
from moorage.runtime.process.logs import silenced
from moorage.runtime.process.versions import own_version
from moorage.runtime.settings import environment
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.times import format_time
from moorage_schemas.topics import RESOURCES

T = TypeVar("T")

INVALID: Final = 2
"""Exit code: the file is wrong, and nothing was written."""

_SECONDS: Final = 4.0
"""Seconds between two lines about the progress, where there is no terminal."""

_EVERY: Final = 2000  # documents between two looks at the clock


def export(
    target: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE|FOLDER/",
            help="A file, compressed if its name ends in .gz, or a folder, with a file for each kind or topic.",
            autocompletion=completion.files,
        ),
    ] = str(STANDARD),
    *,
    state: Annotated[
        bool, typer.Option("--state", help="Everything that decisions rest on, for `moorage restore`.")
    ] = False,
    secrets: Annotated[bool, typer.Option("--secrets", help="With the Secrets, which are left out otherwise.")] = False,
) -> None:
    """Write the fleet as YAML, with --state everything that decisions rest on.

    Without --state, the file has the objects that people have declared, in an order in which `moorage apply -f` can
    create them. With it, the file has every record of the topics: conditions, taints with their times, bindings, open
    evictions, deadlines, grants, and the positions of the services. `moorage restore` brings it into an empty fleet.

    The topics are read as they are at one moment. Nothing is changed, and the services need not stop.
    """
    settings = endpoints.kafka_settings()
    began = time.monotonic()
    with _reported("export") as say:
        size = _run(settings, _export(settings, target, say, state=state, secrets=secrets))
    where = "standard output" if target == str(STANDARD) else target
    warn(f"{size / 1e6:.1f} MB written to {where} in {time.monotonic() - began:.1f} s")


async def _export(settings: Settings, target: str, say: Callable[[str], None], *, state: bool, secrets: bool) -> int:
    async with ExportReader(settings, say) as reader:
        cut = await reader.cut()
        with FileWriter(target) as file:
            if state:
                await _write_state(reader, cut, file, settings, secrets=secrets)
            else:
                await _write_declared(reader, cut, file, settings, secrets=secrets)
        return file.bytes


async def _write_declared(
    reader: ExportReader, cut: Cut, file: FileWriter, settings: Settings, *, secrets: bool
) -> None:
    found = DeclaredObjects(secrets=secrets)
    async for _, records in reader.records(cut, (RESOURCES,)):
        found.take(records)
    head = f"# The declared objects of the fleet {settings.topic_prefix} at {format_time(cut.taken)}.\n".encode()
    count = 0
    for kind in found.kinds:
        for number, manifest in enumerate(found.manifests(kind)):
            if not number:
                file.part(kind)
            file.write(head + manifest)
            head = b""
            count += 1
    _warn_left_out(found.left_out)
    warn(f"{count} objects")


async def _write_state(reader: ExportReader, cut: Cut, file: FileWriter, settings: Settings, *, secrets: bool) -> None:
    file.part("export")
    begin = Begin(
        format_time(cut.taken), own_version(), settings.topic_prefix, cut.partitions, quiet=cut.quiet, secrets=secrets
    )
    file.write(begin.document())
    counts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()

    def write(records: list[SavedRecord]) -> None:
        for record in records:
            if not secrets and is_secret(record):
                left_out["Secrets"] += 1
            elif flaw_of(record, cut.partitions):
                left_out["records that no service can read"] += 1
            else:
                counts[record.topic.short] += 1
                file.write(document_of(record))

    last = None
    async for topic, records in reader.records(cut):
        if topic is not last:
            file.part(topic.short)
            last = topic
        write(records)
    file.part("end")
    async for records in reader.rest(cut):
        write(records)
    file.write(End(counts, cut.positions, left_out).document())
    if not cut.quiet:
        warn("Warning: the fleet was never quiet: the copy is as after a crash of all services at that moment")
    _warn_left_out(left_out)
    warn(f"{sum(counts.values())} records")


def _warn_left_out(left_out: Counter[str]) -> None:
    for what, count in sorted(left_out.items()):
        if count:
            warn(f"left out: {count} {what}{' (--secrets includes them)' if what == 'Secrets' else ''}")


def restore(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="A file or folder of `moorage export --state`. `-` is standard input.",
            autocompletion=completion.files,
            show_default=False,
        ),
    ],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete all topics of the present fleet first, its audit among them.")
    ] = False,
    paused: Annotated[
        bool, typer.Option("--paused", help="Also pause all evictions, until `moorage resume evictions`.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and the fleet, and write nothing.")
    ] = False,
) -> None:
    """Bring an exported fleet into empty topics.

    The services and the gateway must not run. Everything is checked before anything is written, and written in one
    transaction: a restore that is killed has changed nothing, and can be run again. The topics may have another prefix,
    be in another Kafka, and have another number of partitions. Topics that do not exist are created with as many
    partitions as the exported ones had, or MOORAGE_PARTITIONS if it is set.

    Deadlines are absolute. What came due while the fleet was away is due when the services start, and is held by
    budgets, pauses and rates as after any restart.
    """
    settings = endpoints.kafka_settings(kafka_role=kafka_identities.ADMIN)
    began = time.monotonic()
    with _whole(source) as path, _reported("restore") as say:
        reader = FileReader(path, "standard input" if source == STANDARD else "")
        try:
            whole = reader.size
            checked = file_check.check(reader, _every(lambda _: say(f"checking: {reader.read / max(whole, 1):.0%}")))
        except InvalidFileError as error:
            raise CliError(str(error), prefix="", code=INVALID) from None
        except FileError as error:
            raise CliError(str(error), code=INVALID) from None
        count = _run(
            settings, _restore(settings, reader, checked, say, replace=replace, paused=paused, dry_run=dry_run)
        )
    what = f"{sum(checked.end.records.values())} records of {checked.begin.prefix}, taken at {checked.begin.taken}"
    if dry_run:
        typer.echo(f"{what}: valid (dry run)")
        return
    typer.echo(f"{what}: {count} restored to {settings.topic_prefix} in {time.monotonic() - began:.1f} s")
    for left, number in sorted(checked.end.left_out.items()):
        warn(f"not in the file: {number} {left}")
    if paused:
        typer.echo(f"evictions of the whole fleet paused (evictionpause/{fleet_writer.PAUSE})")
    typer.echo("Start the services and the gateway now.")


async def _restore(
    settings: Settings,
    reader: FileReader,
    checked: CheckedFile,
    say: Callable[[str], None],
    *,
    replace: bool,
    paused: bool,
    dry_run: bool,
) -> int:
    say("checking that the fleet is empty")
    if replace:
        await fleet_writer.check_stopped(settings)
    else:
        await fleet_writer.check_unused(settings)
    if dry_run:
        return 0
    if replace:
        say("deleting the topics")
        await fleet_writer.delete_fleet(settings)
    total = sum(checked.end.records.values())
    if environment.text("partitions") is None:
        settings = settings.model_copy(update={"partitions": checked.begin.partitions})
    say("creating the topics")
    async with FleetWriter(settings) as writer:
        plan = RestorePlan(checked.end.positions, before=checked.begin.partitions, now=writer.partitions)
        progress = _every(lambda count: say(f"writing: {count} of {total} records"))
        now = datetime.now(UTC) if paused else None
        count = await writer.write(_records(reader, checked.begin.partitions), plan, progress, paused=now)
        say("committing")
        await writer.commit(plan.positions())
    return count


def _records(reader: FileReader, partitions: int) -> Iterator[SavedRecord]:
    for _, lines in reader:
        found, data = parsed(lines)
        if "kind" not in found:
            yield record_of(found, data, partitions)


@contextmanager
def _whole(source: Path) -> Iterator[Path]:
    """Yield a path that can be read twice."""
    if source != STANDARD:
        yield source
        return
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield Path(file.name)


def _run(settings: Settings, work: Coroutine[Any, Any, T]) -> T:
    with silenced():
        try:
            return topics.run(settings, work)
        except (RestoreError, FileError) as error:
            raise CliError(str(error)) from None
        except PipeClosed:
            raise BrokenPipeError from None


def _every(report: Callable[[int], None]) -> Callable[[int], None]:
    """Return a function that reports some of the numbers that it is called with."""

    def progress(count: int) -> None:
        if count % _EVERY == 0:
            report(count)

    return progress


@contextmanager
def _reported(name: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present step: in place on a terminal, otherwise a line every few seconds."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status(name) as status:
            yield lambda step: status.update(f"{name}: {step}")
        return
    last = time.monotonic()

    def line(step: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS:
            last = time.monotonic()
            warn(f"{name}: {step}")

    yield line
