"""`moorage simulate`: what a change would do, on a copy of the live state."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from aiokafka.errors import KafkaError
from rich.console import Console

from moorage.cli import completion
from moorage.cli.api import endpoints, manifests, topics
from moorage.cli.commands import simulate_request
from moorage.cli.errors import FAILED, CliError, warn
from moorage.cli.flags import given
from moorage.cli.render import output, simulation
from moorage.cli.render.durations import parse_duration
from moorage.core.apimachinery.durations import human
from moorage.runtime.logs import silenced
from moorage.runtime.settings import Settings
from moorage.simulation.copy import run
from moorage.simulation.copy.snapshot import Snapshot, SnapshotError
from moorage.simulation.copy.stack import RestlessError
from moorage.simulation.diff import report

_GC_THRESHOLDS = (50_000, 20, 100)
"""A copy is hundreds of thousands of objects that live to the end, so the collector looks through them seldom."""


class SimulateFormat(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def simulate(
    *,
    flags: Mapping[str, str],
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", help="Apply a file, a folder, or -; repeatable.", autocompletion=completion.manifests
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND/NAME", help="Delete an object; repeatable.", autocompletion=completion.slashed),
    ] = None,
    taint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND/NAME=SPEC",
            help="Taint a target, node/n1=key=value:Effect, or untaint it, node/n1=key-; SPEC as `moorage taint` has "
            "it; repeatable.",
            autocompletion=completion.target,
        ),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND/NAME=TYPE=STATUS",
            help="Report a condition, node/n1=Ready=False; repeatable.",
            autocompletion=completion.target,
        ),
    ] = None,
    outage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHERE",
            help="Let targets fail: zone=eu/a, region=eu, node=n1, cluster=m1, or a label selector; repeatable.",
        ),
    ] = None,
    outage_status: Annotated[
        str, typer.Option(help="Unknown: nobody hears of them any more; False: they are heard to be not ready.")
    ] = "Unknown",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Taints replace those of the same key and effect.")
    ] = False,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="For objects that name none.", autocompletion=completion.namespaces)
    ] = "default",
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="Folders with all that is below.")] = False,
    horizon: Annotated[
        str,
        typer.Option("--for", help="How much time passes in the copy, such as 10m; it ends sooner when all is quiet."),
    ] = "1h",
    form: Annotated[
        SimulateFormat, typer.Option("-o", "--output", help="table, wide (every row), json or yaml.")
    ] = SimulateFormat.TABLE,
) -> None:
    """Tell what a change would do, on a copy; changes nothing.

    The copy is read from Kafka, the services run on it without and with the change, and what differs is told. They
    need the settings of the live ones: those of a `moorage up` on this machine are known, else give them as flags.

    moorage simulate --taint node/n1=maintenance=yes:NoExecute; moorage simulate --outage zone=eu/a --for 30m
    """
    span = parse_duration(horizon, "--for")
    request = simulate_request.Request.parse(
        items=_manifests(files or [], recursive=recursive),
        delete=delete or [],
        taint=taint or [],
        condition=condition or [],
        outage=outage or [],
        status=outage_status,
        overwrite=overwrite,
        namespace=namespace,
    )
    settings = _settings(flags)
    whole = {**report.document(_simulated(settings, request, span)), "settings": given(settings)}
    if form in {SimulateFormat.JSON, SimulateFormat.YAML}:
        output.write(output.document(whole, output.Format(form.value)))
    else:
        output.write(simulation.text(whole, every=form is SimulateFormat.WIDE))


def _manifests(files: Sequence[str], *, recursive: bool) -> list[manifests.Manifest]:
    """The objects of the files.

    Raises:
        Exit: one of them cannot be used, which is told.
    """
    items, refused = manifests.read(files, recursive=recursive) if files else ([], [])
    for document in refused:
        warn(str(document))
    if refused:
        raise typer.Exit(FAILED)
    return items


def _settings(flags: Mapping[str, str]) -> Settings:
    """The settings of the live services, as far as they are known, and what the flags say otherwise."""
    endpoints.load_settings(flags)  # what is wrong with them is said before Kafka is looked for
    bootstrap, prefix = endpoints.kafka()
    live = endpoints.of_the_live(bootstrap)
    return endpoints.load_settings({**live, **flags}, bootstrap_servers=bootstrap, topic_prefix=prefix)


def _simulated(settings: Settings, request: simulate_request.Request, span: timedelta) -> run.Simulated:
    """Read the copy and run it without and with the change, with the progress on standard error.

    Raises:
        CliError: it cannot be read, or does not come to rest.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    with silenced(), Console(stderr=True).status("") as status:
        snapshot = _load(settings, lambda read, wanted: status.update(f"reading {read} of {wanted} positions"))

        def progress(name: str, share: float) -> None:
            status.update(f"running {human(span.total_seconds())} {name}: {share:.0%}")

        try:
            return run.simulate(snapshot, settings, request.make, span, progress)
        except RestlessError as error:
            raise CliError(f"the copy does not come to rest: {error}") from None


def _load(settings: Settings, progress: Any) -> Snapshot:
    """The copy.

    Raises:
        CliError: it cannot be read.
    """
    topics.quiet()
    try:
        return asyncio.run(Snapshot.load(settings, services=run.services(settings), progress=progress))
    except SnapshotError as error:
        raise CliError(
            f"Kafka at {settings.bootstrap_servers}: {error}.\n"
            "Make the topics with `moorage topics make`, or start everything with `moorage up`."
        ) from None
    except (KafkaError, OSError) as error:
        raise topics.unreachable(settings.bootstrap_servers, error) from None
