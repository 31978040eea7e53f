"""`moorage run`: run services in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Mapping
from functools import partial
from typing import Annotated

import structlog
import typer
from aiokafka.errors import KafkaError
from starlette.routing import Route

from moorage.cli import completion
from moorage.cli.api import endpoints
from moorage.cli.errors import FAILED, CliError
from moorage.cli.local import services
from moorage.runtime.app import run_async, run_services
from moorage.runtime.chains import grouped
from moorage.runtime.kafka.tables.shared_reader import SharedReader
from moorage.runtime.process.failures import EXIT_FAILED, RuntimeFailure, first_of
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.process.member import MemberMaker
from moorage.runtime.process.trace_setup import configure_traces, stop_traces
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.unknown_variables import unknown_variables

_GRACE = 20.0  # seconds for an orderly stop after the parent has ended


def run(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVICE…",
            help="condition-ingest, taint-manager, governor, placement, eviction, timer (`all` for these six); "
            "webhooks; query; gateway. condition-ingest, taint-manager, eviction and timer together run as a chain.",
            show_default=False,
            autocompletion=completion.services,
        ),
    ],
    *,
    flags: Mapping[str, str],
    with_parent: Annotated[
        bool, typer.Option("--with-parent", help="End when standard input is closed.", hidden=True)
    ] = False,
) -> None:
    """Run one or more services in this process.

    Several processes may run the same service; they share its work. condition-ingest, taint-manager, eviction and timer
    run as a chain in a process that has all four: one transaction for what they decide together. A chain takes
    precedence. While one runs, processes with only some of the four wait as its spares.

    Services decide by the fleet's MoorageConfiguration, whose first content is the gateway's settings. The address of
    Kafka is taken from MOORAGE_BOOTSTRAP_SERVERS, or else from a running `moorage up`.
    """
    chosen = services.check(names)
    endpoints.load_settings(flags)  # report wrong settings before looking for Kafka
    # A process is one user of Kafka: that of its chain, or of its first service.
    settings = endpoints.kafka_settings(flags, kafka_role=next(iter(grouped(chosen))))
    if with_parent:
        threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    code = _run(chosen, settings)
    if code:
        raise typer.Exit(code)


def _end_with_parent() -> None:
    """Stop when the pipe from the parent is closed, which also happens when the parent is killed."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE)
    os._exit(FAILED)


def _run(chosen: list[str], settings: Settings) -> int:
    configure_logs(settings)
    configure_traces()
    try:
        return _run_all(chosen, settings)
    finally:
        stop_traces()


def _run_all(chosen: list[str], settings: Settings) -> int:
    # The runtime creates it, because it reads the number of partitions from Kafka.
    others = {services.WEBHOOKS, services.QUERY, services.GATEWAY}
    made = [partial(services.make, name) for name in chosen if name not in others]
    shared = SharedReader(settings, client_id="moorage-globals")
    beside, routes = _query(settings, shared) if services.QUERY in chosen else ([], [])
    if services.WEBHOOKS in chosen:
        from moorage.workers.webhooks.worker import WebhookWorker  # noqa: PLC0415 - only loaded if it is run

        beside = [*beside, partial(WebhookWorker, shared=shared)]
    log = structlog.get_logger(__name__)
    for name, nearest in unknown_variables().items():
        log.warning("environment.unknown", variable=name, nearest=nearest)

    async def main() -> int:
        if services.GATEWAY not in chosen:
            return await run_services(made, settings, beside=beside, shared=shared, routes=routes)
        from moorage.apiserver.server import serve  # noqa: PLC0415 - as above
        from moorage.cli.local.pages import with_pages  # noqa: PLC0415 - only loaded if it is run

        gateway = asyncio.create_task(serve(settings, front=with_pages), name=services.GATEWAY)
        if not made and not beside:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, gateway.cancel)
            return await _ended(gateway)
        # When one ends, the other is stopped. Signals go to the services.
        stop = asyncio.Event()
        gateway.add_done_callback(lambda _: stop.set())
        code = await run_services(made, settings, beside=beside, shared=shared, routes=routes, stop=stop)
        gateway.cancel()
        return code or await _ended(gateway)

    try:
        return run_async(main())
    except RuntimeFailure as error:
        raise CliError(str(error)) from None
    except (KafkaError, OSError) as error:
        log.critical("process.failed", problem=str(error) or repr(error), exit_code=EXIT_FAILED)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 0


def _query(settings: Settings, shared: SharedReader) -> tuple[list[MemberMaker], list[Route]]:
    """Return the factory of the query worker, and its routes."""
    from moorage.insight.query.http import Endpoint  # noqa: PLC0415 - only loaded if it is run

    try:
        endpoint = Endpoint(settings)
    except RuntimeFailure as error:
        raise CliError(str(error)) from None
    return [partial(endpoint.make, shared=shared)], endpoint.routes


async def _ended(gateway: asyncio.Task[None]) -> int:
    """Wait until the gateway ends. If it is cancelled, it has stopped in an orderly way."""
    try:
        await gateway
    except asyncio.CancelledError:
        return 0
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return 0
