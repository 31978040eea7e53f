"""`moorage simulate`: show the effect of a change on a copy of the live state."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from moorage.cli import completion
from moorage.cli.api import endpoints, topics
from moorage.cli.commands import options, simulate_request
from moorage.cli.errors import FAILED, CliError, UsageError
from moorage.cli.flags import given
from moorage.cli.render import output, simulation
from moorage.cli.render.durations import parse_duration
from moorage.decide.kubernetes.durations import human
from moorage.insight.copy import run
from moorage.insight.copy.snapshot import Snapshot
from moorage.insight.copy.stack import RestlessError
from moorage.insight.diff import report
from moorage.runtime.process.logs import silenced
from moorage.runtime.settings.process_settings import Settings

_GC_THRESHOLDS = (50_000, 20, 100)
"""The garbage collector runs seldom, because a copy is hundreds of thousands of objects that live to the end."""


class SimulateFormat(StrEnum):
    """The format of the output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        help="Apply a file, a folder, or - for standard input. Repeatable.",
        autocompletion=completion.manifests,
    ),
]
DeleteOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND/NAME", help="Delete an object. Repeatable.", autocompletion=completion.slashed),
]
TaintOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND/NAME=SPEC",
        help="Add a taint, such as node/n1=key=value:Effect, or remove it, such as node/n1=key-. SPEC is that of "
        "`moorage taint`. Repeatable.",
        autocompletion=completion.target,
    ),
]
ConditionOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND/NAME=TYPE=STATUS",
        help="Report a condition, such as node/n1=Ready=False. Repeatable.",
        autocompletion=completion.target,
    ),
]
OutageOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHERE",
        help="Let targets fail: zone=eu/a, region=eu, node=n1, cluster=m1, or a label selector. Repeatable.",
    ),
]
OutageStatusOption = Annotated[
    str,
    typer.Option(help="How targets fail: Unknown (reports stop) or False (they are reported as not ready)."),
]
HorizonOption = Annotated[
    str,
    typer.Option("--for", help="The simulated time, such as 10m. It ends sooner if nothing more will happen."),
]
SimulateFormatOption = Annotated[
    SimulateFormat, typer.Option("-o", "--output", help="table, wide (all rows), json or yaml.")
]


def simulate(
    ctx: typer.Context,
    *,
    flags: Mapping[str, str],
    files: FilesOption = None,
    delete: DeleteOption = None,
    taint: TaintOption = None,
    condition: ConditionOption = None,
    outage: OutageOption = None,
    outage_status: OutageStatusOption = "Unknown",
    overwrite: options.Overwrite = False,
    namespace: options.ItemNamespace = "default",
    recursive: options.Recursive = False,
    horizon: HorizonOption = "1h",
    form: SimulateFormatOption = SimulateFormat.TABLE,
) -> None:
    """Show what a change would do, without making it.

    Reads a copy of the state from Kafka, runs the services on it without and with the change, and shows the
    differences. The copy's services decide by the fleet's MoorageConfiguration; flags change it for both runs. To see
    what a changed configuration would do, give it as a file. Without an address of Kafka, the gateway simulates.

    For example: `moorage simulate --taint node/n1=maintenance=yes:NoExecute`, or
    `moorage simulate --outage zone=eu/a --for 30m`.
    """
    if cluster := endpoints.chosen_cluster(ctx):
        raise UsageError(
            f"--fleet-cluster: invalid value {cluster!r}: only changes of the home fleet are simulated, not those of a "
            "mirrored cluster"
        )
    span = parse_duration(horizon, "--for")
    items, refused = options.manifests_of(files, recursive=recursive) if files else ([], False)
    if refused:
        raise typer.Exit(FAILED)
    request = simulate_request.SimulationRequest.parse(
        items=items,
        delete=delete or [],
        taint=taint or [],
        condition=condition or [],
        outage=outage or [],
        status=outage_status,
        overwrite=overwrite,
        namespace=namespace,
    )
    if (gateway := _instead_of_kafka(ctx)) is None:
        endpoints.load_settings(flags)  # report wrong settings before looking for Kafka
        settings = endpoints.live_settings(flags)
        found, shown = _simulated(settings, flags, request, span)
        whole = {**report.document(found), "settings": shown}
    elif flags:
        raise CliError("settings can be tried only with access to Kafka: set MOORAGE_BOOTSTRAP_SERVERS")
    else:
        timeout = endpoints.load_settings().simulation_timeout
        whole = simulate_request.ask(gateway, request, span, timeout)
    if form in {SimulateFormat.JSON, SimulateFormat.YAML}:
        output.write(output.document(whole, form))
    else:
        output.write(simulation.text(whole, every=form is SimulateFormat.WIDE))


def _instead_of_kafka(ctx: typer.Context) -> endpoints.Server | None:
    """Return the gateway to ask, because no address of Kafka is known. None if one is."""
    try:
        endpoints.kafka()
    except CliError:
        if (found := endpoints.server(ctx)).guessed:
            raise
        return found
    return None


def _simulated(
    settings: Settings, flags: Mapping[str, str], request: simulate_request.SimulationRequest, span: timedelta
) -> tuple[run.Simulated, dict[str, str]]:
    """Read the copy and run it without and with the change. Return the results, and the settings to show.

    The settings of both runs are those of the copy's configuration if it has one, changed by the flags. Then only the
    flags are shown. The progress is shown on standard error.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    with silenced(), Console(stderr=True).status("") as status:
        snapshot = _load(settings, lambda read, wanted: status.update(f"reading {read} of {wanted} positions"))
        own, settings = settings, run.in_force(snapshot, settings)
        if flags and settings is not own:
            said = endpoints.load_settings(flags)
            settings = settings.model_copy(update={field: getattr(said, field) for field in flags})
        shown = given(settings) if settings is own else dict(flags)

        def progress(name: str, share: float) -> None:
            status.update(f"running {human(span.total_seconds())} {name}: {share:.0%}")

        try:
            return run.simulate(snapshot, settings, request.make, span, progress), shown
        except RestlessError as error:
            raise CliError(f"the copy does not come to rest: {error}") from None


def _load(settings: Settings, progress: Any) -> Snapshot:
    """Read the copy."""
    return topics.run(settings, Snapshot.load(settings, services=run.services(settings), progress=progress))
