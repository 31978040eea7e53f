"""The zone of a target, its incident, and the zone member record for the governor (docs/domain.md, "Zones")."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from moorage.decide.kubernetes.taint_keys import NOT_READY, UNREACHABLE
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage.decide.taints.desired.from_conditions import NO_HOLD, hold_end
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TaintEffect, TaintOrigin, TargetTainted
from moorage_schemas.zone import ZoneMembered, zone_of

READY: Final = "Ready"

_REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
"""The older names come first. As in Kubernetes, they take precedence if a node has both."""

_DISRUPTED: Final = frozenset({NOT_READY, UNREACHABLE})


def zone_of_target(resource: ResourceDeclared) -> str:
    """Return the zone of a declared target, `region/zone`. Empty for kinds without zones.

    Each cluster that is mirrored under a name has its own zones; its name and a colon precede them.
    """
    zone = _zone_of(resource)
    return f"{resource.cluster}:{zone}" if zone and resource.cluster else zone


def _zone_of(resource: ResourceDeclared) -> str:
    if resource.kind == TargetKind.NODE.value:
        labels = part(part(resource.object, "metadata"), "labels")
        return zone_of(_first(labels, _REGION_LABELS), _first(labels, _ZONE_LABELS))
    if resource.kind == TargetKind.CLUSTER.value:
        facts = ClusterFacts.of(resource.object)
        spec = part(resource.object, "spec")
        zone = spec.get("zone") or (facts.zones[0] if facts.zones else "")
        return zone_of(facts.region, zone if isinstance(zone, str) else "")
    return ""


def _first(labels: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := labels.get(name), str)), "")


def incident_of(
    kind: str,
    conditions: Mapping[str, ConditionChanged],
    before: TargetTainted | None,
    generation: int,
    now: datetime,
) -> tuple[int, datetime | None]:
    """Return a target's incident and its begin. 0 and None while the target is ready, or if it is not a node.

    Args:
        kind: the target's kind.
        conditions: the target's own conditions.
        before: the target's previous taints, if they belong to the same target. An unknown condition leaves the
    incident unchanged, because a restored table may lack records that were compacted away.
        generation: the generation of the record that is being made. It becomes the number of an incident that begins
    now.
        now: the start time of an incident that begins now.
    """
    if kind != TargetKind.NODE.value:
        return 0, None
    known = (before.incident, before.incident_time) if before is not None else (0, None)
    ready = conditions.get(READY)
    if ready is None:
        return known
    if ready.status is ConditionStatus.TRUE:
        return 0, None
    return known if known[0] else (generation, now)


def carries_for_incident(event: TargetTainted) -> bool:
    """Return whether a node has a `NoExecute` taint because it is not ready, during an incident."""
    return event.incident > 0 and any(
        record.effect == TaintEffect.NO_EXECUTE.value
        and record.key in _DISRUPTED
        and TaintOrigin.CONDITION in record.origins
        for record in event.taints
    )


def member_of(
    event: TargetTainted, now: datetime, correlation: str = "", trace: str = "", *, hold: timedelta = NO_HOLD
) -> ZoneMembered:
    """Return the zone member record of a node, made from its taints.

    Args:
        event: the node's taints.
        now: the start time of the ready state, if the node is ready.
        correlation: the correlation id of the present chain. A later grant continues this chain.
        trace: the trace context of that chain.
        hold: how long the node's condition must hold before it adds a taint. The node waits for its zone from the end
            of the hold. If grants were given before, all grants of a whole hold would be used at once when the hold
            ends.
    """
    began = event.incident_time
    return ZoneMembered(
        target=event.target,
        target_uid=event.target_uid,
        zone=event.zone,
        generation=event.generation,
        ready=event.incident == 0,
        incident=event.incident,
        since=now if began is None else hold_end(began, hold) or began,
        tainted=carries_for_incident(event),
        correlation_id=correlation,
        traceparent=trace,
    )


def zone_sees_change(before: TargetTainted | None, after: TargetTainted) -> bool:
    """Return whether a change of a node must be reported to the governor."""
    return (
        before is None
        or (before.target_uid, before.zone, before.incident) != (after.target_uid, after.zone, after.incident)
        or carries_for_incident(before) != carries_for_incident(after)
    )
