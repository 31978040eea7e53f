"""Colours: green for healthy, yellow for waiting, red for failed states.

They are for a terminal. Piped output has none, unless `--color always` is given. `NO_COLOR` (no-color.org) turns them
off, and `--color` takes precedence.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console


class Color(StrEnum):
    """When output is coloured."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


_chosen: ContextVar[Color] = ContextVar("color", default=Color.AUTO)

_GOOD, _WAITING, _BAD, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", ""
_RESET: Final = "\x1b[0m"

_STATES: Final = {
    **dict.fromkeys(
        ("True", "Ready", "Active", "Normal", "Running", "Succeeded", "Placed", "Completed", "Healthy", "passes"), _GOOD
    ),
    **dict.fromkeys(
        (
            *("Unknown", "Pending", "Scheduled", "Held", "Terminating", "SchedulingDisabled", "PartialDisruption"),
            *("Unreported", "Progressing", "leaving"),
        ),
        _WAITING,
    ),
    **dict.fromkeys(
        (
            *("False", "NotReady", "Failed", "Evicted", "Requested", "FullDisruption", "Stopped", "Unhealthy"),
            "RULED OUT",
        ),
        _BAD,
    ),
}
"""Words of statuses, phases and states. A word that is not here stays plain."""

_EFFECTS: Final = {
    "NoExecute": _BAD,
    **dict.fromkeys(("NoSchedule", "NoSelect", "NoSelectIfNew"), _WAITING),
}
"""Effects of taints that keep work away; the others only make a target less wanted."""

_STATE_COLUMNS: Final = frozenset(
    {
        *("STATUS", "STATE", "PHASE", "AVAILABLE", "JOINED", "SCHEDULED", "BOUND", "SUCCEEDED", "HEALTH", "VERDICT"),
        "HUB ACCEPTED",
    }
)
_TAINT_COLUMNS: Final = frozenset({"TAINT", "TAINTS", "ALL-TAINTS"})
_LEVELS: Final = {"ok": _GOOD, "unknown": _WAITING, "warning": _WAITING, "error": _BAD}
_REVERSED: Final = {"True": _BAD, "False": _GOOD}
"""Of a condition that should be False."""


def choose(color: Color) -> Callable[[], None]:
    """Use colours as given on the command line, until the returned function is called."""
    token = _chosen.set(color)
    return lambda: _chosen.reset(token)


def wanted() -> bool:
    """Return whether standard output is coloured."""
    if (color := _chosen.get()) is not Color.AUTO:
        return color is Color.ALWAYS
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(column: str, cell: str) -> str:
    """Return a cell of a table in its colours; the text itself stays as it is.

    The title of its column determines the meaning of the cell.
    """
    if column == "READY":
        return _ready(cell)
    if column == "DEGRADED":
        return _colored(cell, _REVERSED.get(cell, _PLAIN))
    if column in _STATE_COLUMNS:
        return ",".join(_colored(word, _STATES.get(word, _PLAIN)) for word in cell.split(","))
    if column in _TAINT_COLUMNS:
        return ",".join(_colored(taint, _EFFECTS.get(taint.rpartition(":")[2], _PLAIN)) for taint in cell.split(","))
    return cell


def level(word: str, text: str) -> str:
    """Return the mark of a finding in the colour of its level."""
    return _colored(text, _LEVELS.get(word, _PLAIN))


def console() -> Console:
    """Return a console for lines on standard output, with colours where they are wanted."""
    from rich.console import Console  # noqa: PLC0415 - tables do without it

    match _chosen.get():
        case Color.ALWAYS:
            return Console(highlight=False, soft_wrap=True, force_terminal=True, no_color=False)
        case Color.NEVER:
            return Console(highlight=False, soft_wrap=True, color_system=None)
        case Color.AUTO:
            return Console(highlight=False, soft_wrap=True)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a text on standard error during the block, if that is a terminal. It is removed at the end."""
    from rich.console import Console  # noqa: PLC0415 - tables do without it

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def _ready(cell: str) -> str:
    """Return the colour of `2/3` (ready of wanted), or of the status of a condition."""
    ready, slash, total = cell.partition("/")
    if not slash:
        return _colored(cell, _STATES.get(cell, _PLAIN))
    if total == "0":
        return cell
    return _colored(cell, _GOOD if ready == total else _WAITING)


def _colored(text: str, color: str) -> str:
    return f"{color}{text}{_RESET}" if color else text
