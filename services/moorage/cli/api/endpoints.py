"""Addresses of gateway and broker: an option, the environment, a running `moorage up`, a kubeconfig, or a guess.

Finding the gateway loads neither the settings nor Kafka's client, because most commands need only its address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from moorage.cli.api import credentials, kubeconfig, runfile
from moorage.cli.api.client import Client
from moorage.cli.api.credentials import Credentials
from moorage.cli.errors import CliError, UsageError
from moorage.runtime.settings import environment

if TYPE_CHECKING:
    from moorage.runtime.settings.process_settings import Settings

_LAST_PORT = 65_535
_CLUSTER: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_VARIABLE: Final = environment.variable("server")


def load_settings(
    flags: Mapping[str, str] | None = None, *, kafka_role: str = "operator", **overrides: Any
) -> Settings:
    """Return the settings from the environment.

    If the Kafka of a running `moorage up` requires authentication, and the environment has no credentials, they are
    those of a user that `moorage up` has made. `flags` are those of the command line by the settings' names, and take
    precedence. `kafka_role` is the role of that user, and `overrides` are settings that the command itself sets.

    Raises:
        UsageError: a variable or a flag has an invalid value. The message names it, the value and the rule.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - only some commands need all settings

    from moorage.runtime.settings.process_settings import Settings  # noqa: PLC0415 - as above

    given = flags or {}
    overrides = {**_identity(str(overrides.get("bootstrap_servers", "")), kafka_role), **overrides}
    try:
        return Settings(**{**given, **overrides})
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            field = "_".join(str(part) for part in problem["loc"][:1])
            where = f"--{field.replace('_', '-')}" if field in given else environment.variable(field)
            rule = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
            value = "(hidden)" if field in Settings.secrets() else repr(problem["input"])
            lines.append(f"{where}: invalid value {value}: {rule}")
        raise UsageError("; ".join(lines)) from None


def _identity(bootstrap: str, role: str) -> dict[str, str]:
    """Return the settings of a user of the Kafka that runs here, if it has users."""
    running = runfile.read() if bootstrap and environment.text("kafka_security_protocol") is None else None
    if running is None or not running.kafka_identities or running.bootstrap != bootstrap:
        return {}
    from moorage.runtime.identities import kafka_identities  # noqa: PLC0415 - only these commands need it

    return kafka_identities.settings_of(Path(running.kafka_identities), role)


@dataclass(frozen=True, slots=True)
class Server:
    """The gateway that a command uses, and how it was chosen."""

    address: str
    """Its API: that of the home fleet, or of the cluster that is chosen."""

    origin: str
    """Its origin, for messages."""

    cluster: str = ""
    """The real cluster that is chosen. Empty for the home fleet."""

    guessed: bool = False
    """Whether nothing names it. It may belong to another user, so nothing is written to it."""

    namespace: str = ""
    """The namespace of the context that names it. Empty if there is none."""

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The options of the root command, with credentials among them."""

    context: kubeconfig.Context | None = field(default=None, repr=False)
    """The context that names it."""

    @property
    def gateway(self) -> str:
        """The gateway itself, whichever cluster is chosen."""
        return self.address.removesuffix(_path_of(self.cluster))

    def credentials(self) -> Credentials:
        """Return the credentials for the gateway.

        Options come first, then the environment, then the context that names the gateway. The gateway of the
        `moorage up` that runs here is shown its administrator's token. Raises CliError if a file cannot be read.
        """
        found = [credentials.of_environment(self.options)]
        if self.context is not None:
            found.append(self.context.credentials())
        elif (running := runfile.read()) is not None and running.server.rstrip("/") == self.gateway:
            found.append(_of_administrator(running))
        return credentials.first_of(*found)


GUESS: Final = "nothing names a server"


def server(ctx: typer.Context) -> Server:
    """Return the gateway of a command.

    It is the first of: `--server`, `MOORAGE_SERVER`, `--context`, the `moorage up` that runs here, the current context
    of the kubeconfig if it is for a gateway, `MOORAGE_GATEWAY_PORT`, and port 8080 of 127.0.0.1. The last is a guess.

    With `--fleet-cluster`, its address is that of the API of that cluster.

    Raises:
        UsageError: the port in the environment, or the name of the cluster, is invalid.
        CliError: the context does not exist.
    """
    found, options = _server(ctx), ctx.find_root().params
    address = found.address if "://" in found.address else f"http://{found.address}"
    cluster = str(options.get("fleet_cluster") or "")
    if cluster and not _CLUSTER.fullmatch(cluster):
        rule = "must be a name of lower case letters, digits, '-' and '.'"
        raise UsageError(f"--fleet-cluster: invalid value {cluster!r}: {rule}")
    return replace(found, address=address.rstrip("/") + _path_of(cluster), cluster=cluster, options=options)


def _path_of(cluster: str) -> str:
    """Return the path of the API of a cluster. Empty for the home fleet."""
    return f"/clusters/{cluster}" if cluster else ""


def _server(ctx: typer.Context) -> Server:
    root = ctx.find_root()
    named = str(root.params.get("context") or "")
    if given := str(root.params.get("server") or ""):
        by_option = root.get_parameter_source("server")
        return Server(given, "--server" if by_option and by_option.name == "COMMANDLINE" else _VARIABLE)
    if said := environment.text("server"):
        return Server(said, _VARIABLE)
    if not named and (running := runfile.read()):
        return Server(running.server, f"`moorage up`, process {running.pid}")
    if context := kubeconfig.chosen(named):
        origin = f"context {context.name} of {kubeconfig.path()}"
        return Server(context.server, origin, namespace=context.namespace, context=context)
    port = _gateway_port()
    local = f"http://127.0.0.1:{port}"
    if environment.text("gateway_port") is not None:
        return Server(local, environment.variable("gateway_port"))
    return Server(local, GUESS, guessed=True)


def gateway(ctx: typer.Context) -> str:
    """Return the gateway's address, for a command that writes to it.

    Raises:
        UsageError: the port in the environment is invalid.
        CliError: nothing names a server.
    """
    found = server(ctx)
    if found.guessed:
        with Client(found.address, guessed=True) as client:
            client.claim(writing=True)
    return found.address


def connect(ctx: typer.Context, *, patience: float | None = None, quietly: bool = False) -> Client:
    """Return a client of the gateway.

    `patience` is in seconds. `quietly`: whether not to print that the server is a guess.
    """
    return _client(found := server(ctx), found.address, patience=patience, quietly=quietly)


def connect_home(ctx: typer.Context) -> Client:
    """Return a client of the API of the home fleet, whichever cluster is chosen, for what there is only there."""
    return _client(found := server(ctx), found.gateway)


def chosen_cluster(ctx: typer.Context) -> str:
    """Return the real cluster that is chosen. Empty for the home fleet. Raises UsageError if its name is invalid."""
    return server(ctx).cluster


def _client(found: Server, address: str, *, patience: float | None = None, quietly: bool = False) -> Client:
    return Client(
        address,
        patience=patience,
        guessed=found.guessed,
        quietly=quietly,
        credentials=found.credentials(),
    )


def _of_administrator(running: runfile.Running) -> Credentials:
    """Return the administrator's credentials for the gateway that runs here. Empty if this user cannot read them."""
    try:
        token = _text_in(running.gateway_token_file)
        trusted = _text_in(running.gateway_ca_file)
    except OSError:
        return credentials.NONE
    return Credentials(token, trusted)


def _text_in(file: str) -> str:
    return Path(file).read_text("ascii").strip() if file else ""


def kafka() -> tuple[str, str]:
    """Return the broker's addresses and the prefix of the topics. Raises CliError if no broker is known."""
    settings = load_settings()
    running = runfile.read()
    if settings.bootstrap_servers:
        return settings.bootstrap_servers, settings.topic_prefix
    if running is not None:
        prefix = running.topic_prefix if environment.text("topic_prefix") is None else settings.topic_prefix
        return running.bootstrap, prefix
    raise CliError(
        "the address of Kafka is not known: MOORAGE_BOOTSTRAP_SERVERS is not set, and `moorage up` is not running.\n"
        "Start Kafka with `moorage up`, or set MOORAGE_BOOTSTRAP_SERVERS to the addresses of a cluster."
    )


def kafka_settings(flags: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings from the environment, with the broker that a command uses.

    Raises:
        UsageError: a variable or a flag has an invalid value.
        CliError: no broker is known.
    """
    bootstrap, prefix = kafka()
    return load_settings(flags, bootstrap_servers=bootstrap, topic_prefix=prefix, **overrides)


def live_settings(flags: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the live services, as far as they are known, changed by flags."""
    return kafka_settings({**of_the_live(kafka()[0]), **(flags or {})})


def of_the_live(bootstrap: str) -> dict[str, str]:
    """Return the settings of the `moorage up` of this Kafka, except those that the environment sets."""
    from moorage.cli.flags import FIELDS  # noqa: PLC0415 - only some commands need all settings

    found = runfile.read()
    if found is None or found.bootstrap != bootstrap:
        return {}
    return {
        field: text for field, text in found.settings.items() if field in FIELDS and environment.text(field) is None
    }


def _gateway_port() -> int:
    """Return the setting `gateway_port`."""
    said = environment.text("gateway_port")
    if said is None:
        return environment.GATEWAY_PORT
    if said.isascii() and said.isdigit() and int(said) <= _LAST_PORT:
        return int(said)
    return load_settings().gateway_port  # which knows what else is a port, and says what is none
