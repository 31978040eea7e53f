"""`moorage up`: broker, services and gateway, supervised, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.api import endpoints, runfile
from moorage.cli.errors import CliError
from moorage.cli.flags import given
from moorage.cli.local.examples import examples
from moorage.cli.local.stack import Stack
from moorage.cli.render import colors
from moorage.runtime.environment import state_folder
from moorage.runtime.settings import Settings

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def up(
    *,
    flags: Mapping[str, str],
    logs: Annotated[bool, typer.Option("--logs", help="Show the services' logs here too.")] = False,
) -> None:
    """Run broker, services and gateway until Ctrl-C.

    Without settings it starts an embedded Kafka whose data is kept; MOORAGE_BOOTSTRAP_SERVERS names another cluster.

    The gateway listens on 127.0.0.1, on the port of --port. The health and the metrics of each service are on a free
    port of 127.0.0.1, which is told at the start.
    """
    settings = endpoints.load_settings(flags)
    running = runfile.read()
    if running is not None:
        raise CliError(
            f"Moorage runs already as process {running.pid}, at {running.server}.\n"
            "Stop that one first, or set MOORAGE_STATE_DIR to another folder for a second one."
        )
    asyncio.run(_up(settings, follow=logs))


async def _up(settings: Settings, *, follow: bool) -> None:
    console = colors.console()
    folder = state_folder()

    def say(text: str) -> None:
        console.print(text, markup=False)

    stack = Stack(settings, folder, say, follow=follow)
    main_task = asyncio.current_task()
    stopped = asyncio.Event()
    ready = False

    def stop() -> None:
        if stopped.is_set():
            say("killing what still runs")
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
            runfile.write(_running(stack, settings), folder)
            say(_greeting(stack))
            await stopped.wait()
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
    finally:
        runfile.remove(folder)
    say("stopped")


def _running(stack: Stack, settings: Settings) -> runfile.Running:
    """What other commands are to know of this process."""
    return runfile.Running(
        pid=os.getpid(),
        server=stack.server,
        bootstrap=stack.bootstrap,
        topic_prefix=settings.topic_prefix,
        started=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        settings=given(settings),
    )


def _greeting(stack: Stack) -> str:
    health = ", ".join(f"{name} {address}" for name, address in stack.health.items())
    return (
        f"\nhealth and metrics: {health}\n"
        f"Moorage is up.  gateway {stack.server}   Kafka {stack.bootstrap}   logs {stack.logs}\n"
        f"Try `moorage apply -f {_fleet()}`, `moorage get nodes`, `moorage watch`. Ctrl-C stops it."
    )


def _fleet() -> str:
    """The example fleet as somebody here would type it; some files of theirs, where there are no examples."""
    here = Path("examples/fleet")
    if here.is_dir():
        return str(here)
    try:
        return str(examples() / "fleet")
    except CliError:
        return "FILE"
