"""Keeps `resources` like the cluster, through the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import structlog
from typing_extensions import override

from moorage.bridges.engine.batches import UNFIT_AGAIN, BatchSender
from moorage.bridges.engine.gateway_client import GatewayClient
from moorage.bridges.engine.metrics import MIRRORED
from moorage.bridges.engine.target_tables import TargetTables, digest_of
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.taint import Taint

_log = structlog.get_logger(__name__)

_REFUSED: Final = "Refused"
_LARGEST: Final = 4_000_000
"""Bytes of objects in a batch, half of what the gateway takes."""


_TARGETS: Final = frozenset(kind.value for kind in TargetKind)


def is_target(key: str) -> bool:
    """Return whether an object is a target. Those go first: all of their workloads may have to leave."""
    return ResourceKey.parse(key).kind in _TARGETS


class MirroredState(NamedTuple):
    """The last content that was sent of an object."""

    uid: str
    digest: bytes


class MirroredObjects:
    """Which objects are mirrored, by the records of this process: its requests, and the content of the topics.

    Args:
        tables: the content of the topics, with the mirrored objects.
        present: returns an object as it is to be mirrored. None if it is not in the cluster.
        keeps_taints: whether the cluster decides on the taints of its targets.
    """

    def __init__(
        self,
        source: str,
        tables: TargetTables,
        present: Callable[[str], dict[str, Any] | None],
        *,
        keeps_taints: bool = False,
    ) -> None:
        self._source = source
        self._tables = tables
        self._keeps_taints = keeps_taints
        self.present = present
        self._sent: dict[str, MirroredState] = {}
        self._sent_before: dict[str, MirroredState] = {}
        """The content of `_sent` at the last comparison with the topics."""

    def known(self, key: str) -> MirroredState | None:
        """Return what is mirrored of an object. None if it is not."""
        if (known := self._sent.get(key)) is not None:
            return known
        record = self._tables.resources.get(key)
        return (
            MirroredState(record.uid, record.digest) if record is not None and record.source == self._source else None
        )

    def has(self, key: str, uid: str) -> bool:
        """Return whether `resources` has an object with this uid."""
        known = self.known(key)
        return known is not None and known.uid == uid

    def state(self, key: str) -> MirroredState | None:
        """Return the content to send of an object now. None if it no longer exists."""
        found = self.present(key)
        return self.state_of(found) if found is not None else None

    def state_of(self, found: Mapping[str, Any]) -> MirroredState:
        """Return the content to send of an object."""
        taints = [Taint.model_validate(one) for one in (found.get("spec") or {}).get("taints") or ()]
        keeps = self._keeps_taints and found["kind"] in _TARGETS
        return MirroredState(str(found["metadata"].get("uid", "")), digest_of(found, taints, keeps_taints=keeps))

    def is_read(self, key: str, state: MirroredState | None) -> bool:
        """Return whether the topics have an object in this state, as far as this process has read them."""
        record = self._tables.resources.get(key)
        return state == (MirroredState(record.uid, record.digest) if record is not None else None)

    def note(self, key: str, state: MirroredState | None) -> None:
        """Note that an object was sent. None if it no longer exists."""
        if state is None:
            self._sent.pop(key, None)
        else:
            self._sent[key] = state

    def forget(self) -> None:
        """Compare all objects with the topics again, since another process may have sent others meanwhile."""
        self._sent.clear()

    def go_by_topics(self) -> None:
        """Forget what was sent before the last call. The topics have it, or something else that came later.

        Such as a batch of a process that was killed, which is carried out after the next process has sent newer ones.
        """
        for key, state in self._sent_before.items():
            if self._sent.get(key) is state:
                del self._sent[key]
        self._sent_before = dict(self._sent)

    def gone(self, kinds: frozenset[str], present: frozenset[str]) -> list[str]:
        """Return the keys of the objects of some kinds that are mirrored and no longer exist."""
        mirrored = {key for key, record in self._tables.resources.items() if record.source == self._source}
        return [key for key in {*mirrored, *self._sent} if ResourceKey.parse(key).kind in kinds and key not in present]


class MirrorSender(BatchSender):
    """A sender of the objects that differ from those sent last, and of deletions.

    Args:
        cluster: the name of the cluster. Empty for the home fleet.
        objects: the objects, and what is mirrored of them.
        sent: called with the keys of objects that `resources` has now.
        refused: called with the key of an object that cannot be mirrored, and the reason. Empty once it is mirrored.
        is_urgent: returns whether an object goes before others.
        pace: seconds between two batches of what is not urgent.
    """

    def __init__(
        self,
        source: str,
        cluster: str,
        *,
        gateway: GatewayClient,
        objects: MirroredObjects,
        sent: Callable[[Sequence[str]], None],
        refused: Callable[[str, str], None],
        is_urgent: Callable[[str], bool] = is_target,
        pace: float = 0.0,
    ) -> None:
        super().__init__("mirror", is_urgent, pace=pace)
        self._source = source
        self._cluster = cluster
        self._gateway = gateway
        self._objects = objects
        self._on_change = sent
        self._on_refusal = refused
        self._refused: set[str] = set()

    def forget(self) -> None:
        """Forget what was sent, and what is marked. Mark everything anew, in the order in which it is to be sent."""
        self._unmark_all()
        self._objects.forget()

    @override
    async def _send(self, keys: Sequence[str]) -> None:
        objects: list[dict[str, Any]] = []
        deleted: list[dict[str, str]] = []
        states: list[tuple[str, MirroredState | None]] = []
        gone: list[tuple[str, None]] = []
        size = 0
        for key in keys:
            known, found = self._objects.known(key), self._objects.present(key)
            if found is None:
                self._refused.discard(key)
                if known is not None:
                    kind, namespace, name, _ = ResourceKey.parse(key)
                    deleted.append({"kind": kind, "namespace": namespace, "name": name, "uid": known.uid})
                    gone.append((key, None))
                continue
            state = self._objects.state_of(found)
            if known == state:
                continue
            size += len(orjson.dumps(found))
            if size > _LARGEST and objects:
                self.mark(key)  # with the next batch
                continue
            objects.append(found)
            states.append((key, state))
        if not objects and not deleted:
            return
        results = await self._gateway.mirror(self._source, self._cluster, objects, deleted)
        self._note([*states, *gone], results)

    def _note(self, states: Sequence[tuple[str, MirroredState | None]], results: Sequence[dict[str, Any]]) -> None:
        """Note what became of a batch."""
        refused: list[str] = []
        there: list[str] = []
        for (key, state), result in zip(states, results, strict=True):
            outcome = str(result.get("outcome"))
            MIRRORED.labels(outcome).inc()
            if outcome == _REFUSED:
                why = str(result.get("message") or "")
                _log.warning("bridge.object_refused", key=key, why=why)
                refused.append(key)
                self._skipped(key, why)
                continue
            if key in self._refused:
                self._refused.discard(key)
                self._on_refusal(key, "")
            self._objects.note(key, state)
            if state is not None:
                there.append(key)
        if refused:
            self.mark_later(refused, UNFIT_AGAIN)
        if there:
            self._on_change(there)

    @override
    def _skipped(self, key: str, why: str) -> None:
        self._refused.add(key)
        self._on_refusal(key, why)
