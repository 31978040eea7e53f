"""The operation `daemonset_status`: the numbers of a DaemonSet's status, by its nodes and its pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.conformance.request_objects import (
    Object,
    condition_in,
    is_terminating,
    labels_in,
    name_in,
    namespace_in,
    objects,
    one_object,
)
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.pod_defaults import admit_pod
from moorage.decide.kubernetes.quantities import QuantityError
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.kubernetes.unstructured import at, part, parts_at
from moorage.decide.scheduling.nodes.daemon_sets import DaemonPod, daemon_counts, wants_pod
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.resources.pod import PodSpec

FIELDS: Final = ("now", "daemonSet", "nodes", "pods", "hash")

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_HASH: Final = "controller-revision-hash"
_GENERATION: Final = "pod-template-generation"
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def daemonset_status(fields: RequestFields) -> Answer:
    """Return the numbers of a DaemonSet's status. A node stands for its present labels and taints."""
    declared = one_object(fields, "daemonSet")
    spec = part(declared, "spec")
    try:
        shape, only = _shape(part(spec, "template"))
        selector = LabelSelector.model_validate(spec.get("selector") or {})
    except (QuantityError, ValidationError) as error:
        raise RequestError(FieldError("daemonSet.spec", ErrorKind.INVALID, None, str(error))) from None
    wanted: set[str] = set()
    names: set[str] = set()
    for node in objects(fields, "nodes"):
        name = name_in(node)
        taints = RequestFields(part(node, "spec"), f"nodes[{name}].spec", fields.upstream).taints("taints")
        is_wanted = wants_pod(
            shape,
            only,
            name=name,
            labels=dict(labels_in(node)),
            taints=taints,
            comparison=not fields.upstream,
            strict=not fields.upstream,
        )
        names.add(name)
        if is_wanted:
            wanted.add(name)
    own = [pod for pod in objects(fields, "pods") if _is_own(pod, declared, selector)]
    counts = daemon_counts(wanted, names, _pods(own, declared, fields))
    return {
        "desiredNumberScheduled": counts.desired,
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misscheduled,
        "numberReady": counts.ready,
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.unavailable,
    }


def _shape(template: Object) -> tuple[PodShape, str]:
    PodSpec.model_validate(part(template, "spec"))  # admission needs a spec of the right structure
    pod = admit_pod({"metadata": {}, "spec": {**part(template, "spec")}}, daemon=True)
    spec = PodSpec.model_validate(pod["spec"])
    return shape_of(spec), spec.node_name


def _is_own(pod: Object, declared: Object, selector: LabelSelector) -> bool:
    """Return whether a pod is one of the DaemonSet, and has not been deleted after its end."""
    uid = at(declared, "metadata", "uid")
    references = parts_at(pod, "metadata", "ownerReferences")
    owned = any(one.get("controller") and one.get("uid") == uid for one in references)
    ended = is_terminating(pod) and str(at(pod, "status", "phase")) in _ENDED
    same = namespace_in(pod) == namespace_in(declared)
    return owned and same and not ended and matches_labels(selector, dict(labels_in(pod)))


def _pods(own: Sequence[Object], declared: Object, fields: RequestFields) -> Iterator[DaemonPod[str]]:
    now, present = fields.time("now"), fields.text("hash")
    settings = RequestFields(part(declared, "spec"), "daemonSet.spec", fields.upstream)
    least = timedelta(seconds=settings.integer("minReadySeconds") or 0) if fields.upstream else timedelta()
    generation = str(at(declared, "metadata", "annotations", _TEMPLATE_GENERATION) or "")

    def order(pod: Object) -> tuple[bool, str, str]:
        return not at(pod, "spec", "nodeName"), str(at(pod, "metadata", "creationTimestamp") or ""), name_in(pod)

    for pod in sorted(own, key=order):
        ready, since = _ready(pod, fields)
        labels = dict(labels_in(pod))
        yield DaemonPod(
            node=str(at(pod, "spec", "nodeName") or _target(pod)),
            ready=ready,
            available=not least or (since is not None and now is not None and since + least <= now),
            updated=bool(present and labels.get(_HASH) == present)
            or bool(generation and labels.get(_GENERATION) == generation),
        )


def _ready(pod: Object, fields: RequestFields) -> tuple[bool, datetime | None]:
    condition = condition_in(pod, "Ready")
    if condition is None or condition.get("status") != ConditionStatus.TRUE:
        return False, None
    return True, RequestFields(condition, "conditions", fields.upstream).time("lastTransitionTime")


def _target(pod: Object) -> str:
    """Return the node that the affinity of a waiting pod names. Empty if there is none."""
    required = at(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in parts_at(required or {}, "nodeSelectorTerms"):
        for one in parts_at(term, "matchFields"):
            if one.get("key") == "metadata.name" and one.get("operator") == "In" and len(one.get("values") or ()) == 1:
                return str(one["values"][0])
    return ""
