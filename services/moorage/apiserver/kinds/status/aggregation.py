"""Which ClusterRoles there are, and which of them consist of the rules of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index, Unsettled
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.apiserver.rbac.aggregation import is_aggregated
from moorage.apiserver.rbac.bindings import CLUSTER_ROLE

_PREFIX: Final = f"{CLUSTER_ROLE}//"


class AggregationIndex(Index):
    """ClusterRoles by their record keys. When one of them changes, all aggregated ones are looked at: there are few."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.roles: dict[str, None] = {}
        """The record keys of all ClusterRoles."""

        self.unsettled = Unsettled()
        """The record keys of aggregated ClusterRoles whose rules may not be those of the others any more."""

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
