"""Requests to evict a pod. They are granted only as far as disruption budgets allow (docs/domain.md, "Pod evictions").

Requests of a namespace are decided one after the other. Each is written, and read back, before the next is decided. So
several at once cannot pass one budget, and a gateway that starts after a crash counts those that are under way too.
"""

from __future__ import annotations

from typing import Any, Final

from moorage.apiserver.admission.deletion import DeleteOptions, is_marked
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.pod import KIND
from moorage.apiserver.kinds.status.disruption import allowed_now, is_unhealthy, selecting
from moorage.apiserver.kinds.status.namespaces import NAMESPACE
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import Cause, StatusError
from moorage.apiserver.storage.store import FleetObjects
from moorage.apiserver.writing.object_records import Caller, ObjectLocks
from moorage.apiserver.writing.writer import Preconditions, Writer
from moorage.decide.disruption.budgets import is_undisrupted
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.refs import TargetKind

_POD: Final = ServedKind(KIND, KIND.versions[0])


class Evictions:
    """Evicts pods on request."""

    def __init__(self, store: FleetObjects, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._locks = ObjectLocks()

    async def evict(
        self,
        object_id: ObjectId,
        preconditions: Preconditions,
        caller: Caller,
        *,
        options: DeleteOptions,
        dry_run: bool = False,
    ) -> None:
        """Delete a pod, if the disruption budgets that select it allow that.

        Raises:
            StatusError: 404 if there is no such pod, 429 if a budget does not allow it now, 500 if several budgets
                select it, and those of a deletion.
        """
        async with self._locks.held(ObjectId(NAMESPACE, "", object_id.namespace)):
            shown = self._store.get(object_id)
            if shown is None:
                raise api_errors.not_found("", KIND.plural, object_id.name)
            self._writer.check_own(_POD, object_id)
            self._check_budgets(object_id, shown.document)
            await self._writer.delete(_POD, object_id, preconditions, caller, options=options, dry_run=dry_run)

    def _check_budgets(self, object_id: ObjectId, pod: dict[str, Any]) -> None:
        node = at(pod, "spec", "nodeName")
        phase = str(at(pod, "status", "phase") or "")
        if is_undisrupted(phase, is_marked=is_marked(pod), bound=bool(node), mirrored=False):
            return
        tables = self._store.tables
        guards = selecting(object_id.key, at(pod, "metadata", "labels") or {}, tables)
        if len(guards) > 1:
            raise StatusError(
                500,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                reason=None,
            )
        for guard in guards:
            now = allowed_now(guard, tables)
            binding = f"{object_id.key}|{TargetKind.NODE.value}/{node}"
            unhealthy = is_unhealthy(binding, object_id.namespace, tables)
            if not now.lets_go(unhealthy=unhealthy, always=guard.always_allow_unhealthy):
                raise _refused(now.refusal(guard.key.rpartition("/")[2]))


def _refused(why: str) -> StatusError:
    return StatusError(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        reason="TooManyRequests",
        causes=[Cause("DisruptionBudget", why)],
    )
