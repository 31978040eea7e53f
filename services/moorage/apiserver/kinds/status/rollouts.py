"""The templates that controllers have had: the replica sets of a deployment, and the revisions of the others.

Each is a declared object that the gateway writes (`apiserver/controllers/rollouts.py`). The replica set of a deployment
makes no pods, because the deployment's are decided on as a whole. It keeps a template, and shows how many pods have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.controllers import Counts, OwnerIndex
from moorage.apiserver.kinds.status.index import Groups, Index, Unsettled
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
from moorage.apiserver.rules.field_defaults import with_field_defaults
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.workloads import TEMPLATE_HASH_LABEL, template_hash
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.times import format_time, parse_time

DEPLOYMENT: Final = "Deployment"
REPLICA_SET: Final = "ReplicaSet"
REVISION_KIND: Final = "ControllerRevision"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
"""Annotations of replica sets, as kubectl reads them."""

ROLLED: Final = frozenset({DEPLOYMENT, "StatefulSet", "DaemonSet"})
"""The kinds that replace the pods of an older template."""

_SURGE: Final = 1  # pods that a rollout has beside those that are wanted


def controller_key(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key and the uid of the controller of an object, if that is of a kind in `ROLLED`. Empty otherwise."""
    metadata = document["metadata"]
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") in ROLLED:
            name, namespace = reference.get("name"), metadata.get("namespace") or ""
            return f"{reference['kind']}/{namespace}/{name}", str(reference.get("uid") or "")
    return "", ""


def made_by_deployment(document: Mapping[str, Any]) -> bool:
    """Return whether a replica set belongs to a deployment."""
    return controller_key(document)[0].startswith(f"{DEPLOYMENT}/")


def of_template(owner: ObjectId, hashed: str) -> ObjectId:
    """Return the object that keeps a template of a controller."""
    kind = REPLICA_SET if owner.kind == DEPLOYMENT else REVISION_KIND
    return ObjectId(kind, owner.namespace, f"{owner.name}-{hashed}")


def wanted_replicas(document: Mapping[str, Any]) -> int:
    """Return the number of pods that a controller wants."""
    replicas = at(document, "spec", "replicas")
    return 1 if replicas is None else int(replicas)


class RolloutIndex(Index):
    """The objects that keep the templates of each controller, and the controllers to look at."""

    topics = ("resources", "placements")

    def __init__(self) -> None:
        self.kept = Groups()
        """The record keys of the objects that keep templates, by the key of the controller."""

        self.unsettled = Unsettled()
        """The keys of controllers about which something has changed."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "placements":
            return self._placed(before, after, records)
        kind = key.partition("/")[0]
        if kind in ROLLED:
            self.unsettled.add(key)
            return map(ObjectId.of, self.kept.get(key, ()))
        if kind in {REPLICA_SET, REVISION_KIND}:
            return self._keeper(key, before, after, records)
        return ()

    def _placed(self, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        shown = []
        for placed in (before, after):
            if placed is None or placed.owner.kind not in ROLLED or placed.workload.kind != "Pod":
                continue
            owner = ObjectId(*placed.owner.key.split("/"))
            keeper = of_template(owner, placed.template_hash)
            if keeper.key not in records.resources or (after is None and len(self.kept.get(owner.key, ())) > 1):
                self.unsettled.add(owner.key)
            if keeper.kind == REPLICA_SET:
                shown.append(keeper)
        return shown

    def _keeper(
        self, key: str, before: ResourceDeclared | None, after: ResourceDeclared | None, records: Records
    ) -> Iterable[ObjectId]:
        old, new = (
            {controller_key(declared.object)[0]} - {""} if declared is not None else set()
            for declared in (before, after)
        )
        self.kept.move(key, old, new)
        self.unsettled.update(sorted(old | new))
        shown = [ObjectId.of(one) for one in old | new]
        if (before is None) is not (after is None):  # pods show the replica set that they belong to
            hashed = key.rpartition("-")[2]
            for owner in old | new:
                made = records.index(OwnerIndex).made_by.get(owner, {})
                pods = (pod for pod in made if pod.startswith(f"{POD}/"))
                shown += [ObjectId.of(pod) for pod in pods if records.placements[pod].template_hash == hashed]
        return shown


def keeper_of(placed: WorkloadPlaced, records: Records) -> ResourceDeclared | None:
    """Return the replica set of a deployment's pod. None if there is none (yet)."""
    if placed.owner.kind != DEPLOYMENT:
        return None
    owner = ObjectId.of(placed.owner.key)
    kept = records.resources.get(of_template(owner, placed.template_hash).key)
    own = kept is not None and controller_key(kept.object) == (placed.owner.key, placed.owner_uid)
    return kept if own else None


def plain_template(kept: Mapping[str, Any]) -> Document:
    """Return the template of a replica set without the label that the set has added."""
    template = kept["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def shown_replica_set(found: Document, records: Records) -> Document:
    """Return a replica set of a deployment as it is shown: with the numbers of the pods that have its template."""
    owner_key, uid = controller_key(found)
    owner = records.resources.get(owner_key)
    if owner is None or owner.uid != uid:
        return found
    hashed = str(at(found, "metadata", "labels", TEMPLATE_HASH_LABEL) or "")
    counts = records.index(OwnerIndex).counts(owner, records, hashed)
    wanted = wanted_replicas(owner.object)
    present = hashed == template_hash(at(owner.object, "spec", "template") or {})
    annotations = {**(found["metadata"].get("annotations") or {}), DESIRED: str(wanted), MOST: str(wanted + _SURGE)}
    status = {
        "observedGeneration": found["metadata"].get("generation", 1),
        "replicas": counts.replicas,
        "fullyLabeledReplicas": counts.replicas,
        "scheduledReplicas": counts.scheduled,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.ready,
    }
    return {
        **found,
        "metadata": {**found["metadata"], "annotations": annotations},
        "spec": {**found["spec"], "replicas": wanted if present else counts.replicas},
        "status": status,
    }


def with_revision(found: Document, records: Records) -> Document:
    """Return a deployment with the annotation of its present revision, if that is known."""
    metadata = found["metadata"]
    owner = ObjectId(DEPLOYMENT, str(metadata.get("namespace") or ""), str(metadata["name"]))
    kept = records.resources.get(of_template(owner, template_hash(at(found, "spec", "template") or {})).key)
    revision = at(kept.object, "metadata", "annotations", REVISION) if kept is not None else None
    if kept is None or not revision or controller_key(kept.object) != (owner.key, metadata.get("uid")):
        return found
    return {
        **found,
        "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), REVISION: revision}},
    }


def without_revision(document: Document, stored: Mapping[str, Any]) -> Document:
    """Return a changed deployment without the annotation that it is shown with, unless it is declared."""
    annotations = at(document, "metadata", "annotations") or {}
    if REVISION not in annotations or REVISION in (at(stored, "metadata", "annotations") or {}):
        return document
    kept = {key: value for key, value in annotations.items() if key != REVISION}
    metadata = {**document["metadata"], "annotations": kept}
    if not kept:
        del metadata["annotations"]
    return {**document, "metadata": metadata}


def updated(resource: ResourceDeclared, records: Records) -> Counts:
    """Return the counts of the pods that have a controller's present template. On clusters every replica has it."""
    index = records.index(OwnerIndex)
    if any(not key.startswith(f"{POD}/") for key in index.made_by.get(resource.key, ())):
        return index.counts(resource, records)
    return index.counts(resource, records, template_hash(at(resource.object, "spec", "template") or {}))


def revisions(resource: ResourceDeclared, records: Records) -> tuple[str, str]:
    """Return the names of the revisions that a stateful set's pods had before a rollout and get by it."""
    hashed = template_hash(at(resource.object, "spec", "template") or {})
    made = records.index(OwnerIndex).made_by.get(resource.key, {})
    older = sorted({one.template for one in made.values() if one is not None} - {"", hashed})
    return f"{resource.name}-{older[0] if older else hashed}", f"{resource.name}-{hashed}"


def deployment_conditions(resource: ResourceDeclared, counts: Counts, new: Counts) -> list[Document]:
    """Return the conditions `Available` and `Progressing` of a deployment. Their times are those of its pods.

    `new` counts those that have its present template.
    """
    wanted = wanted_replicas(resource.object)
    name = f"{resource.name}-{template_hash(at(resource.object, 'spec', 'template') or {})}"
    created = resource.object["metadata"].get("creationTimestamp")
    made = parse_time(created) if created else datetime.fromtimestamp(0, UTC)
    available = counts.ready >= wanted - _most_unavailable(resource.object, wanted)
    complete = new.ready >= wanted and counts.replicas == new.replicas == wanted
    ready_since, waiting_since = (
        max(made, datetime.fromtimestamp(since, UTC)) for since in (counts.ready_since, counts.waiting_since)
    )
    since = ready_since if available else waiting_since
    found = [
        _condition(
            "Available",
            "True" if available else "False",
            "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable",
            f"Deployment {'has' if available else 'does not have'} minimum availability.",
            since,
        )
    ]
    if at(resource.object, "spec", "paused") is True:
        return [*found, _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", made)]
    done = "has successfully progressed" if complete else "is progressing"
    reason = "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"
    told = max(ready_since, waiting_since)
    return [*found, _condition("Progressing", "True", reason, f'ReplicaSet "{name}" {done}.', made, told=told)]


def _condition(
    kind: str, status: str, reason: str, message: str, since: datetime, *, told: datetime | None = None
) -> Document:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(since.replace(microsecond=0)),
        "lastUpdateTime": format_time((told or since).replace(microsecond=0)),
    }


def _most_unavailable(document: Mapping[str, Any], wanted: int) -> int:
    """Return the number of pods that a deployment may lack (`maxUnavailable`, a quarter by default, rounded down)."""
    limit = at(document, "spec", "strategy", "rollingUpdate", "maxUnavailable")
    if isinstance(limit, int) and not isinstance(limit, bool):
        return min(limit, wanted)
    text = str(limit or "25%").removesuffix("%")
    return int(text) * wanted // 100 if text.isdecimal() else 0


def same_template(wanted: Document, stored: Mapping[str, Any], records: Records) -> Document:
    """Return a changed controller with the template as it was kept, if the wanted one means the same.

    Programs that read a template and write it back add empty fields. As another text it would have another hash, and
    every pod would be replaced. `kubectl rollout undo` sends the template of an older replica set in this way.
    """
    template = at(wanted, "spec", "template")
    if not isinstance(template, Mapping):
        return wanted
    plain = _meaning(wanted, template)
    owner_key = f"{stored['kind']}/{stored['metadata'].get('namespace') or ''}/{stored['metadata']['name']}"
    kept = [at(stored, "spec", "template") or {}]
    for key in sorted(records.index(RolloutIndex).kept.get(owner_key, ())):
        declared = records.resources.get(key)
        if declared is not None and declared.kind == REPLICA_SET:
            kept.append(plain_template(declared.object))
        elif declared is not None:
            found = at(declared.object, "data", "spec", "template") or {}
            kept.append({name: value for name, value in found.items() if name != "$patch"})
    same = next((one for one in kept if _meaning(wanted, one) == plain), None)
    return wanted if same is None else {**wanted, "spec": {**wanted["spec"], "template": same}}


def _meaning(controller: Document, template: Any) -> Any:
    """Return a template of a controller with default values, without nulls and without fields that are empty."""
    whole = with_field_defaults({"kind": controller["kind"], "spec": {"template": template}})
    return _without_empty(whole["spec"]["template"])


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = {key: _without_empty(one) for key, one in value.items()}
        return {key: one for key, one in found.items() if one is not None and one not in ({}, [])}
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    return value
