"""Gives aggregated ClusterRoles the rules of those that they select."""

from __future__ import annotations

from typing import Any, Final

from moorage.apiserver.admission import field_owners
from moorage.apiserver.controllers.keeper import Keeper
from moorage.apiserver.kinds import cluster_role
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.aggregation import AggregationIndex
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.rbac.aggregation import aggregated_rules, is_aggregated
from moorage.apiserver.rbac.rules import rules_of
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.runtime.process.clock import Clock

_CALLER: Final = Caller("moorage/cluster-roles")
_MANAGER: Final = "clusterrole-aggregation-controller"
"""Who owns the rules, as in Kubernetes, whose controller of that name applies them by server-side apply and takes them
over from others."""

_KIND: Final = ServedKind(cluster_role.KIND, cluster_role.KIND.versions[0])

Document = dict[str, Any]


class RoleAggregator(Keeper):
    """Keeps the rules of aggregated ClusterRoles, as Kubernetes' controller of them does.

    Args:
        store: the present objects.
        writer: changes roles in the same way as people's writes.
        clock: the source of the time.
    """

    what = "cluster roles"

    def __init__(self, store: Store, writer: Writer, clock: Clock) -> None:
        self._clock = clock
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
            role = ObjectId.of(name)
            config: Document = {
                "apiVersion": _KIND.api_version,
                "kind": _KIND.kind,
                "metadata": {"name": role.name},
                "rules": [rule.document() for rule in wanted],
            }

            def change(present: Document) -> Document:
                now = self._clock.now()
                return field_owners.management(_KIND).applied(present, config, _MANAGER, now, force=True)

            await self._writer.change(_KIND, role, change, "update", _CALLER)
        return ""
