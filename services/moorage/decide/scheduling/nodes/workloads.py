"""Pods of controllers: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job (docs/domain.md, "Controllers").

Names are hashes of their cause, never random: the same history gives the same names. The replacement of an evicted pod
gets another name, except in a StatefulSet, where it keeps the name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from moorage.decide.kubernetes.hashes import document_hash, letters_of, uid_of
from moorage.decide.kubernetes.pod_defaults import admit_pod
from moorage.decide.kubernetes.pod_resources import qos_class
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.workload_kinds import CONTROLLERS, POD

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
STATEFUL_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"

_SUFFIX: Final = 5
_LONGEST_LABEL: Final = 63
_LONGEST_NAME: Final = 253


class WorkloadError(ValueError):
    """The object of a controller is invalid. The error names the field, its value and the rule."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}: Invalid value: {value!r}: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


@dataclass(frozen=True, slots=True)
class WorkloadController:
    """A controller of pods, as placement sees it."""

    ref: WorkloadRef
    uid: str
    api_version: str
    replicas: int
    """The number of pods. 0 for a DaemonSet, whose number depends on the nodes."""

    template: Mapping[str, Any]
    template_hash: str
    paused: bool = False
    """Whether pods of an older template stay for now."""

    @property
    def daemon(self) -> bool:
        """Whether the controller runs one pod on every node that fits."""
        return self.ref.kind == "DaemonSet"

    @property
    def keeps_names(self) -> bool:
        """Whether a replacement pod keeps the name of its predecessor."""
        return self.ref.kind == "StatefulSet"

    @property
    def rolls(self) -> bool:
        """Whether pods of an older template are replaced. A ReplicaSet and a Job keep them."""
        return self.ref.kind in {"Deployment", "StatefulSet", "DaemonSet"} and not self.paused


def controller_of(obj: Mapping[str, Any]) -> WorkloadController:
    """Return the controller that an object declares.

    Raises:
        WorkloadError: the object is of another kind, or its numbers are invalid.
    """
    kind = str(obj.get("kind", ""))
    if kind not in CONTROLLERS:
        raise WorkloadError("kind", kind, f"must be one of {', '.join(CONTROLLERS)}")
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    template = spec.get("template") or {}
    if not isinstance(template, Mapping):
        raise WorkloadError("spec.template", template, "must be an object")
    return WorkloadController(
        ref=WorkloadRef(kind=kind, namespace=str(metadata.get("namespace") or ""), name=str(metadata.get("name", ""))),
        uid=str(metadata.get("uid") or ""),
        api_version=str(obj.get("apiVersion") or ""),
        replicas=_replicas(kind, spec),
        template=template,
        template_hash=template_hash(template),
        paused=kind == "Deployment" and spec.get("paused") is True,
    )


def template_hash(template: Mapping[str, Any]) -> str:
    """Return a short hash of a pod template, safe in names and labels."""
    return document_hash(template)


def pod_name(controller: WorkloadController, index: int, *salt: object) -> str:
    """Return the name of a pod.

    Args:
        controller: the controller that makes the pod.
        index: the index among the replicas.
        salt: distinguishes the pod from earlier pods of the same index: the version of the controller that requested
            the pod, or the pod that it replaces. Not used for a StatefulSet.

    Raises:
        WorkloadError: the name of a StatefulSet leaves no room for the index.
    """
    name = controller.ref.name
    if controller.keeps_names:
        full = f"{name}-{index}"
        if len(full) > _LONGEST_NAME:
            raise WorkloadError("metadata.name", name, f"must leave room for -{index} in {_LONGEST_NAME} characters")
        return full
    ending = "-" + letters_of(repr((controller.uid, index, *salt)).encode(), _SUFFIX)
    if controller.ref.kind == "Deployment":
        ending = f"-{controller.template_hash}{ending}"
    return name[: _LONGEST_LABEL - len(ending)].rstrip("-.") + ending


def pod_uid(controller: WorkloadController, name: str, *salt: object) -> str:
    """Return the uid of a pod, in the form of a UUID. A different `salt` gives a different uid."""
    return uid_of(controller.uid, name, *salt)


@lru_cache(maxsize=65_536)
def daemon_index(node: str) -> int:
    """Return the index of a DaemonSet's pod: a number for its node, 48 bits of a hash."""
    return int.from_bytes(hashlib.blake2b(node.encode(), digest_size=6).digest(), "big")


def text_labels(labels: object) -> dict[str, str]:
    """Return the labels as text. The gateway admits nothing else; a record written past it must not stop a service."""
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, Mapping) else {}


def pod_labels(controller: WorkloadController, *, name: str, index: int = 0, made_from: str = "") -> dict[str, str]:
    """Return the labels of a pod of the controller. The arguments are those of `make_pod`."""
    labels = text_labels((controller.template.get("metadata") or {}).get("labels"))
    if controller.ref.kind == "Deployment":
        labels[TEMPLATE_HASH_LABEL] = made_from or controller.template_hash
    if controller.keeps_names:
        labels |= {STATEFUL_NAME_LABEL: name, INDEX_LABEL: str(index)}
    return labels


def make_pod(
    controller: WorkloadController,
    *,
    name: str,
    uid: str,
    index: int = 0,
    made_from: str = "",
    rules: Sequence[DedicatedNodes] = (),
) -> dict[str, Any]:
    """Return a pod made from the controller's template, after admission, as an API shows it.

    Args:
        controller: the controller.
        name: the result of `pod_name`.
        uid: the result of `pod_uid`.
        index: the index among the replicas.
        made_from: the hash of the template that the pod was made from, if that is no longer the present one.
        rules: the fleet's `DedicatedNodes`.

    Raises:
        QuantityError: a request or limit in the template is not a quantity.
    """
    metadata = dict(controller.template.get("metadata") or {})
    labels = pod_labels(controller, name=name, index=index, made_from=made_from)
    metadata |= {"name": name, "namespace": controller.ref.namespace or "default", "uid": uid, "labels": labels}
    metadata["ownerReferences"] = [
        {
            "apiVersion": controller.api_version,
            "kind": controller.ref.kind,
            "name": controller.ref.name,
            "uid": controller.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    pod = {
        "apiVersion": "v1",
        "kind": POD,
        "metadata": metadata,
        "spec": {**(controller.template.get("spec") or {})},
    }
    admitted = admit_pod(pod, rules, daemon=controller.daemon)
    admitted["status"] = {"phase": "Pending", "qosClass": qos_class(admitted["spec"])}
    return admitted


def _replicas(kind: str, spec: Mapping[str, Any]) -> int:
    if kind == "DaemonSet":
        return 0
    if kind != "Job":
        return _count(spec, "replicas", 1)
    if spec.get("suspend") is True:
        return 0
    at_once = _count(spec, "parallelism", 1)
    return min(at_once, _count(spec, "completions", at_once))


def _count(spec: Mapping[str, Any], field: str, default: int) -> int:
    value = spec.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise WorkloadError(f"spec.{field}", value, "must be an integer greater than or equal to 0")
    return value
