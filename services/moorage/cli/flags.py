"""Settings as flags of `up`, `run` and `simulate`, with the names that upstream's programs have for them.

The flags are generated from `Settings`: every field from `feature_gates` to `cloud_provider`, with its docstring as
the help. A command may have flags for further settings, such as the ports on which it listens.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings

_FIRST, _LAST = "feature_gates", "cloud_provider"


def _fields() -> tuple[str, ...]:
    names = list(Settings.model_fields)
    return tuple(names[names.index(_FIRST) : names.index(_LAST) + 1])


FIELDS: tuple[str, ...] = _fields()
"""The settings that are flags of every command with settings. They affect decisions: they are the first content of the
fleet's configuration."""

SWITCHES: frozenset[str] = frozenset(name for name in FIELDS if Settings.model_fields[name].annotation is bool)
"""The settings that are on or off. `--flag`, `--flag=true` and `--flag=false` are accepted."""


def flag(field: str) -> str:
    """Return the flag of a setting, such as `--node-monitor-period` for `node_monitor_period`."""
    return "--" + field.replace("_", "-")


def environment(settings: Settings) -> dict[str, str]:
    """Return these settings as environment variables for a child process."""
    return {variable(field): _text(getattr(settings, field)) for field in FIELDS}


def given(settings: Settings) -> dict[str, str]:
    """Return the settings that are not the default, as texts for flags, by the setting's name."""
    plain = {field: Settings.model_fields[field].default for field in FIELDS}
    return {field: _text(getattr(settings, field)) for field in FIELDS if getattr(settings, field) != plain[field]}


def with_settings(command: Callable[..., None], more: Mapping[str, Sequence[str]] | None = None) -> Callable[..., None]:
    """Add every flag of `FIELDS` to a command.

    It gets those that the user gives in the keyword `flags`: texts by the setting's name. `more` are further settings
    that are flags of this command, with the flags' shorter names. They come first.
    """
    fields = {**(more or {}), **dict.fromkeys(FIELDS, ())}
    options = _options(fields)

    @functools.wraps(command)
    def wrapped(*args: Any, **given: Any) -> None:
        flags = {field: given.pop(field) for field in fields}
        command(*args, flags={field: text for field, text in flags.items() if text is not None}, **given)

    own = inspect.signature(command, eval_str=True)
    kept = [parameter for parameter in own.parameters.values() if parameter.name != "flags"]
    wrapped.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]  # as inspect reads it
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *options)}
    return wrapped


class SwitchCommand(TyperCommand):
    """A command whose switches may stand alone (`--flag`) and take a value only after an equals sign."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept `--flag` for `--flag=true`."""
        bare = {flag(field) for field in SWITCHES}
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [f"{a}=true" if a in bare else a for a in args[:end]] + args[end:])


def _options(fields: Mapping[str, Sequence[str]]) -> list[inspect.Parameter]:
    docs = _docs()
    return [
        inspect.Parameter(
            field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    flag(field),
                    *shorter,
                    help=f"{docs[field]} [{variable(field)}; {_text(Settings.model_fields[field].default) or 'empty'}]",
                    metavar=_metavar(field),
                    show_default=False,
                ),
            ],
        )
        for field, shorter in fields.items()
    ]


def _docs() -> Mapping[str, str]:
    from moorage_schemas.field_docs import field_docs  # noqa: PLC0415 - reads sources, and only these commands need it

    return field_docs(Settings)


def _metavar(field: str) -> str:
    annotation = Settings.model_fields[field].annotation
    if annotation is bool:
        return "[=true|false]"
    if annotation is int:
        return "NUMBER"
    if annotation is float:
        return "NUMBER" if re.search(r"rate|threshold", field) else "DURATION"
    return "TEXT"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
