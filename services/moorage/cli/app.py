"""The root command: a table of commands that are loaded when they are called."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from moorage.cli.errors import CliError, warn
from moorage.cli.render import colors
from moorage.cli.render.colors import Color
from moorage.runtime import environment


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is found, and its line in `moorage --help` (a test holds it to the docstring)."""

    module: str
    attribute: str
    help: str
    panel: str


_OBJECTS = "Objects"
_TARGETS = "Targets"
_LOOK = "Look"
_RUN = "Run"
_COMMANDS = "moorage.cli.commands"

COMMANDS: dict[str, Entry] = {
    "apply": Entry(f"{_COMMANDS}.apply", "apply", "Create or change the objects in files.", _OBJECTS),
    "get": Entry(f"{_COMMANDS}.get", "get", "List objects, or show one.", _OBJECTS),
    "describe": Entry(f"{_COMMANDS}.describe", "describe", "Tell all about an object, with reasons.", _OBJECTS),
    "delete": Entry(f"{_COMMANDS}.delete", "delete", "Delete objects by name or by file.", _OBJECTS),
    "edit": Entry(f"{_COMMANDS}.edit", "edit", "Change an object in your editor.", _OBJECTS),
    "scale": Entry(f"{_COMMANDS}.scale", "scale", "Set how many replicas an object has.", _OBJECTS),
    "taint": Entry(
        f"{_COMMANDS}.taint", "taint", "Add, change or remove taints of nodes, clusters or managed clusters.", _TARGETS
    ),
    "cordon": Entry(f"{_COMMANDS}.cordon", "cordon", "Mark nodes or clusters as unschedulable.", _TARGETS),
    "uncordon": Entry(f"{_COMMANDS}.cordon", "uncordon", "Mark nodes or clusters as schedulable.", _TARGETS),
    "adm": Entry(
        f"{_COMMANDS}.adm", "app", "The commands on targets under the names that oc adm gives them.", _TARGETS
    ),
    "pause": Entry(f"{_COMMANDS}.pause", "pause", "Hold evictions; deadlines run on.", _TARGETS),
    "resume": Entry(f"{_COMMANDS}.pause", "resume", "Let evictions go on that were paused.", _TARGETS),
    "report": Entry(
        f"{_COMMANDS}.report",
        "report",
        "Report conditions of a target, as a probe does, or of a workload on one, as a deployer does.",
        _TARGETS,
    ),
    "watch": Entry(f"{_COMMANDS}.watch", "watch", "Show events from the topics as they come.", _LOOK),
    "explain": Entry(
        f"{_COMMANDS}.explain", "explain", "Tell why a workload is where it is, or is not, and until when.", _LOOK
    ),
    "simulate": Entry(
        f"{_COMMANDS}.simulate", "simulate", "Tell what a change would do, on a copy; changes nothing.", _LOOK
    ),
    "replay": Entry(
        f"{_COMMANDS}.replay", "replay", "Decide again on what was recorded, and compare byte for byte.", _LOOK
    ),
    "eval": Entry(f"{_COMMANDS}.evaluate", "evaluate", "Answer questions to the core: JSON lines in and out.", _LOOK),
    "demo": Entry("moorage.cli.demo.command", "demo", "Show the main job on an embedded Kafka; ends by itself.", _LOOK),
    "up": Entry(f"{_COMMANDS}.up", "up", "Run broker, services and gateway until Ctrl-C.", _RUN),
    "run": Entry(f"{_COMMANDS}.run", "run", "Run one or several services in this process.", _RUN),
    "kafka": Entry(f"{_COMMANDS}.kafka", "app", "The embedded Kafka by itself.", _RUN),
    "topics": Entry(f"{_COMMANDS}.topics", "app", "Make or list Moorage's topics.", _RUN),
    "schemas": Entry(
        f"{_COMMANDS}.schemas",
        "schemas",
        "Write JSON Schemas and the AsyncAPI document from the models (in a checkout only).",
        _RUN,
    ),
    "version": Entry(f"{_COMMANDS}.version", "version", "Show the versions of Moorage and of what it runs on.", _RUN),
}

WITH_SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "up": {"gateway_port": ("--port",)},
    "run": {"http_host": (), "http_port": (), "gateway_port": ()},
    "simulate": {},
}
"""Commands that take the settings of the services as flags. By name, the settings of where they listen, which are flags
of this command alone, with the flags' shorter names."""


_ANYWHERE = frozenset({"--server", "--color"})
"""Options of the root that may stand behind a command."""


def load(name: str) -> Any:
    """The click command of a name in `COMMANDS`, with everything that it imports."""
    entry = COMMANDS[name]
    found = getattr(importlib.import_module(entry.module), entry.attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    # Plain help where there are settings: a table would cut their long names off.
    single = typer.Typer(add_completion=False, rich_markup_mode=None if name in WITH_SETTINGS else "rich")
    # `taint` takes `key-` and the like; arguments that look like options are still refused.
    if name in WITH_SETTINGS:
        from moorage.cli.flags import SwitchCommand, with_settings  # noqa: PLC0415 - only who has them pays for them

        single.command(name, cls=SwitchCommand)(with_settings(found, WITH_SETTINGS[name]))
    else:
        single.command(name)(found)
    return typer.main.get_command(single)


class LazyGroup(TyperGroup):
    """A group whose commands are imported when called, and whose user errors end without traceback."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, entry in COMMANDS.items():
            # For help, completion and suggestions: a stand-in with the help line, so that nothing is imported.
            self.add_command(TyperCommand(name, help=entry.help, rich_help_panel=entry.panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """For a call: the command itself."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None else load(str(name)), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept `--server` and `--color` behind the command too, as kubectl does."""
        own: list[str] = []
        rest: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                rest += [word, *words]
            elif word in _ANYWHERE:
                own += [word, *(value for value in [next(words, None)] if value is not None)]
            else:
                (own if word.partition("=")[0] in _ANYWHERE else rest).append(word)
        with _suggesting():
            return super().parse_args(ctx, own + rest)

    def invoke(self, ctx: Any) -> Any:
        """Run, and tell a user's error in one line on stderr."""
        try:
            with _suggesting():
                return super().invoke(ctx)
        except CliError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(error.code) from None
        except BrokenPipeError:
            # The reader has gone (`moorage watch | head -1`): nothing is wrong, and nothing more can be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(0) from None


@contextmanager
def _suggesting() -> Iterator[None]:
    """Say which option was meant in the words in which a command is suggested."""
    try:
        yield
    except Exception as error:
        # The parser's error for an option that does not exist; its class has no public name.
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
    server: Annotated[  # noqa: ARG001 - commands find it in the context, which a shell's completion has, too
        str, typer.Option(help="Address of the gateway, such as http://127.0.0.1:8080.", envvar="MOORAGE_SERVER")
    ] = "",
    color: Annotated[
        Color, typer.Option(help="Colours: auto has them on a terminal, unless NO_COLOR is set.")
    ] = Color.AUTO,
) -> None:
    """Moorage decides where work may live in a fleet, and when it has to leave."""
    ctx.call_on_close(colors.choose(color))
    if ctx.invoked_subcommand != "run":  # whose log tells it
        for name, nearest in environment.unknown().items():
            meant = f"; did you mean {nearest}?" if nearest else "."
            warn(f"Warning: the environment variable {name} is not known and has no effect{meant}")
