"""Keeps the templates that controllers have had: replica sets of deployments, and revisions of the others.

What is kept is compared with the controller each time, so a gateway that starts after a crash finishes what another one
began, and a fleet from a time without them gets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.admission.deletion import BACKGROUND_POLICY, DeleteOptions, is_marked
from moorage.apiserver.controllers.object_controller import ObjectController
from moorage.apiserver.kinds import pod_controllers, stored
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.controllers import OwnerIndex
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.kinds.status.rollouts import (
    DESIRED,
    MOST,
    REPLICA_SET,
    REVISION,
    RolloutIndex,
    controller_key,
    of_template,
    wanted_replicas,
)
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.workloads import TEMPLATE_HASH_LABEL, template_hash
from moorage_schemas.resource import ResourceDeclared

_CALLER: Final = Caller("moorage/rollouts")
_LIMIT: Final = 10  # templates beside the present one, unless `spec.revisionHistoryLimit` is set
_NOT_CARRIED: Final = frozenset(
    {REVISION, DESIRED, MOST, "kubectl.kubernetes.io/last-applied-configuration", "deprecated.deployment.rollback.to"}
)
_SETS: Final = ServedKind(pod_controllers.REPLICA_SET, pod_controllers.REPLICA_SET.versions[0])
_REVISIONS: Final = ServedKind(stored.CONTROLLER_REVISION, stored.CONTROLLER_REVISION.versions[0])

Document = dict[str, Any]


class RolloutKeeper(ObjectController):
    """Looks at the controllers about which something has changed, a number of them at a time."""

    what = "controllers with templates"
    at_once = 32
    # A template that was written past the gateway may be invalid. What keeps it has the annotations that it has.
    passed_over = frozenset({"NotFound", "Conflict", "AlreadyExists", "Forbidden", "Invalid"})

    def __init__(self, store: Store, writer: Writer) -> None:
        self._index = store.tables.index(RolloutIndex)
        super().__init__(store, writer, self._index.unsettled)

    @override
    async def settle(self, name: str) -> str:
        declared = self._store.tables.resources.get(name)
        if declared is not None and declared.mirrored is None and not is_marked(declared.object):
            await self._keep(ObjectId.of(name), declared)
        return ""

    async def _keep(self, owner: ObjectId, declared: ResourceDeclared) -> None:
        resources = self._store.tables.resources
        hashed = template_hash(at(declared.object, "spec", "template") or {})
        kept = [
            found
            for key in sorted(self._index.kept.get(owner.key, ()))
            if (found := resources.get(key)) is not None
            and found.mirrored is None
            and controller_key(found.object)[1] == declared.uid
        ]
        keeper = of_template(owner, hashed)
        present = next((one for one in kept if one.name == keeper.name), None)
        others = [one for one in kept if one is not present]
        highest = max(map(_number, others), default=0)
        if present is None:
            if keeper.key not in resources and self._has_pods(owner, declared, hashed):
                made = _kept(keeper, declared, hashed, highest + 1)
                kind = _SETS if keeper.kind == REPLICA_SET else _REVISIONS
                await self._writer.create(kind, made, _CALLER, is_accepted=True)
        else:
            await self._renew(keeper, declared, present, max(highest + 1, _number(present)))
        await self._forget(owner, declared, others)

    def _has_pods(self, owner: ObjectId, declared: ResourceDeclared, hashed: str) -> bool:
        """Return whether a controller makes pods of its template. One that a policy places on clusters does not."""
        made = self._store.tables.index(OwnerIndex).made_by.get(owner.key, {})
        if not made and wanted_replicas(declared.object) == 0 and owner.kind != "DaemonSet":
            return True
        placements = self._store.tables.placements
        return any(key.startswith("Pod/") and placements[key].template_hash == hashed for key in made)

    async def _renew(
        self, keeper: ObjectId, declared: ResourceDeclared, present: ResourceDeclared, number: int
    ) -> None:
        """Give what keeps the present template the highest number, and the annotations of the controller."""

        def renewed(document: Mapping[str, Any]) -> Document:
            if keeper.kind != REPLICA_SET:
                return {**document, "revision": number}
            metadata = document["metadata"]
            annotations = {**(metadata.get("annotations") or {}), **_annotations(declared, number)}
            return {**document, "metadata": {**metadata, "annotations": annotations}}

        if renewed(present.object) != present.object:
            kind = _SETS if keeper.kind == REPLICA_SET else _REVISIONS
            await self._writer.change(kind, keeper, _unversioned(renewed), "update", _CALLER)

    async def _forget(self, owner: ObjectId, declared: ResourceDeclared, others: Sequence[ResourceDeclared]) -> None:
        """Delete the oldest templates without pods, as far as there are more than the limit."""
        limit = at(declared.object, "spec", "revisionHistoryLimit")
        most = _LIMIT if not isinstance(limit, int) else max(limit, 0)
        if len(others) <= most:
            return
        placements = self._store.tables.placements
        made = self._store.tables.index(OwnerIndex).made_by.get(owner.key, {})
        used = {of_template(owner, placements[key].template_hash).name for key in made if key.startswith("Pod/")}
        free = sorted((one for one in others if one.name not in used), key=_number)
        for one in free[: max(0, len(free) - most)]:
            await self._writer.collect(ObjectId.of(one.key), one.uid, _CALLER, DeleteOptions(BACKGROUND_POLICY))


def _unversioned(change: Any) -> Any:
    def changed(shown: Document) -> Document:
        wanted: Document = change(shown)
        return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": ""}}

    return changed


def _number(kept: ResourceDeclared) -> int:
    """Return the number of a template: higher for one that was used later."""
    found = (
        at(kept.object, "metadata", "annotations", REVISION) if kept.kind == REPLICA_SET else kept.object["revision"]
    )
    return int(found) if str(found).isdecimal() else 0


def _annotations(declared: ResourceDeclared, number: int) -> dict[str, str]:
    own = at(declared.object, "metadata", "annotations") or {}
    return {**{key: value for key, value in own.items() if key not in _NOT_CARRIED}, REVISION: str(number)}


def _kept(keeper: ObjectId, declared: ResourceDeclared, hashed: str, number: int) -> Document:
    """Return the object that keeps the template of a controller."""
    document, template = declared.object, at(declared.object, "spec", "template") or {}
    labels = dict(at(template, "metadata", "labels") or {})
    metadata: Document = {
        "name": keeper.name,
        "namespace": keeper.namespace,
        "labels": labels,
        "ownerReferences": [
            {
                "apiVersion": document["apiVersion"],
                "kind": document["kind"],
                "name": declared.name,
                "uid": declared.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if keeper.kind != REPLICA_SET:
        data = {"spec": {"template": {**template, "$patch": "replace"}}}
        return {
            "apiVersion": _REVISIONS.api_version,
            "kind": _REVISIONS.kind,
            "metadata": metadata,
            "data": data,
            "revision": number,
        }
    own = {TEMPLATE_HASH_LABEL: hashed}
    selector = at(document, "spec", "selector") or {}
    annotations = {**_annotations(declared, number), DESIRED: str(wanted_replicas(document))}
    metadata |= {"labels": labels | own, "annotations": annotations}
    return {
        "apiVersion": _SETS.api_version,
        "kind": _SETS.kind,
        "metadata": metadata,
        "spec": {
            "replicas": 0,  # the deployment's pods are decided on as a whole
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **own}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels | own}},
        },
    }
