"""Quantities in the form in which an API server shows them: `1` for `1000m`, `1Gi` for `1024Mi`, `"2"` for 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from moorage.decide.kubernetes.quantities import QuantityError, canonical_text

_Path = tuple[str, ...]

_EACH: Final = "*"
"""Stands for each item of a list, or each value of an object."""

_RESOURCES: Final[tuple[_Path, ...]] = (("requests", _EACH), ("limits", _EACH))
_POD: Final[tuple[_Path, ...]] = (
    *(
        (containers, _EACH, "resources", *path)
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for path in _RESOURCES
    ),
    *(("resources", *path) for path in _RESOURCES),
    ("overhead", _EACH),
    ("volumes", _EACH, "emptyDir", "sizeLimit"),
    *(("volumes", _EACH, "ephemeral", "volumeClaimTemplate", "spec", "resources", *path) for path in _RESOURCES),
)
_TEMPLATE: Final[tuple[_Path, ...]] = tuple(("spec", "template", "spec", *path) for path in _POD)
_CLAIM: Final[tuple[_Path, ...]] = tuple(("spec", "resources", *path) for path in _RESOURCES)
_PATHS: Final[Mapping[str, tuple[_Path, ...]]] = {
    "Pod": tuple(("spec", *path) for path in _POD),
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "Job", "ReplicationController"), _TEMPLATE),
    "StatefulSet": (*_TEMPLATE, *(("spec", "volumeClaimTemplates", _EACH, *path) for path in _CLAIM)),
    "CronJob": tuple(("spec", "jobTemplate", *path) for path in _TEMPLATE),
    "PersistentVolumeClaim": (*_CLAIM, ("status", "capacity", _EACH)),
    "PersistentVolume": (("spec", "capacity", _EACH),),
    "ResourceQuota": (("spec", "hard", _EACH),),
    "LimitRange": tuple(
        ("spec", "limits", _EACH, field, _EACH)
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    ),
    "Node": (("status", "capacity", _EACH), ("status", "allocatable", _EACH)),
}
"""Where objects of Kubernetes' kinds have quantities. Those of custom resources are shown as they were sent."""


_Tree = dict[str, Any]
"""Paths that begin in the same way stand together. The end of a path has no further steps."""


def _tree(paths: Iterable[_Path]) -> _Tree:
    tree: _Tree = {}
    for path in paths:
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
    return tree


_TREES: Final[Mapping[str, _Tree]] = {kind: _tree(paths) for kind, paths in _PATHS.items()}


def with_canonical_quantities(document: dict[str, Any]) -> dict[str, Any]:
    """An object with its quantities in canonical form. What is none stays as it is."""
    tree = _TREES.get(document.get("kind", ""))
    found: dict[str, Any] = document if tree is None else _changed(document, tree)
    return found


def _changed(value: Any, tree: _Tree) -> Any:
    """The value with what the paths of a tree lead to in canonical form. It is the same one if nothing changes."""
    if not tree:
        return _canonical(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else value
    each = tree.get(_EACH)
    if isinstance(value, list):
        if each is None or not value:
            return value
        items = [_changed(one, each) for one in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    found = value
    for name, inner in ((name, each) for name in value) if each is not None else tree.items():
        if name in value and (one := _changed(value[name], inner)) is not value[name]:
            found = {**value} if found is value else found
            found[name] = one
    return found


def _canonical(value: str | float) -> str | float:
    found = _canonical_text(value)
    return value if found == value else found


@lru_cache(maxsize=4096, typed=True)
def _canonical_text(value: str | float) -> str | float:
    try:
        return canonical_text(value)
    except QuantityError:
        return value
