"""`moorage up`: run and supervise broker, services and gateway until it is stopped."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.api import endpoints, kinds, runfile
from moorage.cli.api.client import Client
from moorage.cli.errors import CliError, UsageError, warn
from moorage.cli.flags import given
from moorage.cli.local.services import examples
from moorage.cli.local.stack import KAFKA_FOLDER, SecureKafka, Stack
from moorage.cli.render import colors
from moorage.runtime.embedded import EmbeddedKafkaError
from moorage.runtime.embedded import control as embedded
from moorage.runtime.identities import kafka_identities
from moorage.runtime.settings.environment import state_folder
from moorage.runtime.settings.moorage_configuration import overruled
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.state_folders import StateFolderError
from moorage_schemas.resources.configuration import CONFIGURATION_KIND, CONFIGURATION_NAME, MoorageConfiguration

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def up(
    *,
    flags: Mapping[str, str],
    logs: Annotated[bool, typer.Option("--logs", help="Also show the services' logs in this terminal.")] = False,
    gateways: Annotated[
        int,
        typer.Option(
            "--gateways", min=1, max=10, metavar="N", help="Run N gateways. All but the first have free ports."
        ),
    ] = 1,
    secure_kafka: Annotated[
        bool,
        typer.Option("--secure-kafka", help="Require authentication and permissions in the embedded Kafka."),
    ] = False,
    secure_gateway: Annotated[
        bool, typer.Option("--secure-gateway", help="Serve HTTPS, and require authentication also on this machine.")
    ] = False,
    separate: Annotated[
        bool,
        typer.Option(
            "--separate", help="Run each service as a separate process, which is slower and takes more memory."
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete the fleet of earlier runs from the embedded Kafka first.")
    ] = False,
) -> None:
    """Run broker, services and gateway until Ctrl-C.

    By default this starts an embedded Kafka, and keeps its data for the next run. MOORAGE_BOOTSTRAP_SERVERS names
    another Kafka cluster. With --fresh, the fleet begins empty, with new settings: the data of earlier runs is deleted.

    With --secure-kafka each process is a separate user of Kafka with a generated password. Its permissions are those of
    `moorage topics acls`. Commands use the user `moorage-operator`.

    The settings that change decisions become the fleet's MoorageConfiguration when it is first started. Later, change
    them with `moorage edit moorageconfiguration cluster`.

    Without authentication settings, every local user is an administrator of the gateway. With --secure-gateway it
    serves HTTPS with a certificate for this machine. Commands use the administrator's token, which only you can read.

    Kafka and each gateway are separate processes. The services share one, in which condition-ingest, taint-manager,
    eviction and timer run as a chain. With --secure-kafka, the chain and each other service have separate processes.
    With --separate, each service has one, without a chain. A process that ends is restarted.

    The gateway listens on 127.0.0.1, on the port given by --port. Each process of services serves its health and
    metrics on a free port of 127.0.0.1. The addresses are printed at the start.
    """
    settings = endpoints.load_settings(flags)
    if secure_kafka and settings.bootstrap_servers:
        raise UsageError(
            "--secure-kafka: only for the embedded Kafka, and MOORAGE_BOOTSTRAP_SERVERS names another one; "
            "see `moorage topics acls` for the permissions there"
        )
    if fresh and settings.bootstrap_servers:
        raise UsageError(
            "--fresh: only for the embedded Kafka, and MOORAGE_BOOTSTRAP_SERVERS names another one; "
            "set MOORAGE_TOPIC_PREFIX to begin an empty fleet there"
        )
    folder = state_folder()
    kafka = secured(folder) if secure_kafka else None
    try:
        with runfile.claimed():
            if fresh:
                _delete_fleet(folder / KAFKA_FOLDER)
            work = _up(
                settings,
                folder,
                kafka,
                follow=logs,
                gateways=gateways,
                secure_gateway=secure_gateway,
                together=not separate,
            )
            asyncio.run(work)
    except runfile.ClaimedError:
        raise CliError(
            f"{_other(runfile.read())}\nStop it first, or set MOORAGE_STATE_DIR to another folder to run a second one."
        ) from None
    except StateFolderError as error:
        raise CliError(str(error)) from None


def _delete_fleet(data: Path) -> None:
    """Delete the data of the embedded Kafka. Raises CliError if its broker runs, or if it cannot be deleted."""
    try:
        if embedded.status(data).running:
            raise CliError(
                f"--fresh: the Kafka of {data} is running, and its data is not deleted under it.\n"
                "Stop it first: moorage kafka down"
            )
        if data.exists():
            shutil.rmtree(data)
            warn(f"deleted the fleet of earlier runs in {data}")
    except EmbeddedKafkaError as error:
        raise CliError(str(error)) from None
    except OSError as error:
        raise CliError(f"--fresh: {data} cannot be deleted: {error.strerror or error}") from None


def _other(running: runfile.Running | None) -> str:
    if running is None:
        return f"another `moorage up` is starting or stopping with the state folder {state_folder()}."
    return f"Moorage is already running as process {running.pid}, at {running.server}."


def secured(folder: Path) -> SecureKafka:
    """Return the identities for the embedded Kafka of a state folder."""
    from moorage.cli.contract import kafka_roles  # noqa: PLC0415 - loads all services, which takes 35 MB

    return SecureKafka(
        kafka_identities.folder_in(folder), tuple(role.name for role in kafka_roles.roles()), kafka_roles.entries
    )


async def _up(
    settings: Settings,
    folder: Path,
    kafka: SecureKafka | None,
    *,
    follow: bool,
    gateways: int,
    secure_gateway: bool,
    together: bool,
) -> None:
    console = colors.console()

    def say(text: str) -> None:
        console.print(text, markup=False)

    stack = Stack(
        settings,
        folder,
        say,
        follow=follow,
        together=together,
        gateways=gateways,
        secure_kafka=kafka,
        secure_gateway=secure_gateway,
    )
    main_task = asyncio.current_task()
    stopped = asyncio.Event()
    ready = False

    def stop() -> None:
        if stopped.is_set():
            say("killing the processes that still run")
            stack.kill()
            return
        stopped.set()
        say("stopping: gateway, services, Kafka")
        if not ready and main_task is not None:
            main_task.cancel()

    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        async with stack:
            ready = True
            runfile.write(_running(stack, settings, kafka), folder)
            say(_greeting(stack))
            if overruled := await asyncio.to_thread(_overruled, stack.server, settings):
                say(overruled)
            await stopped.wait()
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
    say("stopped")


def _running(stack: Stack, settings: Settings, kafka: SecureKafka | None) -> runfile.Running:
    """Return what other commands need from this process."""
    return runfile.Running(
        pid=os.getpid(),
        server=stack.server,
        bootstrap=stack.bootstrap,
        topic_prefix=settings.topic_prefix,
        started=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        settings=given(settings),
        kafka_identities="" if kafka is None else str(kafka.folder),
        gateway_token_file=stack.token_file,
        gateway_ca_file=stack.ca_file,
    )


def _greeting(stack: Stack) -> str:
    health = ", ".join(f"{name} {address}" for name, address in stack.health.items())
    return (
        f"\nhealth and metrics: {health}\n"
        f"Moorage is up.  gateway {stack.server}   Kafka {stack.bootstrap}   logs {stack.logs}\n"
        f"{_who(stack)}\n"
        f"Try `moorage apply -f {_fleet()}`, `moorage get nodes`, `moorage watch`. Ctrl-C stops it."
    )


def _who(stack: Stack) -> str:
    """Return who may call the gateway."""
    if stack.is_open:
        return "No authentication: every local user is an administrator. `moorage up --secure-gateway` requires it."
    return "It requires authentication. Commands here use the administrator's token; `moorage kubeconfig` prints it."


def _overruled(server: str, settings: Settings) -> str:
    """Return which of the settings of this start do not count, because the fleet's configuration has others."""
    try:
        with Client(server, credentials=endpoints.Server(server, "here").credentials()) as client:
            found = client.get(kinds.find(CONFIGURATION_KIND), "", CONFIGURATION_NAME)
        fields = overruled(settings, MoorageConfiguration.model_validate(found).spec)
    except (CliError, ValueError):  # the gateway is about to write the first one, or is stopping already
        return ""
    if not fields:
        return ""
    return (
        f"\nThe fleet's MoorageConfiguration has other values than this start for {', '.join(fields)}, and it counts. "
        f"See it with `moorage get moorageconfiguration {CONFIGURATION_NAME} -o yaml`, and change it with "
        f"`moorage edit moorageconfiguration {CONFIGURATION_NAME}`."
    )


def _fleet() -> str:
    """Return the path of the example fleet as you would type it here, or `FILE` without examples."""
    here = Path("examples/fleet")
    if here.is_dir():
        return str(here)
    try:
        return str(examples() / "fleet")
    except CliError:
        return "FILE"
