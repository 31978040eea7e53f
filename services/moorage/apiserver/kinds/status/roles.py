"""Indexes of ClusterRoles: aggregated ones, and those of ManagedClusterSets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index, Unsettled
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.apiserver.rbac.bindings import CLUSTER_ROLE
from moorage.apiserver.rbac.cluster_sets import set_of
from moorage.apiserver.rbac.rules import is_aggregated
from moorage_schemas.resources.managed import BUILT_IN_SETS

_PREFIX: Final = f"{CLUSTER_ROLE}//"


class AggregationIndex(Index):
    """ClusterRoles by their record keys. When one of them changes, all aggregated ones are looked at: there are few."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.roles: dict[str, None] = {}
        """The record keys of all ClusterRoles."""

        self.unsettled = Unsettled()
        """The record keys of aggregated ClusterRoles whose rules may differ from those of the others by now."""

        self._aggregated: dict[str, None] = {}

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if not key.startswith(_PREFIX):
            return ()
        self._aggregated.pop(key, None)
        if after is None:
            self.roles.pop(key, None)
        else:
            self.roles[key] = None
            if is_aggregated(after.object):
                self._aggregated[key] = None
        self.unsettled.update(self._aggregated)
        return ()


_SET: Final = "ManagedClusterSet//"
_ROLE: Final = f"{CLUSTER_ROLE}//"


class SetRoleIndex(Index):
    """ManagedClusterSets that have changed, or whose roles have. Those that always exist have theirs by default."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.unsettled = Unsettled()
        """Their names."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        name = key.removeprefix(_SET) if key.startswith(_SET) else ""
        if key.startswith(_ROLE):
            name = set_of(key.removeprefix(_ROLE))
        if name and name not in BUILT_IN_SETS:
            self.unsettled.add(name)
        return ()
