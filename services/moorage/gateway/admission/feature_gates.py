"""The settings that decide what is admitted, and what whoever writes is told although it was taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from moorage.core.admission.validation.ocm import misconfigured_expressions, misconfigured_tolerations
from moorage.core.apimachinery.unstructured import part
from moorage.core.taints.desired.addons import LABEL_PREFIX
from moorage.core.taints.desired.from_conditions import belongs_to_state
from moorage.gateway.admission.unknown_fields import told_of
from moorage.runtime.settings import Settings
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.pod import OpenToleration
from moorage_schemas.taint import TaintEffect
from moorage_schemas.times import parse_time

_TARGETS = frozenset(TargetKind)

NOT_ENFORCED = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
"""Kinds that are kept for what asks for them, and decide nothing yet."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """What is switched on; all of it is off by default."""

    failover: bool = False
    """The feature gate: whether taints by ClusterTaintPolicy, and evictions from clusters, happen at all."""

    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may hold a taint that evicts."""

    enable_no_execute_taint_eviction: bool = False
    """Whether such taints evict from clusters."""

    external_cloud: bool = False
    """Whether new nodes are declared with an external cloud provider."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The switches of a process."""
        return cls(
            failover=settings.failover,
            allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
            enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
            external_cloud=settings.cloud_provider == "external",
        )


_FAILOVER = "--feature-gates=Failover=true (MOORAGE_FEATURE_GATES=Failover=true)"
_EVICTION = "--enable-no-execute-taint-eviction=true (MOORAGE_ENABLE_NO_EXECUTE_TAINT_EVICTION=true)"


def warnings(document: Mapping[str, Any], switches: FeatureGates) -> Iterator[str]:
    """What to tell whoever has written an object: what of it has no effect as things stand."""
    kind, spec = document.get("kind"), document.get("spec") or {}
    if kind == "ClusterTaintPolicy" and not switches.failover:
        yield f"the policy has no effect until Moorage is started with {_FAILOVER}"
    elif kind in {"ClusterTaintPolicy", "Cluster"}:
        evicting = any(taint.get("effect") == TaintEffect.NO_EXECUTE for taint in spec.get("taints") or ())
        missing = [
            flag
            for flag, on in ((_FAILOVER, switches.failover), (_EVICTION, switches.enable_no_execute_taint_eviction))
            if not on
        ]
        if evicting and missing:
            yield (
                f"NoExecute taints evict nothing from clusters until Moorage is started with {' and '.join(missing)}"
            )
    if kind in NOT_ENFORCED:
        yield f"a {kind} is kept and shown, but permissions are not enforced yet"
    yield from told_of(document)
    if kind == "Placement":
        if spec.get("spreadPolicy"):
            yield "spec.spreadPolicy has no effect"
        tolerations = [OpenToleration.model_validate(one) for one in spec.get("tolerations") or ()]
        wrong = [*misconfigured_expressions(spec), *misconfigured_tolerations(tolerations)]
        yield from (f"the placement is misconfigured: {error}" for error in wrong)
    if kind in {"PropagationPolicy", "ClusterPropagationPolicy"}:
        failover = spec.get("failover") or {}
        if failover.get("cluster") and not switches.failover:
            yield f"spec.failover.cluster has no effect until Moorage is started with {_FAILOVER}"
        if failover.get("application"):
            yield "spec.failover.application has no effect: Moorage acts on taints of clusters, not on applications"


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
