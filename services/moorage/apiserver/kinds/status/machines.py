"""Which nodes each machine set has made, and which of them are ready."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index, Unsettled
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.apiserver.rules.machine_sets import KIND, owner_uid
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.resource import ResourceDeclared

_SET = f"{KIND}/"
_NODE = "Node/"
_READY = "|Ready"


def node_ready(name: str, records: Records) -> str:
    """Return the status of the condition `Ready` of a declared node. Empty if it is unreported."""
    condition, node = records.conditions.one(f"Node/{name}", "Ready"), records.resources.get(f"Node//{name}")
    own = condition is not None and node is not None and condition.target_uid in {"", node.uid}
    return condition.status.value if condition is not None and own else ""


class MachineIndex(Index):
    """Machine sets by their uids, with their nodes. Deleted sets keep their nodes."""

    topics = ("resources", "conditions")

    def __init__(self) -> None:
        self.machine_sets: dict[str, str] = {}
        """The record key of each machine set, by its uid."""

        self.machines = Groups()
        """The record keys of the nodes of each machine set, by the set's uid."""

        self.ready_machines = Groups()
        """The nodes among them that are ready."""

        self.unsettled = Unsettled()
        """The uids of machine sets that something has changed about."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "conditions":
            return self._condition(key, records) if key.endswith(_READY) and key.startswith(_NODE) else ()
        if key.startswith(_NODE):
            return self._node(key, before, after, records)
        if key.startswith(_SET):
            self._machine_set(key, before, after)
        return ()

    def _machine_set(self, key: str, before: ResourceDeclared | None, after: ResourceDeclared | None) -> None:
        for declared in (before, after):
            if declared is not None:
                self.machine_sets.pop(declared.uid, None)
                self.unsettled.add(declared.uid)
        if after is not None:
            self.machine_sets[after.uid] = key

    def _node(
        self, key: str, before: ResourceDeclared | None, after: ResourceDeclared | None, records: Records
    ) -> Iterable[ObjectId]:
        old, new = (owner_uid(declared.object) if declared is not None else "" for declared in (before, after))
        if old and old != new:
            self.machines.discard(old, key)
            self.ready_machines.discard(old, key)
        if new:
            self.machines.add(new, key)
            self._count_ready(new, key, records)
        touched = {old, new} - {""}
        self.unsettled.update(sorted(touched))
        return [shown for uid in touched for shown in self._shown(uid)]

    def _condition(self, key: str, records: Records) -> Iterable[ObjectId]:
        name = key.removeprefix(_NODE).removesuffix(_READY)
        node = records.resources.get(f"{_NODE}/{name}")
        uid = owner_uid(node.object) if node is not None else ""
        return self._shown(uid) if node is not None and uid and self._count_ready(uid, node.key, records) else ()

    def _count_ready(self, uid: str, key: str, records: Records) -> bool:
        """Record whether a node of a machine set is ready, and return whether that has changed."""
        before = key in self.ready_machines.get(uid, ())
        now = node_ready(ObjectId.of(key).name, records) == ConditionStatus.TRUE
        self.ready_machines.keep(uid, key, there=now)
        return now != before

    def _shown(self, uid: str) -> Iterable[ObjectId]:
        """Return the machine set of a uid, if it is there."""
        key = self.machine_sets.get(uid)
        return (ObjectId.of(key),) if key is not None else ()
