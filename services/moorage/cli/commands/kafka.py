"""`moorage kafka`: start and stop the embedded broker, and set its passwords."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from moorage.cli.api import endpoints, runfile, topics
from moorage.cli.contract import kafka_roles
from moorage.cli.errors import CliError
from moorage.cli.render import output
from moorage.runtime.embedded import EmbeddedKafka, EmbeddedKafkaError, default_data_dir
from moorage.runtime.embedded import control as embedded
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin.scram_users import set_passwords
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.passwords import SecretFileError, read_secret
from moorage.runtime.settings.process_settings import Settings

app = typer.Typer(
    name="kafka",
    help="Start and stop the embedded Kafka.",
    no_args_is_help=True,
)

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

_STOPPED = 128 + signal.SIGTERM  # a JVM's exit code after an orderly stop

DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of the broker's data. [default: the user's state folder]", file_okay=False),
]


@app.command()
def up(
    data_dir: DataDirOption = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port on 127.0.0.1. [default: that of the last run, or a free one]", min=1, max=65535),
    ] = None,
    *,
    foreground: Annotated[bool, typer.Option("--foreground", "-f", help="Run in the foreground until Ctrl-C.")] = False,
) -> None:
    """Start the broker in the background, and print its address."""
    folder = data_dir or default_data_dir()
    with _told():
        found = embedded.status(folder)
        if found.running and found.state is not None and not foreground and port in {None, found.state.port}:
            _err.print(f"kafka is already running (pid {found.state.pid})", markup=False)
            _out.print(found.state.bootstrap, markup=False)
            return
        kafka = EmbeddedKafka(folder, port, detached=not foreground)
        asyncio.run(_stay(kafka) if foreground else _start(kafka))


async def _start(kafka: EmbeddedKafka) -> None:
    _err.print("starting kafka", markup=False)
    await kafka.start()
    _err.print(f"kafka started (pid {kafka.pid}, data in {kafka.data_dir})", markup=False)
    _out.print(kafka.bootstrap, markup=False)


async def _stay(kafka: EmbeddedKafka) -> None:
    """Run the broker until Ctrl-C or SIGTERM. It is an error if it ends before."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = asyncio.create_task(_start(kafka))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    stopping = asyncio.create_task(asked.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return
    await starting
    ending = asyncio.create_task(kafka.wait())
    await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not asked.is_set():
        code = await ending
        if code == _STOPPED:
            return  # by `moorage kafka down`
        raise EmbeddedKafkaError(
            "The embedded Kafka ended by itself.",
            why=f"Its process ended with code {code}.",
            action=f"See {kafka.data_dir / 'broker.log'}, and start it again.",
            log=kafka.log_tail(),
        )
    ending.cancel()
    await kafka.stop()
    _err.print("kafka stopped")


@app.command()
def down(data_dir: DataDirOption = None) -> None:
    """Stop the broker. Its data is kept."""
    folder = data_dir or default_data_dir()
    with _told():
        _not_of_up(folder)
        stopped = asyncio.run(embedded.stop(folder))
    _err.print("kafka stopped" if stopped else "kafka was not running")


@app.command()
def status(
    data_dir: DataDirOption = None,
    output: Annotated[str, typer.Option("-o", "--output", help="text or json")] = "text",
) -> None:
    """Show whether the broker is running, and its address. The exit code is 0 if it is, 1 if not."""
    if output not in {"text", "json"}:
        raise typer.BadParameter(f"{output!r}: must be text or json", param_hint="--output")
    folder = data_dir or default_data_dir()
    with _told():
        found = embedded.status(folder)
    state = found.state if found.running else None
    if output == "json":
        shown = {name: getattr(state, name, None) or None for name in ("bootstrap", "pid", "owner", "version")}
        answer = {"running": state is not None, **shown, "dataDir": str(folder.absolute())}
        _out.print(json.dumps(answer), markup=False)
    elif state is None:
        _out.print(f"kafka is not running (data in {folder})", markup=False)
    else:
        lasts = f"until process {state.owner} ends" if state.owner else "until `moorage kafka down`"
        _out.print(
            f"kafka {state.version} runs on {state.bootstrap}, {lasts} (pid {state.pid}, data in {folder})",
            markup=False,
        )
    if state is None:
        raise typer.Exit(1)


def _not_of_up(folder: Path) -> None:
    """Refuse to stop the broker of a running `moorage up`, which would only start it again."""
    found, running = embedded.status(folder), runfile.read()
    owner = found.state.owner if found.running and found.state is not None else None
    if running is not None and owner == running.pid:
        raise CliError(f"this Kafka belongs to `moorage up` (process {owner}), which stops with Ctrl-C.")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Exit with code 1 and the error's text when the broker reports an error."""
    try:
        yield
    except EmbeddedKafkaError as error:
        _err.print(f"error: {error}", markup=False)
        raise typer.Exit(1) from error


_FOR_CONTAINERS = 0o644


@app.command("passwords")
def passwords(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder for the passwords.", file_okay=False)],
    *,
    containers: Annotated[
        bool,
        typer.Option(
            "--for-containers",
            help="Let every user of a container read the files. Here the folder keeps other users out.",
        ),
    ] = False,
) -> None:
    """Make a password for each user of Kafka: services, probes, deployers, people, and brokers.

    Existing passwords are kept. To change one, remove its file, run this again, and then `moorage kafka users`.
    The file kafka.jaas is the login configuration for brokers.
    """
    roles = [*(role.name for role in kafka_roles.roles()), kafka_identities.ADMIN, kafka_identities.BROKER]
    mode = _FOR_CONTAINERS if containers else 0o600
    try:
        made = kafka_identities.ensure(folder, roles, mode=mode)
        kafka_identities.write_login(folder, made, mode=mode)
    except OSError as error:
        raise CliError(f"the passwords cannot be kept in {folder}: {error}") from None
    output.line(f"{len(made)} passwords in {folder}")


@app.command("users")
def users(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the passwords.", exists=True)],
) -> None:
    """Give Kafka's users the passwords of a folder, by SCRAM-SHA-512. Needs the right to alter the cluster."""
    found: dict[str, str] = {}
    for role in kafka_roles.roles():
        try:
            found[kafka_identities.USERS + role.name] = read_secret(
                str(kafka_identities.password_file(folder, role.name))
            )
        except SecretFileError as error:
            raise CliError(f"{error}\nMake the passwords with `moorage kafka passwords`.") from None
    settings = endpoints.kafka_settings(kafka_role=kafka_identities.ADMIN)
    topics.run(settings, _set(settings, found))
    output.line(f"{len(found)} users have their passwords")


async def _set(settings: Settings, found: dict[str, str]) -> None:
    async with clients.administration(settings) as admin:
        await set_passwords(admin, found)
