"""Environments of expressions: the one variable that it reads, with its type, and the functions that it may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moorage.decide.kubernetes.cel.declarations import Overload, tenth
from moorage.decide.kubernetes.cel.functions import amounts, sets, versions
from moorage.decide.kubernetes.cel.functions.all import FUNCTIONS
from moorage.decide.kubernetes.cel.functions.documents import OVERLOADS as DOCUMENTS
from moorage.decide.kubernetes.cel.types import BOOL, DYN, STRING, Type, map_of
from moorage.decide.kubernetes.cel.values import Value, size_of

PER_CALL_LIMIT: Final = 1_000_000
"""The maximum cost of one expression for one object, as upstream (`PerCallLimit`): about 0.1 s."""


@dataclass(frozen=True, eq=False)
class Environment:
    """The environment of expressions of one kind.

    Attributes:
        variable: the name of the variable.
        type: its type.
        functions: the signatures of each function by the name under which expressions call it.
        fields: the fields of each type that is an object.
        unsupported: names of functions that upstream has and that are missing here.
        limit: the maximum cost of one expression for one object.
        binds: whether `cel.bind` is a macro.
        presence: the cost of `has`, besides that of the path before the field.
        folds: whether lists and maps of constants are made when an expression is compiled, so that they cost nothing.
        results: the types that an expression may have. If empty, all.
    """

    variable: str
    type: Type
    functions: Mapping[str, tuple[Overload, ...]]
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    unsupported: frozenset[str] = frozenset()
    limit: int = PER_CALL_LIMIT
    binds: bool = False
    presence: int = 1
    folds: bool = False
    results: frozenset[str] = frozenset()


MANAGED_CLUSTER: Final = Environment("managedCluster", map_of(STRING, DYN), FUNCTIONS)
"""The environment of OCM's placements: the object of a managed cluster."""


def _device_functions() -> dict[str, tuple[Overload, ...]]:
    """Return OCM's functions without its own, and with those that Kubernetes has beside."""
    documents = {overload.function for overload in DOCUMENTS}
    found = {name: overloads for name, overloads in FUNCTIONS.items() if name not in documents}
    for overload in (*sets.OVERLOADS, *versions.NORMALIZED):
        found[overload.function] = (*found.get(overload.function, ()), overload)
    for name in ("startsWith", "endsWith"):
        found[name] = tuple(overload._replace(cost=_of_affix) for overload in found[name])
    return found


def _of_affix(arguments: Sequence[Value]) -> int:
    """Return the cost of comparing an end of a text: only as much of it is read as the other text has."""
    return tenth(size_of(arguments[1]))


_DEVICE: Final = Type("kubernetes.DRADevice")

DEVICE: Final = Environment(
    variable="device",
    type=_DEVICE,
    functions=_device_functions(),
    fields={
        _DEVICE.name: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, DYN)),
            "capacity": map_of(STRING, map_of(STRING, amounts.QUANTITY)),
        }
    },
    unsupported=frozenset({"distinct", "flatten", "lists.range", "slice", "sort", "sortBy", "authorizer"}),
    binds=True,
    presence=0,
    folds=True,
    results=frozenset({"bool", "dyn"}),
)
"""The environment of selectors of devices (Kubernetes' dynamic resource allocation): one device of a ResourceSlice."""
