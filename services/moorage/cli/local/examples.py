"""Where the example fleet and the example probe are: in the checkout, else in the installed package.

The wheel carries the folder `examples` as `moorage/_examples` (pyproject.toml, `force-include`).
"""

from __future__ import annotations

from pathlib import Path

from moorage.cli.errors import CliError

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE.parents[3] / "examples", _HERE.parents[1] / "_examples", Path.cwd() / "examples")


def examples(named: Path | None = None) -> Path:
    """The folder `examples`.

    Args:
        named: what the user says; else the usual places are looked at.

    Raises:
        CliError: it is nowhere.
    """
    for place in (named,) if named else _PLACES:
        if (place / "fleet").is_dir() and (place / "probe.py").is_file():
            return place
    raise CliError(
        f"the examples are not at {named or _PLACES[0]}: they come with Moorage's wheel, and with a checkout.\n"
        "Name their folder with --examples."
    )
