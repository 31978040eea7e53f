"""Where the example fleet and the example probe are: in the checkout, else with the installed package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from moorage.cli.api.manifests import Manifest
from moorage.cli.errors import CliError

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE.parents[3] / "examples", _HERE / "_examples", Path.cwd() / "examples")


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
        f"the examples are not at {named or _PLACES[0]}: they come with a checkout of Moorage.\n"
        "Name their folder with --examples."
    )


def expected_pods(good: Iterable[Manifest], nodes: int) -> int:
    """How many pods the fleet's manifests ask for."""
    total = 0
    for item in good:
        kind = item.kind.kind if item.kind else ""
        if kind == "Pod":
            total += 1
        elif kind == "DaemonSet":
            total += nodes
        elif kind in {"Deployment", "StatefulSet", "ReplicaSet"}:
            total += int((item.document.get("spec") or {}).get("replicas", 1))
    return total
