"""The loop of a bridge: what has changed, in the cluster or in the topics, is mirrored, reported and acted on.

Targets, and all else that decisions rest on, are mirrored first, and what is placed on them last. What was decided
while targets are still on their way would lose those.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import structlog

from moorage.bridges.engine.acts import ActQueue, Contention
from moorage.bridges.engine.batches import BatchSender
from moorage.bridges.engine.cluster_events import EventSender, Regarding, contradicted
from moorage.bridges.engine.gateway_client import GatewayClient
from moorage.bridges.engine.mirror import MirroredObjects, MirrorSender, is_target
from moorage.bridges.engine.observations import TargetObservations
from moorage.bridges.engine.plan import Act, BridgePlan, Link
from moorage.bridges.engine.reports import Reports
from moorage.bridges.engine.seen_state import SeenState
from moorage.bridges.engine.silence import Leases
from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kube.client import KubeClient
from moorage.bridges.kube.election import Election
from moorage.runtime.process.clock import WallClock
from moorage_schemas.keys import ResourceKey

_log = structlog.get_logger(__name__)

_CHECK_EVERY: Final = 0.2  # seconds between two questions whether the fleet is known
PATIENCE: Final = 30.0  # seconds after which unknown objects are logged
_NAMED: Final = 10  # how many are named then
_SHOWN_TEXT: Final = 80


class FleetGate:
    """A gate that is closed until the topics contain everything that the cluster had at the beginning.

    What comes later need not be waited for: to a decision it is something new.

    Args:
        may_send: returns whether this process sends. While it does not, nothing is waited for.
        unknown: returns a function over the present objects, which names those that are not known yet.
        opened: called when the gate opens.
        patience: seconds after which it opens although something is not known. None waits for ever.
    """

    def __init__(
        self,
        may_send: Callable[[], bool],
        unknown: Callable[[], Callable[[], Sequence[str]]],
        opened: Callable[[], None],
        *,
        patience: float | None = PATIENCE,
    ) -> None:
        self._may_send = may_send
        self._unknown = unknown
        self._opened = opened
        self._patience = patience
        self._closed = asyncio.Event()
        self._closed.set()

    @property
    def is_open(self) -> bool:
        """Whether the fleet is known."""
        return not self._closed.is_set()

    def close(self) -> None:
        """Begin anew, since another process may have sent something else meanwhile."""
        self._closed.set()

    async def run(self) -> None:
        """Open the gate each time that it is closed, until cancelled."""
        while True:
            await self._closed.wait()
            began, is_told = asyncio.get_running_loop().time(), False
            unknown = self._unknown()
            while self._closed.is_set():
                if not self._may_send():
                    began, unknown = asyncio.get_running_loop().time(), self._unknown()
                elif not (waits := unknown()):
                    self._closed.clear()
                    break
                elif asyncio.get_running_loop().time() - began >= PATIENCE:
                    if not is_told:
                        _log.warning("bridge.fleet_not_known", waits_for=list(waits[:_NAMED]))
                        is_told = True
                    if self._patience is not None:
                        self._closed.clear()
                        break
                await asyncio.sleep(_CHECK_EVERY)
            self._opened()


class BridgeOutlets(Generic[Act]):
    """The connections of a bridge."""

    def __init__(
        self,
        plan: BridgePlan[Act],
        state: SeenState[Any],
        tables: TargetTables,
        leases: Leases,
        *,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self.plan = plan
        self.leases = leases
        self.client = client
        self.gateway = gateway
        self.objects = MirroredObjects(plan.source, tables, state.object, keeps_taints=plan.keeps_taints)
        self.events = EventSender(client.beside())
        self.queues = {act: ActQueue(act, lambda: client.room) for act in plan.acts}
        """The pending writes of each act that the bridge has."""

    def contention(self, act: Act, written: str, about: Callable[[str], Regarding | None]) -> Contention:
        """Return the contention of an act, which notices that another controller reverts its writes.

        Args:
            act: the act.
            written: what it writes, in words.
            about: returns the object to which it writes under a key. None if it no longer exists.
        """

        def later(key: str, seconds: float) -> None:
            self.queues[act].add_later(key, seconds)

        def noticed(key: str) -> None:
            if (found := about(key)) is not None:
                self.events.tell(contradicted(found, written))

        return Contention(act, later, noticed)


class BridgeLeadership:
    """Whether this process may send and act. Of several bridges one may.

    A bridge without acts needs no right to write to its cluster, so it has no Lease there and is always allowed.

    Args:
        link: has the namespace of the Lease.
        is_acting: whether the bridge has acts.
        begins: called when this process begins to lead.
    """

    def __init__(
        self, client: KubeClient, link: Link, name: str, *, is_acting: bool, begins: Callable[[], None]
    ) -> None:
        self._begins = begins
        self._leading = asyncio.Event()
        self._election = (
            Election(
                client.beside(),
                namespace=link.lease_namespace,
                name=name,
                identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
                duration=link.lease_duration,
                on_change=self._changed,
            )
            if is_acting
            else None
        )
        if self._election is None:
            self._leading.set()

    @property
    def may_send(self) -> bool:
        """Whether this process may send to the gateway."""
        return self._leading.is_set()

    @property
    def may_act(self) -> bool:
        """Whether this process may write to the cluster now."""
        return self._election is not None and self._election.leading

    def checked(self, work: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        """Return an act that is only done while this process may.

        It raises `OSError` while a leader is not sure to hold the Lease, because a renewal is late. An
        act that was only left out would be lost: no process begins to lead when the renewal comes after all.
        """

        async def act(key: str) -> None:
            if self.may_act:
                await work(key)
            elif self.may_send:
                raise OSError("the Lease of this bridge is not renewed yet")

        return act

    async def run(self) -> None:
        """Take part in the election until cancelled, and give the Lease back."""
        if self._election is None:
            return
        try:
            await self._election.run()
        finally:
            await asyncio.shield(self._election.release())

    async def send(self, *senders: BatchSender) -> None:
        """Mirror and report while this process leads. One that waits reads alone."""
        while True:
            await self._leading.wait()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(sender.run()) for sender in senders]
                while self._leading.is_set():  # noqa: ASYNC110 - the leader changes seldom
                    await asyncio.sleep(0.5)
                for task in tasks:
                    task.cancel()

    def _changed(self, leading: bool) -> None:  # noqa: FBT001 - a value that states what happened, not a switch
        if leading:
            self._leading.set()
            self._begins()
        else:
            self._leading.clear()


_RESYNC: Final = 60.0  # seconds between two comparisons of everything

State = TypeVar("State", bound=SeenState[Any])
Work = Coroutine[Any, Any, None]


class BridgeLoop(ABC, Generic[Act, State]):
    """The parts of a bridge that send and act, once the cluster and the topics are known.

    Args:
        outlets: what it sends and writes by.
        works: what each act does for a key.
    """

    def __init__(
        self,
        state: State,
        outlets: BridgeOutlets[Act],
        *,
        observations: TargetObservations[Any, Any],
        works: Mapping[Act, Callable[[str], Awaitable[None]]],
    ) -> None:
        plan = self._plan = outlets.plan
        self._state = state
        self._leases = outlets.leases
        self._objects = outlets.objects
        self._events = outlets.events
        if outlets.plan.acts:  # otherwise it only reads
            state.skips.tell(outlets.events.tell)
        self._queues = outlets.queues
        self._works = works
        self._observations = observations
        self.mirror = MirrorSender(
            plan.source,
            plan.cluster,
            gateway=outlets.gateway,
            objects=outlets.objects,
            sent=self._mirrored,
            refused=self._not_mirrored,
            is_urgent=self._is_urgent,
            pace=plan.pace,
        )
        self.reports = Reports(
            plan.source,
            outlets.gateway,
            WallClock(),
            observations.present,
            observations.is_known,
            is_urgent=observations.is_urgent,
        )
        self.leadership = BridgeLeadership(
            outlets.client, plan.link, plan.lease, is_acting=bool(plan.acts), begins=self.begin
        )
        self.gate = FleetGate(
            lambda: self.leadership.may_send, self._unknown, self._fleet_known, patience=plan.patience
        )

    def tasks(self) -> list[Work]:
        """Return what runs until the bridge is stopped."""
        checked = self.leadership.checked
        queues = [queue.run(checked(self._works[act])) for act, queue in self._queues.items()]
        sending = self.leadership.send(self.mirror, self.reports)
        return [sending, self.leadership.run(), self._events.run(), self.gate.run(), self._resync(), *queues]

    def begin(self) -> None:
        """Begin, or begin anew when this process leads: another one may have sent and written something else meanwhile.

        Targets that were reported as silent stay so until they show a sign of life. Otherwise each restart would make
        them ready for a grace period.
        """
        self.mirror.forget()
        self.reports.forget_all()
        self._leases.silence(filter(self._observations.was_silent, self._state.targets))
        self.gate.close()
        for name in self._state.targets:
            self._note_odd(name)
        self.compare_everything()

    # What changes, in the cluster and in the topics.

    def seen(self, kind: str, key: str) -> None:
        """Note that an object of the cluster has changed."""
        if self._is_due(key):
            self.mirror.mark(key)
        if kind == self._plan.target:
            name = ResourceKey.parse(key).name
            self._note_odd(name)
            self.target_changed(name)
        elif kind in self._plan.work:
            self.work_changed(key)

    def touched(self, kind: str, key: str) -> None:
        """Note a change in the topics about a target, by its name, or about something else, by its key."""
        if kind == self._plan.target:
            self._act(key, *self._plan.target_acts)
        else:
            self.work_changed(key)

    def target_changed(self, name: str) -> None:
        """Note that a target has changed, has fallen silent, or speaks again."""
        self.reports.mark(*self._observations.of_target(name))
        self._act(name, *self._plan.target_acts)

    @abstractmethod
    def work_changed(self, key: str) -> None:
        """Note that something has changed of what is placed on targets, or is known of it. It may be gone."""

    def compare_everything(self) -> None:
        """Compare all that was seen with the content of the topics."""
        present = self._state.keys
        due = sorted(filter(self._is_due, present), key=self._rank)
        self.mirror.mark(*self._objects.gone(self._plan.mirrored, present), *due)
        for name in self._state.targets:
            self.target_changed(name)
        for key in self._work():
            self.work_changed(key)

    # What kinds of clusters differ in.

    @abstractmethod
    def _work(self) -> Collection[str]:
        """Return the keys of what is placed on targets."""

    def _is_known(self, name: str) -> bool:
        """Return whether the topics contain what was seen of a target, and what follows; or it was deleted."""
        target = self._state.targets.get(name)
        return target is None or self._observations.is_settled(target)

    def _is_urgent(self, key: str) -> bool:
        """Return whether an object goes before others."""
        return is_target(key)

    def _is_due(self, key: str) -> bool:
        """Return whether an object is to be mirrored now. Work comes after everything that decisions rest on."""
        return self.gate.is_open or not self._is_placed(key)

    def _fleet_known(self) -> None:
        """Mirror what is placed, and act on it."""
        self.mirror.mark(*filter(self._is_placed, self._state.keys))
        for key in self._work():
            self.work_changed(key)

    def _others_unknown(self) -> Callable[[], list[str]]:
        """Return what names the objects of now, beside targets, that are to be known first and are not yet.

        These are all that are not placed.
        """
        first = [key for key in self._state.keys if not self._is_placed(key)]
        return lambda: first[:1] if self.mirror.is_waiting(first) else []

    def _target(self, name: str) -> Regarding | None:
        """Return the name of a target in events. None if it does not exist."""
        target = self._state.targets.get(name)
        return target.about if target is not None else None

    # What it does.

    def _act(self, key: str, *acts: Act) -> None:
        if not self.leadership.may_send:
            return
        for act in acts:
            if act in self._queues and (act not in self._plan.held_acts or self.gate.is_open):
                self._queues[act].add(key)

    def _unknown(self) -> Callable[[], list[str]]:
        """Return what names the present targets that the topics do not contain yet, and then others."""
        names, others = list(self._state.targets), self._others_unknown()
        return lambda: [name for name in names if not self._is_known(name)] or others()

    def _mirrored(self, keys: Sequence[str]) -> None:
        """Report on what can be reported on now."""
        for kind, _, name, _ in map(ResourceKey.parse, keys):
            if kind == self._plan.target:
                self.reports.mark(*self._observations.of_target(name))

    def _not_mirrored(self, key: str, why: str) -> None:
        """Note that an object cannot be mirrored. Without a reason, it is mirrored after all."""
        if (found := self._state.object(key)) is not None:
            message = f"Moorage cannot mirror this object, and decides without it: {why}" if why else ""
            self._state.skips.note(Regarding.of(found), "mirror", message)

    def _note_odd(self, name: str) -> None:
        """Note the conditions of a target that cannot be reported."""
        if (target := self._state.targets.get(name)) is not None:
            self._state.skips.note(target.about, "condition", _odd(target.odd_conditions))

    def _is_placed(self, key: str) -> bool:
        return ResourceKey.parse(key).kind in self._plan.work

    def _rank(self, key: str) -> int:
        """Return the order in which objects are mirrored: targets, then others, then what is placed on them."""
        kind = ResourceKey.parse(key).kind
        return 0 if kind == self._plan.target else 2 if kind in self._plan.work else 1

    def _report_keys(self) -> Iterable[str]:
        for name in self._state.targets:
            yield from self._observations.of_target(name)
        for key in self._work():
            yield from self._observations.of_work(key)

    async def _resync(self) -> None:
        """Compare everything now and then, until cancelled.

        A report that the topics do not have is sent again: it may have been refused after it was accepted. So is an
        object of which the topics have something else.
        """
        while True:
            await asyncio.sleep(_RESYNC)
            for key in self._report_keys():
                report = self.reports.sent(key)
                if (
                    report is not None
                    and not self._observations.is_known(key, report)
                    and not self._observations.is_taken_over(key)
                ):
                    self.reports.forget(key)
            self.reports.forget_ended()
            self._objects.go_by_topics()
            self.compare_everything()


def _odd(conditions: Collection[str]) -> str:
    """Return the message about conditions that cannot be reported. Empty if there are none."""
    if not conditions:
        return ""
    shown = ", ".join(
        one if len(one) <= _SHOWN_TEXT else f"{one[:_SHOWN_TEXT]}…" for one in sorted(conditions)[:_NAMED]
    )
    return f"Moorage does not report these conditions, because of their type or status: {shown}"
