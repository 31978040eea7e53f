"""The reports of probes in a simulation: single conditions, and outages of whole zones.

Declared objects are changed through the gateway of the copy (`moorage.insight.copy.gateway`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.decide.conditions.heartbeats import BY_HAND, WITHOUT_HEARTBEATS
from moorage.decide.disruption.object_names import zone_of_object
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage.decide.taints.desired.incidents import READY, zone_of_target
from moorage.decide.taints.desired.managed_taints import AVAILABLE
from moorage.insight.copy.stack import MemoryStack
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_structured
from moorage_schemas.keys import condition_key
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.topics import CONDITIONS, RESOURCES

SOURCE: Final = f"{BY_HAND}simulate"
"""The source of reports in the copy. It counts as a person, so that no heartbeats are expected."""

_TICK: Final = timedelta(microseconds=1)
_ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_CLUSTERS: Final = (TargetKind.CLUSTER.value, TargetKind.MANAGED_CLUSTER.value)

Event = dict[str, Any]
Test = Callable[[ResourceDeclared], bool]


class ChangeError(ValueError):
    """A change cannot be parsed, or it matches nothing."""


@dataclass(frozen=True, slots=True)
class ZoneOutage:
    """An outage of the targets that match."""

    text: str
    fits: Test

    @classmethod
    def parse(cls, text: str) -> ZoneOutage:
        """Parse `zone=a`, `zone=eu/a`, `region=eu`, `node=n1`, `cluster=c1`, or a label selector.

        Raises:
            ChangeError: it is none of these.
        """
        word, equals, value = text.partition("=")
        test = _TESTS.get(word.strip().lower())
        if test is not None and equals and value and not value.startswith("="):
            return cls(text, test(value.strip()))
        if not text.strip():
            raise ChangeError(f"invalid outage {text!r}: must name what fails, such as zone=eu/a, node=n1 or tier=web")
        try:
            chosen = selector(text, "")
        except StatusError as error:
            raise ChangeError(
                f"invalid outage {text!r}: must be zone=…, region=…, node=…, cluster=… or a label selector: "
                f"{error.message}"
            ) from None
        return cls(text, lambda declared: chosen(declared.object))

    def targets(self, stack: MemoryStack) -> list[TargetRef]:
        """Return the declared targets that fail. Raises ChangeError if there are none."""
        targets = {
            target: declared
            for key, declared in stack.table(RESOURCES).items()
            if (target := target_of_resource(key)) is not None
        }
        return self.among(targets)

    def among(self, targets: Mapping[TargetRef, ResourceDeclared]) -> list[TargetRef]:
        """Return those of the targets that fail. Raises ChangeError if there are none."""
        found = [target for target, declared in targets.items() if self.fits(declared)]
        if not found:
            raise ChangeError(f"--outage {self.text}: no node or cluster matches")
        return found


def outage(stack: MemoryStack, targets: Sequence[TargetRef], status: ConditionStatus) -> list[Event]:
    """Return the reports of the failure of targets, as CloudEvents.

    With Unknown, all conditions that have heartbeats become Unknown, as after the grace periods of all sources. With
    another status, only the main condition is reported.
    """
    conditions: Mapping[str, ConditionChanged] = stack.table(CONDITIONS)
    by_target: dict[str, list[ConditionChanged]] = {}
    for condition in conditions.values():
        by_target.setdefault(condition.target.key, []).append(condition)
    events = []
    for target in targets:
        types = {main_condition(target.kind)}
        if status is ConditionStatus.UNKNOWN:
            types |= {
                held.type
                for held in by_target.get(target.key, ())
                if held.status is not ConditionStatus.UNKNOWN and not held.source.startswith(WITHOUT_HEARTBEATS)
            }
        for name in sorted(types):
            known = conditions.get(condition_key(target, name))
            events.append(_event(target, name, status, known, now=stack.now, reason="Outage"))
    return events


def condition(stack: MemoryStack, target: TargetRef, name: str, status: ConditionStatus) -> Event:
    """Return the report of one condition, as a CloudEvent."""
    known = stack.table(CONDITIONS).get(condition_key(target, name))
    return _event(target, name, status, known, now=stack.now, reason="Simulated")


def main_condition(kind: TargetKind) -> str:
    """Return the type of the condition that states whether a target can be used."""
    return AVAILABLE if kind is TargetKind.MANAGED_CLUSTER else READY


def _event(
    target: TargetRef,
    name: str,
    status: ConditionStatus,
    known: ConditionChanged | None,
    *,
    now: datetime,
    reason: str,
) -> Event:
    # The report must not be older than the present condition, whose source may have a clock that is ahead.
    seen = now if known is None else max(now, known.last_heartbeat_time + _TICK)
    event = ConditionReported(target=target, type=name, status=status, reason=reason, observed_time=seen, source=SOURCE)
    identity = event_id("simulate", target.key, name, status.value, seen)
    meta = Meta(id=identity, source=SOURCE, type=event.event_type, time=now, subject=target.key)
    return to_structured(meta, event)


def _in_zone(value: str) -> Test:
    wanted = {value, zone_of_object(value)}
    return lambda declared: not wanted.isdisjoint(_zones(declared))


def _in_region(value: str) -> Test:
    return lambda declared: value in _regions(declared)


def _named(*kinds: str) -> Callable[[str], Test]:
    return lambda value: lambda declared: declared.kind in kinds and declared.name == value


def _zones(declared: ResourceDeclared) -> set[str]:
    """Return the zones of a target, as `region/zone` and as `zone`."""
    found = {zone_of_target(declared)}
    if declared.kind == TargetKind.CLUSTER.value:
        found |= {
            f"{ClusterFacts.of(declared.object).region}/{zone}" for zone in ClusterFacts.of(declared.object).zones
        }
    if declared.kind == TargetKind.MANAGED_CLUSTER.value:
        zone, region = (_labels(declared).get(label, "") for label in _ZONE_LABELS)
        found.add(f"{region}/{zone}")
    return {name for zone in found if zone.strip("/") for name in (zone, zone.rpartition("/")[2]) if name}


def _regions(declared: ResourceDeclared) -> set[str]:
    found = {zone_of_target(declared).partition("/")[0]}
    if declared.kind == TargetKind.MANAGED_CLUSTER.value:
        found.add(_labels(declared).get(_ZONE_LABELS[1], ""))
    return found - {""}


def _labels(declared: ResourceDeclared) -> Mapping[str, str]:
    found: Mapping[str, str] = (declared.object.get("metadata") or {}).get("labels") or {}
    return found


_TESTS: Final[Mapping[str, Callable[[str], Test]]] = {
    "zone": _in_zone,
    "region": _in_region,
    "node": _named(TargetKind.NODE.value),
    "cluster": _named(*_CLUSTERS),
    "managedcluster": _named(TargetKind.MANAGED_CLUSTER.value),
}
