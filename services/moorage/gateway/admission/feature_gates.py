"""The features that the settings turn on, and the warnings about accepted writes."""

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
    """The features that the settings of a process turn on."""
    return FeatureGates(
        failover=settings.failover,
        allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
        enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
        external_cloud=settings.cloud_provider == "external",
    )


def warnings(document: Mapping[str, Any], kind: Kind[Any], switches: FeatureGates) -> Iterator[str]:
    """Warnings for the writer of an object: which parts of it have no effect at present."""
    yield from unknown_field_warnings(document, kind)
    yield from kind.warnings(document, switches)


def unused(document: Mapping[str, Any], sent: Mapping[str, Any]) -> Iterator[str]:
    """Warnings for the writer of an object: which parts of the request were not applied.

    Args:
        document: the object as it is shown now.
        sent: the object or the patch in the request.
    """
    if document.get("kind") in _TARGETS:
        yield from _left_to_state(document, sent)
    if document.get("kind") != TargetKind.MANAGED_CLUSTER:
        return
    labels, spec = part(part(sent, "metadata"), "labels"), part(sent, "spec")
    shown = part(part(document, "metadata"), "labels")
    for name in sorted(labels):
        if name.startswith(LABEL_PREFIX) and labels[name] != shown.get(name):
            why = "is maintained by the system, from the add-on's lease"
            yield f"metadata.labels: {name} {why}: {labels[name]!r} was not used"
    times = {
        (taint["key"], taint["effect"]): taint["timeAdded"] for taint in part(document, "spec").get("taints") or ()
    }
    for number, taint in enumerate(spec.get("taints") or ()):
        time = taint.get("timeAdded")
        if time and not same_time(time, times.get((taint.get("key"), taint.get("effect")))):
            yield f"spec.taints[{number}].timeAdded is set by the system: {time!r} was not used"


def _left_to_state(document: Mapping[str, Any], sent: Mapping[str, Any]) -> Iterator[str]:
    """Warnings about taints in the request that were ignored because the target's state determines them."""
    shown = {(one["key"], one["effect"]): one.get("value") or "" for one in part(document, "spec").get("taints") or ()}
    for number, taint in enumerate(part(sent, "spec").get("taints") or ()):
        key, effect, value = taint.get("key") or "", taint.get("effect") or "", taint.get("value") or ""
        if belongs_to_state(document, key, effect, value) and shown.get((key, effect)) != value:
            why = f"is determined by the state of the {document['kind']}"
            yield f"spec.taints[{number}]: {key}:{effect} {why}, and was not applied"


def same_time(one: str, other: str | None) -> bool:
    """Whether two texts state the same instant. A text that is not a time states none."""
    try:
        return other is not None and parse_time(one) == parse_time(other)
    except ValueError:
        return False


def warning_header(text: str) -> str:
    """A warning in the form of the HTTP header `Warning` (RFC 7234), which kubectl shows."""
    plain = text.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{plain}"'
