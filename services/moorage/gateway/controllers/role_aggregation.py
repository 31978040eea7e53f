"""Gives aggregated ClusterRoles the rules of those that they select."""

from __future__ import annotations

from typing import Any, Final

from moorage.core.authorization.aggregation import aggregated_rules, is_aggregated
from moorage.core.authorization.rules import rules_of
from moorage.gateway.controllers.keeper import Keeper
from moorage.gateway.store import Store
from moorage.gateway.writer import Caller, Writer
from moorage.kinds import cluster_role
from moorage.kinds.kind import ServedKind
from moorage.kinds.status.aggregation import AggregationIndex
from moorage.kinds.status.records import ObjectId

_CALLER: Final = Caller("moorage/cluster-roles")
_KIND: Final = ServedKind(cluster_role.KIND, cluster_role.KIND.versions[0])

Document = dict[str, Any]


class RoleAggregator(Keeper):
    """Keeps the rules of aggregated ClusterRoles, as Kubernetes' controller of them does.

    Args:
        store: the present objects.
        writer: changes roles in the same way as people's writes.
    """

    what = "cluster roles"

    def __init__(self, store: Store, writer: Writer) -> None:
        self._index = store.tables.index(AggregationIndex)
        super().__init__(store, writer, self._index.unsettled)

    async def run(self) -> None:
        """See `Keeper`. Roles that were written before this began are looked at, too."""
        self.applied()
        await super().run()

    async def settle(self, name: str) -> str:
        """Give the role of a record key its rules. See `Keeper`."""
        resources = self._store.tables.resources
        declared = resources.get(name)
        if declared is None or not is_aggregated(declared.object):
            return ""
        roles = [one.object for key in self._index.roles if (one := resources.get(key)) is not None]
        try:
            wanted = aggregated_rules(declared.object, roles)
        except ValueError as error:
            return str(error)
        if wanted != list(rules_of(declared.object.get("rules"))):
            documents = [rule.document() for rule in wanted]

            def change(present: Document) -> Document:
                return {**present, "rules": documents}

            await self._writer.change(_KIND, ObjectId.of(name), change, "update", _CALLER)
        return ""
