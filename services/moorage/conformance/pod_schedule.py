"""The operation `pod_schedule`: the nodes on which a pod fits beside other pods, the reasons against others, scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.conformance.request_objects import (
    Labels,
    is_terminating,
    labels_in,
    name_in,
    namespace_in,
    objects,
    one_object,
)
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS, QuantityError, whole_amounts
from moorage.decide.kubernetes.unstructured import part, parts_at
from moorage.decide.scheduling.nodes.bound_pods import PodFacts
from moorage.decide.scheduling.nodes.completed_constraints import constraints_of
from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.nodes.plugin import PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler
from moorage.decide.scheduling.nodes.verdicts import NodeVerdicts
from moorage.decide.scheduling.nodes.volumes import BoundVolume, claimed, read_volume
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.taint import Taint

_ALWAYS_COUNTED = (CPU, MEMORY, PODS)


def pod_schedule(fields: RequestFields) -> Answer:
    """Return the verdicts of all filters on each node, and the scores of the nodes that pass.

    As upstream, a node has nothing of a resource that it does not state.
    """
    fleet = Fleet()
    for node in objects(fields, "nodes"):
        fleet.put(_node(node, upstream=fields.upstream))
    namespaces = {name_in(one): labels_in(one) for one in objects(fields, "namespaces")}
    fleet.pods.namespace_labels = lambda name: dict(namespaces[name]) if name in namespaces else None
    placed: list[tuple[str, PodFacts]] = []
    fleet.pods.every = lambda: placed
    for other in objects(fields, "pods"):
        if node_name := _spec(other).node_name:
            taken, worn = _pod(other)
            fleet.take(node_name, taken.requests)
            placed.append((node_name, _facts(other, taken, worn)))
            fleet.pods.add(*placed[-1])
    pod = one_object(fields, "pod")
    shape, labels = _pod(pod)
    request = PodRequest(
        shape, namespace=namespace_in(pod), labels=labels, volumes=_volumes(fields, namespace_in(pod), shape.claims)
    )
    scheduler = NodeScheduler(fleet)
    verdicts, names = NodeVerdicts(scheduler, request), [one.name for one in scheduler.prioritizers]
    return {"nodes": {name: _answer(verdicts, name, names) for name in sorted(fleet.names())}}


def _answer(verdicts: NodeVerdicts, name: str, prioritizers: Iterable[str]) -> Answer:
    found = verdicts.verdict(name)
    answer: Answer = {
        "fits": found.passed,
        "reasons": {one.filter: list(one.reasons) for one in found.filters if one.reasons},
    }
    if found.passed:
        answer["scores"] = dict.fromkeys(prioritizers, 0) | {one.prioritizer: one.score for one in found.scores}
    return answer


def _node(node: Mapping[str, Any], *, upstream: bool) -> NodeFacts:
    spec, status = part(node, "spec"), part(node, "status")
    try:
        offered = whole_amounts(part(status, "allocatable"), "status.allocatable")
    except QuantityError as error:
        raise _refused("nodes", node, str(error)) from None
    if upstream:
        offered = {**dict.fromkeys(_ALWAYS_COUNTED, 0), **offered}
    return NodeFacts(
        name=name_in(node),
        labels=dict(labels_in(node)),
        taints=tuple(
            Taint(key=_text(one, "key"), value=_text(one, "value"), effect=_text(one, "effect"))
            for one in parts_at(node, "spec", "taints")
        ),
        unschedulable=spec.get("unschedulable") is True,
        allocatable=offered,
    )


def _pod(pod: Mapping[str, Any]) -> tuple[PodShape, Labels]:
    try:
        return shape_of(_spec(pod)), labels_in(pod)
    except QuantityError as error:
        raise _refused("pod", pod, str(error)) from None


def _spec(pod: Mapping[str, Any]) -> PodSpec:
    try:
        return PodSpec.model_validate(pod.get("spec") or {})
    except ValidationError as error:
        raise _refused("pod", pod, str(error)) from None


def _refused(name: str, found: Mapping[str, Any], rule: str) -> RequestError:
    return RequestError(FieldError(f"{name}[{name_in(found)}]", ErrorKind.INVALID, None, rule))


def _facts(pod: Mapping[str, Any], shape: PodShape, labels: Labels) -> PodFacts:
    constraints = constraints_of(shape, namespace_in(pod), labels) if shape.ports or shape.terms else None
    terminating = is_terminating(pod)
    return PodFacts(namespace_in(pod), labels, constraints, terminating)


def _volumes(fields: RequestFields, namespace: str, claims: tuple[str, ...]) -> tuple[BoundVolume, ...]:
    volumes = {name_in(one): read_volume(one) for one in objects(fields, "volumes")}
    declared = {name_in(one): one for one in objects(fields, "claims") if namespace_in(one) == namespace}
    found = []
    for claim in claims:
        one = declared.get(claim, {})
        name = _text(part(one, "spec"), "volumeName")
        found.append(claimed(claim, name, volumes.get(name), leaving=is_terminating(one)))
    return tuple(volume for volume in found if volume is not None)


def _text(found: Mapping[str, Any], name: str) -> str:
    return str(found.get(name) or "")
