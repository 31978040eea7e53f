"""The operations on devices: `device_tolerates`, `device_cel`, `device_allocate` and `device_evict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields, read_toleration
from moorage.conformance.request_objects import Object, labels_in, name_in, objects, one_object
from moorage.decide.kubernetes.cel.environments import DEVICE
from moorage.decide.kubernetes.cel.expressions import Evaluation, ExpressionError, compiled
from moorage.decide.kubernetes.cel.values import CelError
from moorage.decide.kubernetes.field_errors import invalid
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.devices.allocation import AllocationError, Offer, allocate
from moorage.decide.scheduling.devices.pools import DeviceId, DeviceNode, PooledDevice
from moorage.decide.scheduling.devices.reserved_claims import claims_of
from moorage.decide.scheduling.devices.tainted_devices import (
    PublishedDevices,
    as_if_evicting,
    devices_of,
    progress,
    rule_selects,
)
from moorage.decide.taints.dialects.devices import NO_EFFECT, tolerates_on_device
from moorage_schemas.base import OpenModel
from moorage_schemas.resources.devices import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
    ResourceSliceSpec,
)
from moorage_schemas.taint import Taint
from moorage_schemas.times import format_time

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "device_tolerates": ("toleration", "taint"),
    "device_cel": ("expression", "driver", "device"),
    "device_allocate": ("node", "slices", "classes", "claims", "allocated"),
    "device_evict": ("slices", "rules", "claims", "pods", "evicted"),
}

_Kind = TypeVar("_Kind", bound=OpenModel)


def device_tolerates(fields: RequestFields) -> Answer:
    """Return whether a toleration matches a taint of a device."""
    fields.need("toleration")
    toleration = read_toleration(fields.values.get("toleration"), "toleration", upstream=fields.upstream)
    return {"tolerates": tolerates_on_device(toleration, _parsed(Taint, one_object(fields, "taint"), "taint"))}


def device_cel(fields: RequestFields) -> Answer:
    """Return whether an expression selects a device, or why it cannot be compiled or evaluated."""
    device = _parsed(Device, one_object(fields, "device"), "device")
    try:
        expression = compiled(fields.text("expression"), DEVICE.limit, DEVICE)
    except ExpressionError as error:
        return {"compileError": str(error)} | ({} if error.as_upstream else {"unsupported": True})
    driver = fields.text("driver")
    pooled = PooledDevice(DeviceId(driver, "", device.name), device, ResourceSliceSpec(driver=driver))
    try:
        result = expression.evaluate(pooled.document, Evaluation())
    except (CelError, ValueError) as error:
        return {"matches": False, "error": str(error)}
    answer: Answer = {"matches": result.value, "cost": result.cost}
    return answer | ({"error": result.error} if result.error else {})


def device_allocate(fields: RequestFields) -> Answer:
    """Return what claims get on a node: null if they get nothing, and an error if something is wrong."""
    node = one_object(fields, "node")
    classes = {one.metadata.name: one for one in _all(DeviceClass, fields, "classes")}
    offer = Offer(_all(ResourceSlice, fields, "slices"), classes, frozenset(_identities(fields)))
    try:
        found = allocate(_all(ResourceClaim, fields, "claims"), DeviceNode(name_in(node), dict(labels_in(node))), offer)
    except AllocationError as error:
        return {"error": str(error)}
    if found is None:
        return {"result": None}
    return {"result": [one.model_dump(mode="json", exclude_none=True, exclude_unset=True) for one in found]}


def _identities(fields: RequestFields) -> list[DeviceId]:
    def read(item: Any, path: str) -> DeviceId:
        if not isinstance(item, list) or [type(part) for part in item] != [str, str, str]:
            raise RequestError(invalid(path, item, "must be a list of driver, pool and device"))
        return DeviceId(*item)

    return fields.items("allocated", read)


def device_evict(fields: RequestFields) -> Answer:
    """Return which pods leave their devices, when and why, and the condition of each rule."""
    slices, rules = _all(ResourceSlice, fields, "slices"), _all(DeviceTaintRule, fields, "rules")
    claims = {(one.metadata.namespace, one.metadata.name): one for one in _all(ResourceClaim, fields, "claims")}
    pods, evicted = objects(fields, "pods"), fields.inner("evicted", (), closed=False).values
    published = PublishedDevices(slices, rules)
    answer: Answer = {"pods": [], "conditions": []}
    for pod in sorted(pods, key=_key):
        leaving = published.leaving(claims_of(pod, claims))
        if leaving is not None:
            reasons = [one.origin for one in leaving.taints]
            answer["pods"].append({"pod": _key(pod), "when": format_time(leaving.time), "reasons": reasons})
    for rule in rules:
        seen = published
        if rule.spec.taint.effect == NO_EFFECT:
            seen = PublishedDevices(slices, [as_if_evicting(rule), *(one for one in rules if one is not rule)])
        counts: dict[str, int] = {}
        for pod in pods:
            leaving = seen.leaving(claims_of(pod, claims))
            if leaving is not None and any(one.rule == rule.metadata.name for one in leaving.taints):
                namespace = _namespace(pod)
                counts[namespace] = counts.get(namespace, 0) + 1
        found = progress(
            rule,
            counts,
            evicted=int(evicted.get(rule.metadata.name) or 0),
            published=published.published(rule),
            allocated=sum(rule_selects(rule, device) for device in devices_of(list(claims.values()))),
        )
        answer["conditions"].append(
            {"rule": rule.metadata.name, "status": found.status, "reason": found.reason, "message": found.message}
        )
    return answer


def _namespace(pod: Object) -> str:
    return str(at(pod, "metadata", "namespace") or "")


def _key(pod: Object) -> str:
    return f"{_namespace(pod)}/{name_in(pod)}"


def _all(kind: type[_Kind], fields: RequestFields, name: str) -> list[_Kind]:
    head = {"apiVersion": "resource.k8s.io/v1", "kind": kind.__name__}
    return [_parsed(kind, {**head, **one}, f"{name}[{place}]") for place, one in enumerate(objects(fields, name))]


def _parsed(kind: type[_Kind | Taint], given: Mapping[str, Any], path: str) -> Any:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (path, *first["loc"])))
        raise RequestError(invalid(where, first["input"], first["msg"])) from None
