"""The taints of a target as a bridge writes them: one list, which others write, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import structlog

from moorage.bridges.engine.contention import Contention
from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.engine.seen_target import TAINTS_ANNOTATION, Identity, SeenTarget, identity_of, noted
from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import MERGE_PATCH, KubeClient
from moorage_schemas.taint import TaintRecord

_log = structlog.get_logger(__name__)

_TRIES: Final = 4  # times that a list of taints is read and written anew when somebody else was faster

JsonObject = dict[str, Any]
Written = Callable[[TaintRecord, Mapping[str, Any] | None], JsonObject]
"""Returns a taint as it is to be written, if it is there (the second argument) or new (None)."""


Target = TypeVar("Target", bound=SeenTarget)


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
    """Write the taints of a target, and anew when somebody else was faster.

    Args:
        client: of the cluster.
        target: as it was last seen.
        path: of the target.
        patch: returns what is to be written (`taints_patch`). None for nothing.
        read: reads the target from an answer.
        written: takes the answer to a write. Returns the target if it has to be compared once more.
        undone: says when to write again, by the name of the target, what somebody else has undone.

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
    """Send a patch, and return the answer. None if somebody else was faster."""
    try:
        found = await client.request("PATCH", path, body=wanted, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status == CONFLICT:
            ACTS.labels("taint", "conflict").inc()
            return None
        if error.status != NOT_FOUND:
            ACTS.labels("taint", "failed").inc()
        raise
    ACTS.labels("taint", "done").inc()
    return found


def with_its_time(taint: TaintRecord, _: Mapping[str, Any] | None) -> JsonObject:
    """Return a taint with its time, for an API server that stores what it is given."""
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect, "timeAdded": stored_time(taint)}


def stored_time(taint: TaintRecord) -> str:
    """Return the time of a taint as an API server stores it, in whole seconds."""
    return taint.time_added.strftime("%Y-%m-%dT%H:%M:%SZ")


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

    Args:
        target: as it was read.
        wanted: the taints that Moorage gives it.
        managed: the taints on it that may be removed.
        written: how a taint is written.
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
    """What has to be equal of taints: their values and times, in any order."""
    return {identity_of(one): (str(one.get("value") or ""), str(one.get("timeAdded") or "")) for one in taints}
