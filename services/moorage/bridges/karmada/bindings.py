"""What a bridge knows of a binding on the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.bridges.engine.cluster_events import Regarding
from moorage.decide.scheduling.karmada.mirrored_bindings import placed_elsewhere
from moorage_schemas.resources.bindings import ObjectReference, ResourceBinding

APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
"""The annotation in which a scheduler notes the placement that it has applied. Karmada's taint manager reads it."""

_DIRECTLY: Final = frozenset({"Directly", "Immediately"})

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SeenBinding:
    """A ResourceBinding or ClusterResourceBinding as it was last seen.

    Attributes:
        namespace: its namespace. Empty for a ClusterResourceBinding.
        name: its name.
        uid: its uid.
        version: its resource version.
        generation: the number of its desired state.
        clusters: the replicas on each cluster that it is on.
        tasks: its graceful eviction tasks.
        placement: where it may go.
        applied: what is noted as the placement that was applied last.
        status: its whole status.
        leaving: whether it is being deleted.
        is_placed: whether Moorage places it. Otherwise somebody else does.
        about: what events name: itself, and the resource that it places.
    """

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    clusters: Mapping[str, int]
    tasks: Sequence[Mapping[str, Any]]
    placement: Mapping[str, Any]
    applied: str
    status: Mapping[str, Any]
    leaving: bool
    is_placed: bool
    about: tuple[Regarding, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any], mirrored: Mapping[str, Any]) -> SeenBinding:
        """Read a binding.

        Args:
            found: as it is on the control plane.
            mirrored: as it is mirrored, which says who places it.

        Raises:
            ValidationError: it cannot be read.
        """
        metadata, spec = found["metadata"], found.get("spec") or {}
        model = ResourceBinding.model_validate(mirrored)
        return cls(
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            version=str(metadata.get("resourceVersion") or ""),
            generation=int(metadata.get("generation") or 0),
            clusters={one.name: one.replicas for one in model.spec.clusters or ()},
            tasks=spec.get("gracefulEvictionTasks") or (),
            placement=spec.get("placement") or {},
            applied=str((metadata.get("annotations") or {}).get(APPLIED_PLACEMENT) or ""),
            status=found.get("status") or {},
            leaving=model.metadata.deletion_timestamp is not None,
            is_placed=not placed_elsewhere(model),
            about=(Regarding.of(found), *_resource(model.spec.resource)),
        )

    def health(self, cluster: str) -> str:
        """Return the health on a cluster, as its status says. Empty if it says nothing."""
        items = self.status.get("aggregatedStatus") or ()
        return next((str(one.get("health") or "") for one in items if one.get("clusterName") == cluster), "")

    def task(self, cluster: str) -> Mapping[str, Any] | None:
        """Return the task that lets it leave a cluster. None if there is none."""
        return next((one for one in self.tasks if one.get("fromCluster") == cluster), None)

    def has_left(self, cluster: str) -> bool:
        """Return whether the control plane does not keep the work on a cluster any more.

        A task that purges directly only keeps a scheduler from going back.
        """
        task = self.task(cluster)
        return cluster not in self.clusters and (task is None or task.get("purgeMode") in _DIRECTLY)


def _resource(found: ObjectReference) -> Iterator[Regarding]:
    if found.kind and found.name:
        yield Regarding(found.api_version, found.kind, found.namespace, found.name, found.uid)
