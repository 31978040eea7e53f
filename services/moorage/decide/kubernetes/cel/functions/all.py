"""All functions and types of OCM's environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.decide.kubernetes.cel.declarations import Overload
from moorage.decide.kubernetes.cel.functions import (
    addresses,
    amounts,
    collections,
    documents,
    formats,
    formatting,
    patterns,
    standard,
    texts,
    times,
    urls,
    versions,
)
from moorage.decide.kubernetes.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)

_LIBRARIES: Final = (
    standard,
    times,
    patterns,
    texts,
    formatting,
    collections,
    documents,
    amounts,
    addresses,
    versions,
    urls,
    formats,
)


def _by_name() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library.OVERLOADS:
            found.setdefault(overload.function, []).append(overload)
    return {name: tuple(overloads) for name, overloads in found.items()}


FUNCTIONS: Final[Mapping[str, tuple[Overload, ...]]] = _by_name()
"""The signatures of each function by the name under which expressions call it."""

TYPES: Final[Mapping[str, Type]] = {
    **{one.name: one for one in (BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT)},
    **{one.name: one for one in (addresses.IP, addresses.CIDR)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "optional_type": optional_of(DYN),
    "type": type_of(DYN),
}
"""The types that expressions may name."""
