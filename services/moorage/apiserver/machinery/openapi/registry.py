"""The structure of each kind that is served, at each of its versions.

Files of data are read when one of their kinds is asked for, and a definition is built when it is used.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any, Final

from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.machinery.openapi import data, models
from moorage.apiserver.machinery.openapi.definitions import definition, from_data, list_of
from moorage.apiserver.machinery.schema import Schema
from moorage.apiserver.rbac.cluster_sets import VIEW_GROUP

_OWN: Final = "io.moorage."
"""What the names of the definitions of Moorage's own kinds begin with."""

_META_GROUP: Final = "meta.k8s.io"
_CLUSTERS: Final = "cluster.karmada.io"


class Origin(Enum):
    """How upstream serves a kind. Clients may send a built-in kind in more ways than a custom resource."""

    BUILT_IN = "built in"
    """It takes strategic merge patches and protobuf. Unknown fields are dropped when it is decoded."""

    AGGREGATED = "aggregated"
    """It is built into another API server, as Karmada's Cluster is. It takes strategic merge patches, and no
    protobuf."""

    CUSTOM = "custom"
    """It takes neither strategic merge patches nor protobuf. Unknown fields are pruned."""

    OWN = "own"
    """It is Moorage's own, and is served as a custom resource. Its admission sees unknown fields, and may refuse
    them."""

    @property
    def merges_strategically(self) -> bool:
        """Whether it takes strategic merge patches."""
        return self in {Origin.BUILT_IN, Origin.AGGREGATED}

    @property
    def has_protobuf(self) -> bool:
        """Whether it can be read and written as protobuf."""
        return self is Origin.BUILT_IN


def schema_of(group: str, version: str, kind: str) -> Schema:
    """Return the structure of a kind, or of a list of its objects (`PodList`).

    A version that upstream no longer describes has the structure of the next newer one. Options (`DeleteOptions`)
    and other types that belong to no group are found in every group.

    Args:
        group: the API group. Empty for the core group.
        version: of the group.
        kind: as objects name it.

    Raises:
        LookupError: no such kind is served.
    """
    found = _schema_of(group, version, kind, _served(group, kind))
    if found is None:
        raise LookupError(f"{group or 'core'}/{version} has no kind {kind}")
    return found


def is_known(group: str, version: str, kind: str) -> bool:
    """Return whether a kind is served, or upstream describes it."""
    path = f"{group}/{version}/{kind}" if group else f"{version}/{kind}"
    return path in data.native()["kinds"] or path in data.custom()["kinds"] or _served(group, kind) is not None


def origin_of(group: str, kind: str) -> Origin:
    """Return how upstream serves a kind, or lists of it."""
    if group == _CLUSTERS:
        return Origin.AGGREGATED
    names = {kind, kind.removesuffix("List")}
    if any((one, name) in _names("native") for name in names for one in (group, _META_GROUP)):
        return Origin.BUILT_IN
    return Origin.CUSTOM if any((group, name) in _names("custom") for name in names) else Origin.OWN


def is_custom(name: str) -> bool:
    """Return whether a definition belongs to a custom resource of upstream's, by its name."""
    return not name.startswith(_OWN) and name not in data.native()["definitions"]


_VIEWED: Final = {
    (VIEW_GROUP, "ManagedCluster"): "cluster.open-cluster-management.io/v1/ManagedCluster",
    (VIEW_GROUP, "ManagedClusterSet"): "cluster.open-cluster-management.io/v1beta2/ManagedClusterSet",
}
"""The kinds of which another group shows everybody his own objects, with the kinds whose structure they have."""


@cache
def _names(file: str) -> frozenset[tuple[str, str]]:
    """The group and the name of every kind in a file of data."""
    split = (key.split("/") for key in (data.native() if file == "native" else data.custom())["kinds"])
    return frozenset(
        (parts[0] if len(parts) == len(("group", "version", "kind")) else "", parts[-1]) for parts in split
    )


def _served(group: str, kind: str) -> Kind[Any] | None:
    found = kinds.named(kind)
    return found if found is not None and found.group == group else None


@cache
def _schema_of(group: str, version: str, kind: str, served: Kind[Any] | None) -> Schema | None:
    path = f"{group}/" if group else ""
    for one in (version, *_newer(version, served)):
        if (name := data.native()["kinds"].get(f"{path}{one}/{kind}")) is not None:
            return definition(name)
        if (said := data.custom()["kinds"].get(_VIEWED.get((group, kind), f"{path}{one}/{kind}"))) is not None:
            return from_data(said, f"{_reversed(group)}.{version}.{kind}")
    if (name := data.native()["kinds"].get(f"{_META_GROUP}/v1/{kind}")) is not None:
        return definition(name)
    if served is not None:
        return models.schema_of(served, f"{_reversed(group)}.{version}")
    single = kind.removesuffix("List")
    if single == kind:
        return None
    item = _schema_of(group, version, single, _served(group, single))
    return list_of(item) if item is not None else None


def _newer(version: str, served: Kind[Any] | None) -> tuple[str, ...]:
    """The versions of a kind that are newer than one of them, the next one first."""
    if served is None or version not in served.versions:
        return ()
    return tuple(reversed(served.versions[: served.versions.index(version)]))


def _reversed(group: str) -> str:
    """A group as the names of definitions have it: `io.moorage`."""
    return ".".join(reversed(group.split(".")))
