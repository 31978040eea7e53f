"""The operation `pod_schedule`: the nodes on which a pod fits beside other pods, the reasons against others, scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS, QuantityError, whole_amounts
from moorage.decide.scheduling.nodes.bound_pods import PodFacts
from moorage.decide.scheduling.nodes.completed_constraints import constraints_of
from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.nodes.plugin import PodRequest
from moorage.decide.scheduling.nodes.pod_constraints import Labels
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler
from moorage.decide.scheduling.nodes.verdicts import NodeVerdicts
from moorage.decide.scheduling.nodes.volumes import BoundVolume, read_volume
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.taint import Taint

_ALWAYS_COUNTED = (CPU, MEMORY, PODS)


def pod_schedule(fields: RequestFields) -> Answer:
    """Return the verdicts of all filters on each node, and the scores of the nodes that pass.

    As upstream, a node has nothing of a resource that it does not state.
    """
    fields.need("pod")
    fleet = Fleet()
    for node in _objects(fields, "nodes"):
        fleet.put(_node(node, upstream=fields.upstream))
    namespaces = {_name(one): _labels(one) for one in _objects(fields, "namespaces")}
    fleet.pods.namespace_labels = lambda name: dict(namespaces[name]) if name in namespaces else None
    placed: list[tuple[str, PodFacts]] = []
    fleet.pods.every = lambda: placed
    for other in _objects(fields, "pods"):
        if node_name := _spec(other).node_name:
            taken, worn = _pod(other)
            fleet.take(node_name, taken.requests)
            placed.append((node_name, _facts(other, taken, worn)))
            fleet.pods.add(*placed[-1])
    pod = dict(fields.inner("pod", (), closed=False).values)
    shape, labels = _pod(pod)
    request = PodRequest(
        shape, namespace=_namespace(pod), labels=labels, volumes=_volumes(fields, _namespace(pod), shape.claims)
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


def _objects(fields: RequestFields, name: str) -> list[dict[str, Any]]:
    return fields.items(
        name, lambda item, path: dict(RequestFields.of(item, path, (), upstream=False, closed=False).values)
    )


def _node(node: Mapping[str, Any], *, upstream: bool) -> NodeFacts:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    try:
        offered = whole_amounts(status.get("allocatable") or {}, "status.allocatable")
    except QuantityError as error:
        raise _refused("nodes", node, str(error)) from None
    if upstream:
        offered = {**dict.fromkeys(_ALWAYS_COUNTED, 0), **offered}
    return NodeFacts(
        name=_name(node),
        labels=dict(_labels(node)),
        taints=tuple(
            Taint(key=one.get("key", ""), value=one.get("value", ""), effect=one.get("effect", ""))
            for one in spec.get("taints") or ()
        ),
        unschedulable=spec.get("unschedulable") is True,
        allocatable=offered,
    )


def _pod(pod: Mapping[str, Any]) -> tuple[PodShape, Labels]:
    try:
        return shape_of(_spec(pod)), _labels(pod)
    except QuantityError as error:
        raise _refused("pod", pod, str(error)) from None


def _spec(pod: Mapping[str, Any]) -> PodSpec:
    try:
        return PodSpec.model_validate(pod.get("spec") or {})
    except ValidationError as error:
        raise _refused("pod", pod, str(error)) from None


def _refused(name: str, found: Mapping[str, Any], rule: str) -> RequestError:
    return RequestError(FieldError(f"{name}[{_name(found)}]", ErrorKind.INVALID, None, rule))


def _facts(pod: Mapping[str, Any], shape: PodShape, labels: Labels) -> PodFacts:
    constraints = constraints_of(shape, _namespace(pod), labels) if shape.ports or shape.terms else None
    terminating = bool((pod.get("metadata") or {}).get("deletionTimestamp"))
    return PodFacts(_namespace(pod), labels, constraints, terminating)


def _volumes(fields: RequestFields, namespace: str, claims: tuple[str, ...]) -> tuple[BoundVolume, ...]:
    volumes = {_name(one): read_volume(one) for one in _objects(fields, "volumes")}
    bound = {
        _name(one): str((one.get("spec") or {}).get("volumeName") or "")
        for one in _objects(fields, "claims")
        if _namespace(one) == namespace
    }
    found = [(claim, bound.get(claim, "")) for claim in claims]
    return tuple(
        volumes[name]._replace(claim=claim) if name in volumes else BoundVolume(claim, name, exists=False)
        for claim, name in found
        if name
    )


def _name(found: Mapping[str, Any]) -> str:
    return str((found.get("metadata") or {}).get("name") or "")


def _namespace(found: Mapping[str, Any]) -> str:
    return str((found.get("metadata") or {}).get("namespace") or "")


def _labels(found: Mapping[str, Any]) -> Labels:
    return tuple(sorted(((found.get("metadata") or {}).get("labels") or {}).items()))
