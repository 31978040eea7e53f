"""Keeps the number of nodes that each machine set requests: creates missing nodes and deletes surplus ones.

The nodes are counted again each time, so a gateway that starts after a crash finishes what another one began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from typing_extensions import override

from moorage.apiserver.admission.deletion import is_marked
from moorage.apiserver.controllers.object_controller import ObjectController
from moorage.apiserver.kinds import node
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.machines import MachineIndex, node_ready
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.rules import machine_sets
from moorage.apiserver.rules.machine_sets import Machine, marked
from moorage.apiserver.storage.store import Store
from moorage.apiserver.storage.tables import Tables
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Preconditions, Writer
from moorage_schemas.resource import ResourceDeclared, resource_key

_CALLER = Caller("moorage/machines")
_AT_ONCE = 100
_REMEMBERED = 10_000
_NODE = ServedKind(node.KIND, node.KIND.versions[0])
_GONE = frozenset({"NotFound", "Conflict", "AlreadyExists"})  # another write came first: check again


class MachineKeeper(ObjectController):
    """Reconciles machine sets in the background, one after the other."""

    what = "machine sets"

    def __init__(self, store: Store, writer: Writer) -> None:
        self._index = store.tables.index(MachineIndex)
        super().__init__(store, writer, self._index.unsettled)
        self._seen: dict[str, set[str]] = {}
        """The names that the nodes of each machine set have had while this process ran. New nodes get other names."""

    @override
    async def settle(self, name: str) -> str:
        uid, tables = name, self._store.tables
        key = self._index.machine_sets.get(uid)
        declared = tables.resources.get(key) if key is not None else None
        if declared is not None and is_marked(declared.object):
            return ""  # as with other controllers, its machines stay as they are until it is deleted
        present = _machines_of(uid, tables)
        plan = machine_sets.plan(machine_sets.wanted_replicas(declared.object) if declared is not None else 0, present)
        work: list[Awaitable[object]] = [self._remove(machine, uid) for machine in plan.remove[:_AT_ONCE]]
        if declared is not None and plan.make:
            names = self._names(declared, present, min(plan.make, _AT_ONCE))
            work += [self._make(declared, name) for name in names]
        if not present and declared is None:
            self._seen.pop(uid, None)
        if not work:
            return ""
        self._index.unsettled.add(uid)  # it is checked again after this
        return _worst(await asyncio.gather(*work, return_exceptions=True))

    def _names(self, declared: ResourceDeclared, present: Iterable[machine_sets.Machine], count: int) -> list[str]:
        seen = self._seen.setdefault(declared.uid, set())
        if len(seen) > _REMEMBERED:
            seen.clear()
        own = {machine.name for machine in present}
        seen |= own
        resources = self._store.tables.resources

        def taken(name: str) -> bool:
            return name in seen or resource_key("Node", "", name) in resources

        names = machine_sets.machine_names(declared.object, declared.version, own, taken, count)
        seen.update(names)
        return names

    async def _make(self, declared: ResourceDeclared, name: str) -> None:
        await self._writer.create(_NODE, machine_sets.new_node(declared.object, name), _CALLER)

    async def _remove(self, machine: machine_sets.Machine, uid: str) -> None:
        self._seen.setdefault(uid, set()).add(machine.name)
        await self._writer.delete(_NODE, ObjectId("Node", "", machine.name), Preconditions(uid=machine.uid), _CALLER)


def _worst(outcomes: Iterable[object]) -> str:
    """Return why the work failed, if the failure is permanent."""
    why = ""
    for outcome in outcomes:
        if isinstance(outcome, StatusError):
            why = why or ("" if outcome.reason in _GONE else outcome.message)
        elif isinstance(outcome, BaseException):
            raise outcome
    return why


def _machines_of(uid: str, tables: Tables) -> list[Machine]:
    """Return the nodes of a machine set, by name. Those that are being deleted do not count."""
    nodes = [tables.resources[key] for key in sorted(tables.index(MachineIndex).machines.get(uid, ()))]
    nodes = [node for node in nodes if node.mirrored is None and not is_marked(node.object)]
    return [
        Machine(
            name=node.name,
            uid=node.uid,
            created=str(node.object["metadata"].get("creationTimestamp", "")),
            ready=node_ready(node.name, tables),
            marked=marked(node.object),
        )
        for node in nodes
    ]
