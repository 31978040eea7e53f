"""The taints of a target as a bridge writes them: one list, which others also write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Generic, TypeVar

import structlog

from moorage.bridges.engine.acts import Contention, outcome_of, stored_time
from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.engine.seen_target import TAINTS_ANNOTATION, Identity, SeenTarget, identity_of, noted
from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import MERGE_PATCH, JsonObject, KubeClient
from moorage_schemas.taint import TaintRecord

_log = structlog.get_logger(__name__)

_TRIES: Final = 4  # times that a list of taints is read and written anew when another writer was faster

Written = Callable[[TaintRecord, Mapping[str, Any] | None], JsonObject]
"""Returns a taint as it is to be written, if it exists (the second argument) or is new (None)."""


Target = TypeVar("Target", bound=SeenTarget)


@dataclass(eq=False)
class TaintActs(ABC, Generic[Target]):
    """The writer of the taints that the topics determine to targets.

    Attributes:
        target: returns a target as it was last seen. None if it does not exist.
        seen: takes a target as the cluster has answered, which is faster than the watch.
        is_settled: returns whether the topics contain what was seen of a target.
        undone: decides when to write taints again that another controller has reverted.
    """

    client: KubeClient
    tables: TargetTables
    target: Callable[[str], Target | None]
    _: KW_ONLY
    seen: Callable[[JsonObject], None]
    is_settled: Callable[[Target], bool]
    undone: Contention

    async def taint(self, name: str) -> None:
        """Give a target its taints.

        Raises:
            ApiError: the cluster refuses.
            OSError: it cannot be reached.
        """
        target = self.target(name)
        if target is None:
            self.undone.gone(name)
        elif self.is_settled(target):
            await self._write(target)

    async def _write(self, target: Target) -> None:
        await write_taints(
            self.client,
            target,
            path=self.path(target.name),
            patch=self._patch,
            read=self._read,
            written=lambda found: self._written(target, found),
            undone=self.undone,
        )

    def _patch(self, target: Target) -> JsonObject | None:
        """Return the patch that a target needs. None if it has its taints, or nothing is known of it."""
        wanted = self.tables.own_taints(target.name, target.uid) if not target.leaving else None
        if wanted is None:
            return None
        return taints_patch(target, wanted, managed=target.managed_taints, written=self.as_written)

    @staticmethod
    def as_written(taint: TaintRecord, present: Mapping[str, Any] | None) -> JsonObject:
        """Return a taint as it is written if it exists already (`present`) or is new (None)."""
        return with_its_time(taint, present)

    @staticmethod
    @abstractmethod
    def path(name: str) -> str:
        """Return the path of a target."""

    @staticmethod
    @abstractmethod
    def _read(found: JsonObject) -> Target:
        """Read a target from an answer."""

    def _written(self, before: Target, found: JsonObject) -> Target | None:  # noqa: ARG002 - for events about it
        """Take the answer to a write. Return the target if it has to be compared once more."""
        self.seen(found)
        return None


async def write_taints(
    client: KubeClient,
    target: Target,
    *,
    path: str,
    patch: Callable[[Target], JsonObject | None],
    read: Callable[[JsonObject], Target],
    written: Callable[[JsonObject], Target | None],
    undone: Contention | None = None,
) -> None:
    """Write the taints of a target, and anew when another writer was faster.

    Args:
        client: of the cluster.
        target: as it was last seen.
        path: of the target.
        patch: returns what is to be written (`taints_patch`). None for nothing.
        read: reads the target from an answer.
        written: takes the answer to a write. Returns the target if it has to be compared once more.
        undone: decides when to write again, by the name of the target, what another controller has reverted.

    Raises:
        ApiError: the cluster refuses.
        OSError: it cannot be reached, or others change the taints all the time.
    """
    for _ in range(_TRIES):
        if (wanted := patch(target)) is None:
            return
        taints = frozenset(map(identity_of, wanted["spec"]["taints"]))
        # Times of taints, and the note, may change alone.
        contested = undone if taints != frozenset(map(identity_of, target.taints)) else None
        if contested is not None and contested.holds(target.name, taints):
            return
        try:
            found = await _write(client, path, wanted)
            if found is None:
                target = read(await client.get(path))
                continue
        except ApiError as error:
            if error.status == NOT_FOUND:
                return
            raise
        _log.info("bridge.tainted", target=target.name, taints=sorted(taints))
        if contested is not None:
            contested.written(target.name, taints)
        if (again := written(found)) is None:
            return
        target = again
    raise OSError(f"{target.name}: its taints were changed by others {_TRIES} times meanwhile")


async def _write(client: KubeClient, path: str, wanted: JsonObject) -> JsonObject | None:
    """Send a patch, and return the answer. None if another writer was faster."""
    try:
        found = await client.request("PATCH", path, body=wanted, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status == CONFLICT:
            ACTS.labels("taint", "conflict").inc()
            return None
        if error.status != NOT_FOUND:
            ACTS.labels("taint", outcome_of(error)).inc()
        raise
    ACTS.labels("taint", "done").inc()
    return found


def with_its_time(taint: TaintRecord, _: Mapping[str, Any] | None) -> JsonObject:
    """Return a taint with its time, for an API server that stores what it is given."""
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect, "timeAdded": stored_time(taint.time_added)}


def taints_patch(
    target: SeenTarget,
    wanted: Iterable[TaintRecord],
    *,
    managed: frozenset[Identity],
    written: Written = with_its_time,
) -> JsonObject | None:
    """Return the merge patch with which a target gets the taints of Moorage. None if it has them.

    The list is written whole and with the version that it was read at, because the API server keeps it as one value.
    The taints of others stay as they are and where they are.
    """
    others = [one for one in target.taints if identity_of(one) not in managed]
    theirs = {identity_of(one) for one in others}
    present = {identity_of(one): one for one in target.taints if identity_of(one) in managed}
    mine = [written(taint, present.get(taint.identity)) for taint in wanted if taint.identity not in theirs]
    if _compared(mine) == _compared(present.values()) and target.own_taints == {identity_of(one) for one in mine}:
        return None
    return {
        "metadata": {
            "uid": target.uid,
            "resourceVersion": target.version,
            "annotations": {TAINTS_ANNOTATION: noted(mine)},
        },
        "spec": {"taints": [*others, *mine]},
    }


def _compared(taints: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what has to be equal of taints: their values and times, in any order."""
    return {identity_of(one): (str(one.get("value") or ""), str(one.get("timeAdded") or "")) for one in taints}
