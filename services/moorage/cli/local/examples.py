"""Where the example fleet and the example probe are: in the checkout, or else in the installed package.

The wheel carries the folder `examples` as `moorage/_examples` (pyproject.toml, `force-include`).
"""

from __future__ import annotations

from pathlib import Path

from moorage.cli.errors import CliError

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE.parents[3] / "examples", _HERE.parents[1] / "_examples", Path.cwd() / "examples")


def examples(named: Path | None = None) -> Path:
    """Return the folder `examples`.

    Args:
        named: the folder that the user gives. The default is the checkout or the installed package.

    Raises:
        CliError: it does not exist.
    """
    for place in (named,) if named else _PLACES:
        if (place / "fleet").is_dir() and (place / "probe.py").is_file():
            return place
    raise CliError(
        f"there are no examples in {named or _PLACES[0]}; they are part of Moorage's wheel, and of a checkout.\n"
        "Name their folder with --examples."
    )
