"""Keeps roles: the default ones, those of ManagedClusterSets, and the rules of aggregated ClusterRoles.

Missing rules are added. Those that people have added stay, and so do roles that they have marked to be left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.admission import field_owners
from moorage.apiserver.admission.deletion import is_marked
from moorage.apiserver.authorization.default_roles import default_bindings, default_roles
from moorage.apiserver.controllers.object_controller import ObjectController
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.roles import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.kinds.status.roles import AggregationIndex, SetRoleIndex
from moorage.apiserver.rbac.cluster_sets import set_roles
from moorage.apiserver.rbac.reconciliation import is_left_alone, reconciled_binding, reconciled_role
from moorage.apiserver.rbac.rules import aggregated_rules, is_aggregated, rules_of
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Preconditions, Writer
from moorage.decide.kubernetes.unstructured import part
from moorage.runtime.process.clock import Clock
from moorage_schemas.resource import ResourceDeclared, resource_key

_CALLER: Final = Caller("moorage/gateway")
_ROLE: Final = ServedKind(CLUSTER_ROLE, CLUSTER_ROLE.versions[0])
_BINDING: Final = ServedKind(CLUSTER_ROLE_BINDING, CLUSTER_ROLE_BINDING.versions[0])

Document = dict[str, Any]


class DefaultRoles:
    """Keeps the default roles and bindings."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def write(self) -> None:
        """Write what is missing. Nothing is written if nothing is.

        Raises:
            StatusError: nothing can be written now, or another client has written the same object at that moment.
        """
        found = await asyncio.gather(*map(self._kept, *zip(*self._expected(), strict=True)), return_exceptions=True)
        for problem in found:
            if isinstance(problem, BaseException):
                raise problem

    def _expected(self) -> Iterator[tuple[ServedKind, Mapping[str, Any]]]:
        yield from ((_ROLE, role) for role in default_roles())
        yield from ((_BINDING, binding) for binding in default_bindings())

    async def _kept(self, kind: ServedKind, expected: Mapping[str, Any]) -> None:
        object_id = ObjectId(kind.kind, "", expected["metadata"]["name"])
        shown = self._store.get(object_id)
        if shown is None:
            await self._writer.create(kind, dict(expected), _CALLER)
            return
        present = shown.document
        if is_left_alone(present):
            return
        wanted = _reconciled(kind, expected, present)
        if wanted is None:
            uid = str(present["metadata"].get("uid", ""))
            await self._writer.delete(kind, object_id, Preconditions(uid=uid), _CALLER)
            await self._writer.create(kind, dict(expected), _CALLER)
        elif wanted != present:
            await self._writer.change(kind, object_id, lambda _: wanted, "update", _CALLER)


def _reconciled(kind: ServedKind, expected: Mapping[str, Any], present: Mapping[str, Any]) -> Document | None:
    return reconciled_role(expected, present) if kind is _ROLE else reconciled_binding(expected, present)


_AGGREGATION: Final = Caller("moorage/cluster-roles")
_MANAGER: Final = "clusterrole-aggregation-controller"
"""The owner of the rules, as in Kubernetes, whose controller of that name applies them by server-side apply and takes
them over from others."""


class RoleAggregator(ObjectController):
    """Keeps the rules of aggregated ClusterRoles, as Kubernetes' controller of them does."""

    what = "cluster roles"

    def __init__(self, store: Store, writer: Writer, clock: Clock) -> None:
        self._clock = clock
        self._index = store.tables.index(AggregationIndex)
        super().__init__(store, writer, self._index.unsettled)

    @override
    async def run(self) -> None:
        self.applied()  # roles may have been written before
        await super().run()

    @override
    async def settle(self, name: str) -> str:
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
                "apiVersion": _ROLE.api_version,
                "kind": _ROLE.kind,
                "metadata": {"name": role.name},
                "rules": [rule.document() for rule in wanted],
            }

            def change(present: Document) -> Document:
                now = self._clock.now()
                return field_owners.management(_ROLE).applied(present, config, _MANAGER, now, force=True)

            await self._writer.change(_ROLE, role, change, "update", _AGGREGATION)
        return ""


_CLUSTER_SETS: Final = Caller("moorage/cluster-sets")
_SET: Final = "ManagedClusterSet"


class SetRoleKeeper(ObjectController):
    """Keeps the roles of sets as they should be."""

    what = "roles of cluster sets"
    passed_over = frozenset({"NotFound", "Conflict", "AlreadyExists"})

    def __init__(self, store: Store, writer: Writer) -> None:
        super().__init__(store, writer, store.tables.index(SetRoleIndex).unsettled)

    @override
    async def settle(self, name: str) -> str:
        declared = self._store.tables.resources.get(resource_key(_SET, "", name))
        if declared is not None and not is_marked(declared.object):
            for role in set_roles(name):
                await self._keep(_owned(role, declared))
        return ""

    async def _keep(self, wanted: Document) -> None:
        object_id = ObjectId(_ROLE.kind, "", wanted["metadata"]["name"])
        present = self._store.tables.resources.get(object_id.key)
        if present is None:
            await self._writer.create(_ROLE, wanted, _CLUSTER_SETS)
        elif not is_marked(present.object) and _with(present.object, wanted) != present.object:
            await self._writer.change(_ROLE, object_id, lambda shown: _with(shown, wanted), "update", _CLUSTER_SETS)


def _owned(role: Document, owner: ResourceDeclared) -> Document:
    reference = {
        "apiVersion": owner.object["apiVersion"],
        "kind": _SET,
        "name": owner.name,
        "uid": owner.uid,
    }
    return {**role, "metadata": {**role["metadata"], "ownerReferences": [reference]}}


def _with(role: Document, wanted: Document) -> Document:
    """Return a role with the rules, the labels and the owner that are wanted."""
    metadata = part(role, "metadata")
    labels = {**part(metadata, "labels"), **wanted["metadata"]["labels"]}
    owners = wanted["metadata"]["ownerReferences"]
    kept = [one for one in metadata.get("ownerReferences") or () if one.get("kind") != _SET]
    return {
        **role,
        "metadata": {**metadata, "labels": labels, "ownerReferences": [*kept, *owners]},
        "rules": wanted["rules"],
    }
