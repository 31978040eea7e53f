"""A declared resource that is a pod, or creates pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import orjson
from pydantic import ValidationError

from moorage.decide.kubernetes.quantities import PODS, QuantityError
from moorage.decide.scheduling.nodes.pod_controllers import controller_reference
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of, undecided_demand
from moorage.decide.scheduling.nodes.workloads import (
    WorkloadController,
    WorkloadError,
    controller_of,
    make_pod,
    pod_labels,
    text_labels,
)
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import PodOrder, ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.resources.workload_kinds import CONTROLLERS, POD

POD_SOURCES: Final = tuple(f"{kind}/" for kind in (POD, *CONTROLLERS))
"""The prefixes of the resource keys of owners."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_IN_A_CLUSTER: Final = frozenset({"moorage"})
_OWN_SCHEDULERS: Final = frozenset({"", _DEFAULT_SCHEDULER, *_IN_A_CLUSTER})
"""The values of `spec.schedulerName` for which placement decides. In a real cluster, its own scheduler has the others.
"""

TAKES_NOTHING: Final = ((PODS, 0),)
"""The requests of a mirrored pod that has ended: it does not even count as a pod."""

_RESIZED: Final = ("allocatedResources", "resources", "containerStatuses", "initContainerStatuses")
"""The parts of its status with the resources that a mirrored pod has at present, if it is resized in place."""

_FOREGROUND: Final = "foregroundDeletion"


class PodSource:
    """A resource that is a pod, or creates pods."""

    def __init__(self, event: ResourceDeclared) -> None:
        self.key = event.key
        self.ref = WorkloadRef(kind=event.kind, namespace=event.namespace, name=event.name, cluster=event.cluster)
        self.uid = event.uid
        self.mirrored = event.mirrored.source if event.mirrored is not None else ""
        """The bridge that mirrors it from a real cluster; empty if it is declared here."""

        self.bound_as = self.ref
        """The controller in its bindings. For a mirrored pod, it is the one that has made the pod in its cluster."""

        self.version = event.version
        self.controller: WorkloadController | None = None
        self.error = ""
        """Why it cannot be read. Such an owner keeps its present pods."""

        self.node_name = ""
        """The node that `spec.nodeName` names; empty for none."""

        self.scheduler = ""
        """The name of another scheduler that is to place its pods; empty for none."""

        self.gated = False
        """Whether `spec.schedulingGates` is not empty: its pods wait until all gates are removed."""

        self.terminating = False
        """Whether it is a mirrored pod that is being deleted. It takes its room until it has ended."""

        self.undecided = ""
        """For a mirrored pod: a field of its spec with a demand that no filter judges. Empty if there is none."""

        self.orders: Mapping[str, PodOrder] = {order.uid: order for order in event.pods}
        """The orders about its pods, by their uids."""

        self.changed_labels: Mapping[str, dict[str, str]] = {one.uid: one.labels for one in event.pod_metadata}
        """The edited labels of those of its pods whose labels were changed, by their uids."""

        self._shape: tuple[int, PodShape] | None = None
        self._labels: tuple[str, dict[str, str]] = ("", {})
        metadata: Mapping[str, Any] = event.object.get("metadata") or {}
        marked = bool(metadata.get("deletionTimestamp"))
        self.finished = marked and (event.kind == POD or _FOREGROUND in (metadata.get("finalizers") or ()))
        """Whether it has no pods: it has ended, or it is being deleted and its pods are deleted first.

        A mirrored pod on a node exists as long as its record, as in Kubernetes.
        """

        self.keeps_pods = marked and not self.finished
        """Whether it is a controller that is being deleted, and keeps its pods as they are until then."""

        try:
            if event.kind == POD:
                self._shape = (-1, self._read(event.object.get("spec") or {}))
                self._labels = ("", text_labels(metadata.get("labels")))
                status: Mapping[str, Any] = event.object.get("status") or {}
                ended = status.get("phase") in _FINISHED
                self.finished |= ended
                if self.mirrored:
                    self._follow_cluster(event, ended=ended)
            else:
                controller = controller_of(event.object)
                self.controller = replace(controller, ref=self.ref, paused=controller.paused or self.keeps_pods)
                self._read_template(())
        except (QuantityError, WorkloadError, ValidationError) as error:
            self.error = str(error)

    @property
    def makes_no_pods(self) -> bool:
        """Whether it is a mirrored controller. Its cluster creates its pods, which are mirrored as well."""
        return bool(self.mirrored) and self.ref.kind != POD

    def runs_on(self, node: str) -> bool:
        """Return whether it is a mirrored pod that is bound to this node in its cluster."""
        return bool(self.mirrored) and self.node_name == node

    def _follow_cluster(self, event: ResourceDeclared, *, ended: bool) -> None:
        """Read the facts of a mirrored pod alone: the creator of the pod, and that it stays on its node."""
        self.terminating = bool((event.object.get("metadata") or {}).get("deletionTimestamp"))
        if self.node_name:
            self.finished = False
        elif not self.scheduler:
            self.undecided = undecided_demand(event.object.get("spec") or {})
        status: Mapping[str, Any] = event.object.get("status") or {}
        if not ended and any(name in status for name in _RESIZED):
            spec: Mapping[str, Any] = event.object.get("spec") or {}
            self._shape = (-1, _shared(shape_of(PodSpec.model_validate(spec), status)))
        if ended and self._shape is not None:
            shape = self._shape[1]
            ended_shape = replace(shape, key=f"{shape.key}/ended", requests=TAKES_NOTHING, ports=(), terms=())
            self._shape = (-1, _shared(ended_shape))
        self.bound_as = controller_reference(event) or self.ref

    def shape(self, rules: tuple[DedicatedNodes, ...], rules_version: int) -> PodShape:
        """Return the shape of its pods. The rules for dedicated nodes apply to pods from a template.

        A declared pod was admitted when it was created, so later rules do not affect it.
        """
        if self.controller is not None and (self._shape is None or self._shape[0] != rules_version):
            self._shape = (rules_version, self._read_template(rules))
        if self._shape is None:
            raise WorkloadError("spec", self.key, self.error or "has no pods")
        return self._shape[1]

    def labels(self, name: str, uid: str, index: int, made_from: str) -> dict[str, str]:
        """Return the labels of one of its pods. Pods with equal labels share one object."""
        if self.controller is None:
            return self._labels[1]
        if (changed := self.changed_labels.get(uid)) is not None:
            return changed
        if self.controller.keeps_names:
            return pod_labels(self.controller, name=name, index=index)
        if self._labels[0] != made_from:
            self._labels = (made_from, pod_labels(self.controller, name=name, made_from=made_from))
        return self._labels[1]

    def _read_template(self, rules: tuple[DedicatedNodes, ...]) -> PodShape:
        if self.controller is None:
            raise WorkloadError("kind", self.ref.kind, f"must be one of {', '.join(CONTROLLERS)}")
        pod = make_pod(self.controller, name="pod", uid="uid", rules=rules)
        return self._read(pod["spec"])

    def _read(self, spec: Mapping[str, Any]) -> PodShape:
        try:
            self.node_name, scheduler, self.gated, shape = _known_spec(orjson.dumps(spec))
        except orjson.JSONEncodeError:  # it has a number of more than 64 bits
            self.node_name, scheduler, self.gated, shape = _read_spec(spec)
        own = _IN_A_CLUSTER if self.mirrored else _OWN_SCHEDULERS
        self.scheduler = "" if scheduler in own else scheduler or _DEFAULT_SCHEDULER
        return shape


@lru_cache(maxsize=4096)
def _known_spec(spec: bytes) -> tuple[str, str, bool, PodShape]:
    """Return `_read_spec` of a spec in JSON. Most pods have the same spec as others, which is read once."""
    return _read_spec(orjson.loads(spec))


def _read_spec(spec: Mapping[str, Any]) -> tuple[str, str, bool, PodShape]:
    """Return the node that a pod's spec names, the scheduler that it names, whether it is gated, and its shape.

    Raises:
        ValidationError: it is not the spec of a pod.
        QuantityError: a request or limit is not a quantity.
    """
    model = PodSpec.model_validate(spec)
    return model.node_name, model.scheduler_name, bool(model.scheduling_gates), _shared(shape_of(model))


@lru_cache(maxsize=65_536)
def _shared(shape: PodShape) -> PodShape:
    """Return the same object for equal shapes."""
    return shape
