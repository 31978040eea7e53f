"""What the settings switch on, and what whoever writes is told although it was taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.core.admission.feature_gates import FeatureGates
from moorage.core.apimachinery.unstructured import part
from moorage.core.taints.desired.addons import LABEL_PREFIX
from moorage.core.taints.desired.from_conditions import belongs_to_state
from moorage.gateway.admission.unknown_fields import unknown_field_warnings
from moorage.kinds.kind import Kind
from moorage.runtime.settings import Settings
from moorage_schemas.refs import TargetKind
from moorage_schemas.times import parse_time

_TARGETS = frozenset(TargetKind)


def feature_gates(settings: Settings) -> FeatureGates:
    """What the settings of a process switch on."""
    return FeatureGates(
        failover=settings.failover,
        allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
        enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
        external_cloud=settings.cloud_provider == "external",
    )


def warnings(document: Mapping[str, Any], kind: Kind[Any], switches: FeatureGates) -> Iterator[str]:
    """What to tell whoever has written an object: what of it has no effect as things stand."""
    yield from unknown_field_warnings(document, kind)
    yield from kind.warnings(document, switches)


def unused(document: Mapping[str, Any], sent: Mapping[str, Any]) -> Iterator[str]:
    """What to tell whoever has written an object: what of what was sent was not taken over.

    Args:
        document: the object as it is shown now.
        sent: what came: the object, or a patch.
    """
    if document.get("kind") in _TARGETS:
        yield from _left_to_state(document, sent)
    if document.get("kind") != TargetKind.MANAGED_CLUSTER:
        return
    labels, spec = part(part(sent, "metadata"), "labels"), part(sent, "spec")
    shown = part(part(document, "metadata"), "labels")
    for name in sorted(labels):
        if name.startswith(LABEL_PREFIX) and labels[name] != shown.get(name):
            why = "is kept by the system, from the add-on's lease"
            yield f"metadata.labels: {name} {why}: {labels[name]!r} was not used"
    times = {
        (taint["key"], taint["effect"]): taint["timeAdded"] for taint in part(document, "spec").get("taints") or ()
    }
    for number, taint in enumerate(spec.get("taints") or ()):
        time = taint.get("timeAdded")
        if time and not same_time(time, times.get((taint.get("key"), taint.get("effect")))):
            yield f"spec.taints[{number}].timeAdded is set by the system: {time!r} was not used"


def _left_to_state(document: Mapping[str, Any], sent: Mapping[str, Any]) -> Iterator[str]:
    """What of the taints that were sent is not there, or is another, because it follows from the target's state."""
    shown = {(one["key"], one["effect"]): one.get("value") or "" for one in part(document, "spec").get("taints") or ()}
    for number, taint in enumerate(part(sent, "spec").get("taints") or ()):
        key, effect, value = taint.get("key") or "", taint.get("effect") or "", taint.get("value") or ""
        if belongs_to_state(document, key, effect, value) and shown.get((key, effect)) != value:
            why = f"comes and goes with the state of the {document['kind']}"
            yield f"spec.taints[{number}]: {key}:{effect} {why}, and was not taken over"


def same_time(one: str, other: str | None) -> bool:
    """Whether two texts name the same instant; what is no time names none."""
    try:
        return other is not None and parse_time(one) == parse_time(other)
    except ValueError:
        return False


def warning_header(text: str) -> str:
    """A warning as the HTTP header `Warning` has it (RFC 7234), and kubectl shows it."""
    plain = text.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{plain}"'
