"""The taints of devices, and when work that holds devices leaves because of them.

As Kubernetes' device taint eviction controller decides it, from the objects alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from moorage.decide.scheduling.devices.pools import DeviceId, PoolId
from moorage.decide.taints.dialects.devices import DEVICES, NO_EFFECT, leaves_at
from moorage_schemas.resources.devices import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from moorage_schemas.taint import Taint


class DeviceTaint(NamedTuple):
    """A taint of a device, with its origin. The order is that of messages: rules by name, then slices by device."""

    rule: str
    """The name of the rule. Empty for a taint of a slice."""

    device: DeviceId | None
    """The device of a slice. None for a rule."""

    place: int
    """The place of the taint among those that the slice gives the device."""

    origin: str
    """The origin as text."""

    taint: Taint


class LeavingDevices(NamedTuple):
    """When work has to leave its devices, and why."""

    time: datetime
    """UTC. The earliest of all taints."""

    taints: tuple[DeviceTaint, ...]
    """Every taint for which it leaves, sorted."""

    @property
    def reason(self) -> str:
        """The origins of the taints as text."""
        return ", ".join(one.origin for one in self.taints)


class PublishedDevices:
    """The devices of all pools at their newest generation, and the rules that taint them.

    Args:
        slices: all slices.
        rules: all rules.
    """

    def __init__(self, slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule]) -> None:
        newest: dict[PoolId, int] = {}
        known = list(slices)
        for one in known:
            pool = PoolId(one.spec.driver, one.spec.pool.name)
            newest[pool] = max(newest.get(pool, one.spec.pool.generation), one.spec.pool.generation)
        self._devices: dict[DeviceId, tuple[ResourceSlice, Device]] = {}
        self._published: list[DeviceId] = []
        for one in known:
            pool = PoolId(one.spec.driver, one.spec.pool.name)
            if one.spec.pool.generation < newest[pool]:
                continue
            for device in one.spec.devices or ():
                device_id = DeviceId(*pool, device.name)
                self._devices.setdefault(device_id, (one, device))
                self._published.append(device_id)
        self._rules = sorted(rules, key=lambda rule: rule.metadata.name)

    def published(self, rule: DeviceTaintRule) -> int:
        """Return the number of published devices that a rule selects."""
        return sum(rule_selects(rule, device) for device in self._published)

    def taints(self, device_id: DeviceId) -> Iterator[DeviceTaint]:
        """Yield all taints of a device, sorted: those of rules, then those of its slice."""
        for rule in self._rules:
            if rule_selects(rule, device_id):
                yield of_rule(rule)
        found = self._devices.get(device_id)
        if found is None:
            return
        of_slice, device = found
        origin = f"ResourceSlice {_object(of_slice.metadata.name, of_slice.metadata.uid)} {device_id}"
        for place, taint in enumerate(device.taints or ()):
            yield DeviceTaint("", device_id, place, f"{origin} taint #{place}", taint)

    def leaving(self, claims: Iterable[ResourceClaim]) -> LeavingDevices | None:
        """Return when work that holds claims has to leave their devices. None if it may stay."""
        found: set[DeviceTaint] = set()
        first: datetime | None = None
        for claim in claims:
            allocation = claim.status.allocation
            for result in (allocation.devices.results or ()) if allocation is not None else ():
                for taint in self.taints(DeviceId(result.driver, result.pool, result.device)):
                    time = leaves_at(taint.taint, result.tolerations or ())
                    if time is not None:
                        found.add(taint)
                        first = time if first is None else min(first, time)
        return None if first is None else LeavingDevices(first, tuple(sorted(found, key=_order)))


def _order(taint: DeviceTaint) -> tuple[bool, str, DeviceId, int]:
    return taint.device is not None, taint.rule, taint.device or DeviceId("", "", ""), taint.place


def of_rule(rule: DeviceTaintRule) -> DeviceTaint:
    """Return the taint of a rule."""
    origin = f"DeviceTaintRule {_object(rule.metadata.name, rule.metadata.uid)}"
    return DeviceTaint(rule.metadata.name, None, 0, origin, rule.spec.taint)


def _object(name: str, uid: str) -> str:
    """Return how messages name an object of the cluster, as upstream does: with an empty namespace."""
    return f"/{name}:{uid}"


def rule_selects(rule: DeviceTaintRule, device: DeviceId) -> bool:
    """Return whether a rule taints a device. Without a selector it taints none, with an empty one all."""
    selector = rule.spec.device_selector
    return (
        selector is not None
        and selector.driver in (None, device.driver)
        and selector.pool in (None, device.pool)
        and selector.device in (None, device.device)
    )


# --- the condition of a rule


@dataclass(frozen=True, slots=True)
class RuleProgress:
    """The condition `EvictionInProgress` of a rule.

    Attributes:
        status: `True` while work still has to leave.
        reason: the state as one word.
        message: the state as text.
    """

    status: str
    reason: str
    message: str


def as_if_evicting(rule: DeviceTaintRule) -> DeviceTaintRule:
    """Return a rule with the effect NoExecute, to find out which work would leave."""
    taint = rule.spec.taint.model_copy(update={"effect": "NoExecute"})
    return rule.model_copy(update={"spec": rule.spec.model_copy(update={"taint": taint})})


def progress(
    rule: DeviceTaintRule, leaving: Mapping[str, int], *, evicted: int = 0, published: int = 0, allocated: int = 0
) -> RuleProgress:
    """Return the condition of a rule.

    Args:
        rule: the rule.
        leaving: how many pods in each namespace have to leave because of the rule. For the effect None: would have to.
        evicted: how many pods were evicted because of it.
        published: how many published devices it selects.
        allocated: how many allocated devices it selects.
    """
    effect = rule.spec.taint.effect
    status, parts = "False", []
    pods, namespaces = sum(leaving.values()), len(leaving)
    if effect in DEVICES.evicting:
        reason = "Completed" if evicted else "NotStarted"
        if pods:
            status, reason = "True", "PodsPendingEviction"
            where = "1 namespace." if namespaces == 1 else f"{namespaces} different namespaces."
            parts.append(f"{_pods(pods)} {'needs' if pods == 1 else 'need'} to be evicted in {where}")
    elif effect == NO_EFFECT:
        reason = "NoEffect"
        where = "1 namespace" if namespaces == 1 else f"{namespaces} different namespaces"
        parts += [
            f"{_count(published, 'published device')} selected.",
            f"{_count(allocated, 'allocated device')} selected.",
            f"{_pods(pods)} would be evicted in {where} if the effect was NoExecute.",
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
        ]
    else:
        reason = "OtherEffect"
        parts.append("Eviction only happens for the NoExecute effect.")
    if evicted:
        parts.append(f"{_pods(evicted)} evicted since starting the controller.")
    return RuleProgress(status, reason, " ".join(parts))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pods(number: int) -> str:
    return _count(number, "pod")


def devices_of(claims: Sequence[ResourceClaim]) -> list[DeviceId]:
    """Return the devices that claims have got, in their order."""
    return [
        DeviceId(result.driver, result.pool, result.device)
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results or ()
    ]
