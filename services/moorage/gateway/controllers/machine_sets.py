"""Keeps the number of nodes that each machine set requests: creates missing nodes and deletes surplus ones.

The nodes are counted again each time, so a gateway that starts after a crash finishes what another one began.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable

import structlog

from moorage.core.admission import machine_sets
from moorage.core.admission.machine_sets import Machine, marked
from moorage.gateway.admission.deletion import is_marked
from moorage.gateway.errors import StatusError
from moorage.gateway.store import Store
from moorage.gateway.tables import Tables
from moorage.gateway.writer import Caller, Preconditions, Writer
from moorage.kinds import node
from moorage.kinds.kind import ServedKind
from moorage.kinds.status.machines import MachineIndex, node_ready
from moorage.kinds.status.records import ObjectId
from moorage_schemas.resource import ResourceDeclared, resource_key

_log = structlog.get_logger(__name__)

_CALLER = Caller("moorage/machines")
_PAUSE = 1.0  # seconds before a machine set that could not be reconciled is tried again
_AT_ONCE = 100
_REMEMBERED = 10_000
_NODE = ServedKind(node.KIND, node.KIND.versions[0])
_GONE = frozenset({"NotFound", "Conflict", "AlreadyExists"})  # another write came first: check again


class MachineKeeper:
    """Reconciles machine sets in the background, one after the other.

    Args:
        store: the present objects.
        writer: creates and deletes nodes in the same way as people's writes.
    """

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._index = store.tables.index(MachineIndex)
        self._wake = asyncio.Event()
        self._seen: dict[str, set[str]] = {}
        """The names that the nodes of each machine set have had while this process ran. New nodes get other names."""

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self._index.unsettled)

    def applied(self) -> None:
        """Note that records have been applied. Machine sets that they have changed are reconciled."""
        if self._index.unsettled:
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        said = ""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE if said else None):
                    await self._wake.wait()
            self._wake.clear()
            failures = await self._settle_all()
            why = failures[0] if failures else ""
            if why and why != said:
                _log.warning("gateway.machine_sets_not_reconciled", machine_sets=len(failures), why=why)
            said = why

    async def _settle_all(self) -> list[str]:
        """Reconcile every machine set that has changed. Returns the reasons for failures."""
        unsettled = self._index.unsettled
        failed: dict[str, str] = {}
        while self._store.ready and (waiting := sorted(unsettled - failed.keys())):
            for uid in waiting:
                unsettled.discard(uid)
                try:
                    why = await self._settle(uid)
                except Exception as error:  # noqa: BLE001 - one machine set must not stop the others, and is tried again
                    _log.exception("gateway.machine_set_failed", uid=uid)
                    why = repr(error)
                if why:
                    failed[uid] = why
                    unsettled.add(uid)
        return list(failed.values())

    async def _settle(self, uid: str) -> str:
        """Bring one machine set to its number. Returns why that failed, or an empty text."""
        tables = self._store.tables
        key = self._index.machine_sets.get(uid)
        declared = tables.resources.get(key) if key is not None else None
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
    """Why the work failed, if the failure is permanent.

    Raises:
        BaseException: a failure that is not a refusal.
    """
    why = ""
    for outcome in outcomes:
        if isinstance(outcome, StatusError):
            why = why or ("" if outcome.reason in _GONE else outcome.message)
        elif isinstance(outcome, BaseException):
            raise outcome
    return why


def _machines_of(uid: str, tables: Tables) -> list[Machine]:
    """The nodes of a machine set, by name. Those that are being deleted do not count."""
    nodes = [tables.resources[key] for key in sorted(tables.index(MachineIndex).machines.get(uid, ()))]
    nodes = [node for node in nodes if not is_marked(node.object)]
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
