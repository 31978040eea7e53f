"""The root command, with a table of commands that are loaded when they are called."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from moorage.cli.errors import FAILED, CliError, warn
from moorage.cli.render import colors
from moorage.cli.render.colors import Color
from moorage.runtime.settings.unknown_variables import unknown_variables


@dataclass(frozen=True, slots=True)
class Entry:
    """A command's line in `moorage --help`, and its place. A test compares the line with the docstring."""

    help: str
    panel: str
    place: str = ""
    """The module and the attribute, such as `edit:scale`. Empty if both have the command's name."""


_OBJECTS = "Objects"
_TARGETS = "Targets"
_LOOK = "Look"
_RUN = "Run"

COMMANDS: dict[str, Entry] = {
    "apply": Entry("Create or change the objects in files.", _OBJECTS),
    "get": Entry("List objects, or show one.", _OBJECTS),
    "describe": Entry("Show an object in detail, with the reasons for decisions on it.", _OBJECTS),
    "delete": Entry("Delete objects by name or by file.", _OBJECTS),
    "edit": Entry("Edit an object in your editor.", _OBJECTS),
    "scale": Entry("Set the number of replicas of an object.", _OBJECTS, "edit:scale"),
    "diff": Entry("Show what applying files would change, or how Moorage differs from a real cluster.", _OBJECTS),
    "label": Entry("Set, change or remove labels.", _OBJECTS),
    "annotate": Entry("Set, change or remove annotations.", _OBJECTS, "label:annotate"),
    "wait": Entry("Wait until objects have a condition or a value, exist or are deleted.", _OBJECTS),
    "taint": Entry("Add, change or remove taints of nodes, clusters or managed clusters.", _TARGETS),
    "cordon": Entry("Mark nodes or clusters as unschedulable.", _TARGETS),
    "uncordon": Entry("Mark nodes or clusters as schedulable.", _TARGETS, "cordon:uncordon"),
    "drain": Entry("Cordon nodes, and evict their pods.", _TARGETS),
    "adm": Entry("Manage targets and roles with the commands of `oc adm`.", _TARGETS, "adm:app"),
    "pause": Entry("Hold evictions. Deadlines keep running.", _TARGETS),
    "resume": Entry("Resume evictions that were paused.", _TARGETS, "pause:resume"),
    "report": Entry(
        "Report conditions of a target, as a probe does, or of a workload on one, as a deployer does.", _TARGETS
    ),
    "status": Entry("Show whether Moorage works: services, lag and last decisions, and the fleet in numbers.", _LOOK),
    "doctor": Entry("Check brokers, topics, permissions, clocks, certificates and settings, with remedies.", _LOOK),
    "probe": Entry("Run a probe without code: a command, an HTTP or a TCP check.", _TARGETS, "probe:app"),
    "watch": Entry("Show events from the topics as they happen.", _LOOK),
    "logs": Entry("Show the logs of the local `moorage up`, merged by time.", _LOOK),
    "explain": Entry("Explain the placement of a workload, or the state of a target.", _LOOK),
    "simulate": Entry("Show what a change would do, without making it.", _LOOK),
    "replay": Entry("Decide again on recorded input, and compare the results byte for byte.", _LOOK),
    "export": Entry("Write the fleet as YAML, with --state everything that decisions rest on.", _RUN, "backup:export"),
    "restore": Entry("Bring an exported fleet into empty topics.", _RUN, "backup:restore"),
    "deadletters": Entry(
        "Show records that were refused, and send reports among them again.", _LOOK, "dead_letters:app"
    ),
    "webhooks": Entry("Send events again that a webhook did not accept.", _LOOK, "dead_letters:webhooks"),
    "eval": Entry("Apply the rules of the core to requests in JSON lines.", _LOOK, "evaluate:evaluate"),
    "demo": Entry("Demonstrate Moorage on an embedded Kafka, in about half a minute.", _LOOK, "demo.command:demo"),
    "up": Entry("Run broker, services and gateway until Ctrl-C.", _RUN),
    "run": Entry("Run one or more services in this process.", _RUN),
    "bridge": Entry("Mirror a real cluster, and carry decisions out there.", _RUN, "bridge:app"),
    "identities": Entry("Create a gateway's administrator token, keys and certificate.", _RUN, "auth:identities"),
    "kafka": Entry("Start and stop the embedded Kafka.", _RUN, "kafka:app"),
    "topics": Entry("Compare, create or list Moorage's topics.", _RUN, "topics:app"),
    "schemas": Entry("Generate the JSON Schemas and the AsyncAPI document (in a checkout only).", _RUN),
    "events": Entry("List the events of objects, the newest last.", _LOOK, "describe:events"),
    "api-resources": Entry("List the kinds that the gateway serves.", _LOOK, "api_resources:api_resources"),
    "api-versions": Entry("List the API versions that the gateway serves.", _LOOK, "api_resources:api_versions"),
    "auth": Entry("Show your identity and your permissions.", _LOOK, "auth:app"),
    "kubeconfig": Entry("Print a kubeconfig for kubectl, or write it to a file.", _LOOK, "config:kubeconfig_command"),
    "config": Entry("Show and choose contexts of the kubeconfig.", _LOOK, "config:app"),
    "kubectl": Entry("Run kubectl with the gateway as its server.", _LOOK, "config:kubectl"),
    "init": Entry("Write a small project for a probe or a deployer of your own.", _RUN),
    "version": Entry("Show the versions of Moorage and its dependencies.", _RUN),
}

WITH_SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "up": {"gateway_port": ("--port",)},
    "run": {"http_host": (), "http_port": (), "gateway_port": ()},
    "simulate": {},
}
"""The commands that take the settings of the services as flags. The values are further settings that are flags of that
command only, such as the ports it listens on, each with the flag's shorter names."""


_ANYWHERE = frozenset(
    {
        *("--server", "--color", "--context", "--fleet-cluster", "--token", "--as", "--as-group"),
        *("--certificate-authority", "--client-certificate", "--client-key"),
    }
)
"""Options of the root that may follow the command."""

_OWN = {"eval": frozenset({"--as"})}
"""The options of commands that mean something else there."""

_SWITCHES = frozenset({"--insecure-skip-tls-verify"})
"""Options without a value."""

_NAMESPACE = frozenset({"-n", "--namespace"})
"""The option of the commands that may come before the command."""

_EXTRAS = {"aiohttp": "bridge", "kubernetes_asyncio": "bridge"}
"""The extra that installs a package which not every command needs, by the package's top module."""

_PASSED_ON = frozenset({"kubectl"})
"""Commands whose words, whatever they are, are for another program."""


def load(name: str) -> Any:
    """Import a command of `COMMANDS`, and return its click command."""
    entry = COMMANDS[name]
    module, _, attribute = (entry.place or f"{name}:{name}").partition(":")
    module = module if "." in module else f"commands.{module}"
    found = getattr(importlib.import_module(f"moorage.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return _unwrapped(typer.main.get_group(found))
    # Commands with settings have plain help, because a table would cut off the long names.
    single = typer.Typer(add_completion=False, rich_markup_mode=None if name in WITH_SETTINGS else "rich")
    # `taint` accepts `key-` and the like. Arguments that look like options are still refused.
    if name in WITH_SETTINGS:
        from moorage.cli.flags import SwitchCommand, with_settings  # noqa: PLC0415 - only these commands need it

        single.command(name, cls=SwitchCommand)(with_settings(found, WITH_SETTINGS[name]))
    elif name in _PASSED_ON:
        raw = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
        single.command(name, context_settings={**raw, "allow_interspersed_args": False})(found)
    else:
        single.command(name)(found)
    return _unwrapped(typer.main.get_command(single))


def _unwrapped(command: Any) -> Any:
    """Join the lines of each paragraph of the help, because a terminal is narrower or wider than a docstring."""
    for one in (command, *getattr(command, "commands", {}).values()):
        one.help = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in (one.help or "").split("\n\n"))
    return command


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called. Errors of the user are shown without a traceback."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, entry in COMMANDS.items():
            # A stand-in with the help line, so that help, completion and suggestions import nothing.
            self.add_command(TyperCommand(name, help=entry.help, rich_help_panel=entry.panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Replace the stand-in by the command itself. A namespace before it is the default of its namespace."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is None:
            return name, command, rest
        command = load(str(name))
        if namespace := ctx.params.get("namespace") or _namespace_of_context(ctx):
            place = {"namespace": namespace}
            ctx.default_map = {name: {**place, **dict.fromkeys(getattr(command, "commands", ()), place)}}
        return name, command, rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept the options of the root also after the command, as kubectl does."""
        own: list[str] = []
        rest: list[str] = []
        words = iter(args)
        for word in words:
            command = next((other for other in rest if not other.startswith("-")), "")
            before = not command
            if word == "--" or (word in _PASSED_ON and before):
                rest += [word, *words]
            elif word.partition("=")[0] in _OWN.get(command, ()):
                rest.append(word)
            elif (word in _NAMESPACE and before) or word in _ANYWHERE:
                own += [word, *(value for value in [next(words, None)] if value is not None)]
            elif word in _SWITCHES:
                own.append(word)
            else:
                (own if word.partition("=")[0] in _ANYWHERE else rest).append(word)
        with _suggesting():
            return super().parse_args(ctx, own + rest)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An error of the user is printed to stderr."""
        try:
            with _suggesting():
                return super().invoke(ctx)
        except CliError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(error.code) from None
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            typer.echo(f"error: this needs the extra {extra!r}: pip install 'moorage[{extra}]'", err=True)
            raise typer.Exit(FAILED) from None
        except BrokenPipeError:
            # The reader has closed the pipe, as in `moorage watch | head -1`. This is not an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(0) from None


def _namespace_of_context(ctx: Any) -> str:
    """Return the namespace of the context that names the server. Empty if none does, or the choice fails later."""
    from moorage.cli.api import endpoints  # noqa: PLC0415 - help and completion of commands need no server

    with suppress(CliError):
        return endpoints.server(ctx).namespace
    return ""


def _show_version(asked: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if asked:
        from moorage.runtime.process.versions import own_version  # noqa: PLC0415 - only this option needs it

        typer.echo(f"moorage {own_version()}")
        raise typer.Exit


@contextmanager
def _suggesting() -> Iterator[None]:
    """Suggest an option in the same words as a command."""
    try:
        yield
    except Exception as error:
        # This is the parser's error for an unknown option. Its class has no public name.
        if near := getattr(error, "possibilities", None):
            error.possibilities = None  # type: ignore[attr-defined]  # see above
            meant = ", ".join(repr(option) for option in near)
            error.message = f"{error.message}. Did you mean {meant}?"  # type: ignore[attr-defined]  # see above
        raise


app = typer.Typer(
    name="moorage",
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def root(
    ctx: typer.Context,
    *,
    server: Annotated[  # noqa: ARG001 - commands read it from the context, as completion does
        str, typer.Option(help="Address of the gateway, such as http://127.0.0.1:8080.", envvar="MOORAGE_SERVER")
    ] = "",
    context: Annotated[  # noqa: ARG001 - as above
        str, typer.Option(help="A context of the kubeconfig that names a gateway, as `moorage config` lists them.")
    ] = "",
    fleet_cluster: Annotated[  # noqa: ARG001 - as above
        str,
        typer.Option(
            metavar="NAME",
            help="The real cluster whose objects are meant, which a bridge mirrors under that name.",
            envvar="MOORAGE_FLEET_CLUSTER",
        ),
    ] = "",
    namespace: Annotated[  # noqa: ARG001 - the default of the command that follows
        str, typer.Option("-n", "--namespace", help="Namespace, if the command that follows names none.")
    ] = "",
    token: Annotated[  # noqa: ARG001 - as above
        str, typer.Option(help="A bearer token for the gateway. MOORAGE_TOKEN or MOORAGE_TOKEN_FILE hide it better.")
    ] = "",
    as_user: Annotated[  # noqa: ARG001 - as above
        str, typer.Option("--as", metavar="USER", help="Send requests on behalf of a user.")
    ] = "",
    as_group: Annotated[  # noqa: ARG001 - as above
        list[str] | None, typer.Option("--as-group", metavar="GROUP", help="A group of that user.")
    ] = None,
    certificate_authority: Annotated[  # noqa: ARG001 - as above
        str, typer.Option(metavar="FILE", help="The authorities of the gateway's certificate. [MOORAGE_CA_FILE]")
    ] = "",
    client_certificate: Annotated[  # noqa: ARG001 - as above
        str, typer.Option(metavar="FILE", help="Your certificate. [MOORAGE_CLIENT_CERT_FILE]")
    ] = "",
    client_key: Annotated[  # noqa: ARG001 - as above
        str, typer.Option(metavar="FILE", help="Its key. [MOORAGE_CLIENT_KEY_FILE]")
    ] = "",
    insecure_skip_tls_verify: Annotated[  # noqa: ARG001 - as above
        bool, typer.Option("--insecure-skip-tls-verify", help="Do not check the gateway's certificate.")
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback ends the program
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    color: Annotated[
        Color, typer.Option(help="When to use colours. auto: on a terminal, unless NO_COLOR is set.")
    ] = Color.AUTO,
) -> None:
    """Moorage decides where work may live in a fleet, and when it has to leave."""
    ctx.call_on_close(colors.choose(color))
    if ctx.invoked_subcommand != "run":  # which logs it
        for name, nearest in unknown_variables().items():
            meant = f"; did you mean {nearest}?" if nearest else "."
            warn(f"Warning: the environment variable {name} is not known and has no effect{meant}")
