"""The pools of devices that a node can use.

A pool is what a driver publishes under one name, in several slices. Only slices of its highest generation count. While
some of them are missing, the pool is incomplete, and nothing is allocated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from moorage.decide.kubernetes.cel.functions.amounts import quantity_of
from moorage.decide.kubernetes.cel.functions.versions import version_of
from moorage.decide.kubernetes.cel.values import Domains, Value
from moorage.decide.kubernetes.quantities import parse_quantity
from moorage.decide.kubernetes.selectors import matches_node_selector
from moorage_schemas.resources.devices import Device, DeviceAttribute, DeviceCounter, ResourceSlice, ResourceSliceSpec
from moorage_schemas.resources.pod import NodeSelector


class DeviceId(NamedTuple):
    """The identity of a device: unique in the fleet."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PoolId(NamedTuple):
    """The identity of a pool."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceNode(NamedTuple):
    """A node, as far as the selection of its devices depends on it."""

    name: str
    labels: Mapping[str, str]


class PooledDevice:
    """A device in its pool.

    Attributes:
        id: its identity.
        device: the device as published.
        slice: the slice that publishes it.
    """

    def __init__(self, device_id: DeviceId, device: Device, of_slice: ResourceSliceSpec) -> None:
        self.id = device_id
        self.device = device
        self.slice = of_slice

    @cached_property
    def document(self) -> dict[str, Value]:
        """The value of the variable `device` in selectors.

        Raises:
            ValueError: an attribute or a capacity has no value that selectors can read.
        """
        attributes, capacity = Domains(), Domains()
        for name, attribute in (self.device.attributes or {}).items():
            domain, own = _qualified(name, self.id.driver)
            attributes.setdefault(domain, {})[own] = _attribute(name, attribute)
        for name, amount in (self.device.capacity or {}).items():
            domain, own = _qualified(name, self.id.driver)
            capacity.setdefault(domain, {})[own] = quantity_of(str(amount.value))
        return {
            "driver": self.id.driver,
            "allowMultipleAllocations": bool((self.device.model_extra or {}).get("allowMultipleAllocations")),
            "attributes": attributes,
            "capacity": capacity,
        }

    def attribute(self, qualified: str) -> Value | None:
        """Return an attribute by its name with a domain, with its type. None if the device does not have it."""
        attributes = self.device.attributes or {}
        found = attributes.get(qualified)
        if found is None:
            domain, slash, own = qualified.partition("/")
            found = attributes.get(own) if slash and domain == self.id.driver else None
        if found is None:
            return None
        return _typed(found)

    @cached_property
    def consumes(self) -> tuple[tuple[str, str, Fraction], ...]:
        """The set, the name and the amount of each counter that the device takes."""
        return tuple(
            (part.counter_set, name, _amount(counter))
            for part in self.device.consumes_counters or ()
            for name, counter in (part.counters or {}).items()
        )


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _typed(attribute: DeviceAttribute) -> tuple[str, Value] | None:
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, f"{kind}_value")
        if value is not None:
            return kind, value
    return None


def _attribute(name: str, attribute: DeviceAttribute) -> Value:
    found = _typed(attribute)
    if found is None:
        raise ValueError(f"attribute {name}: unsupported attribute value")
    kind, value = found
    return version_of(value) if kind == "version" else value


def _amount(counter: DeviceCounter) -> Fraction:
    return parse_quantity(counter.value, "value")


@dataclass(frozen=True, eq=False)
class DevicePool:
    """A pool as a node sees it.

    Attributes:
        id: its identity.
        problem: why nothing can be allocated from it: it is incomplete, or its slices contradict each other.
        incomplete: whether slices are missing.
        devices: the devices in slices for the node, in the order of the slices.
        elsewhere: the other devices of the pool, which may take counters.
        counters: the shared counters: set, name → amount.
    """

    id: PoolId
    problem: str = ""
    incomplete: bool = False
    devices: tuple[PooledDevice, ...] = ()
    elsewhere: tuple[PooledDevice, ...] = ()
    counters: Mapping[tuple[str, str], Fraction] | None = None


def node_matches(node: DeviceNode, name: str, *, all_nodes: bool, selector: NodeSelector | None) -> bool:
    """Return whether a node is selected by name, as one of all, or by its labels."""
    if name:
        return node.name == name
    return all_nodes or (selector is not None and matches_node_selector(selector, node.labels, node.name))


def _is_for(spec: ResourceSliceSpec, node: DeviceNode) -> bool:
    """Return whether a slice matters to a node. One with shared counters matters to all."""
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return node_matches(node, spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector)
    return spec.per_device_node_selection and any(device_is_for(device, node) for device in spec.devices or ())


def device_is_for(device: Device, node: DeviceNode) -> bool:
    """Return whether a node can use a device of a slice that selects nodes for each device."""
    return node_matches(node, device.node_name, all_nodes=device.all_nodes, selector=device.node_selector)


def pools_for(node: DeviceNode, slices: Iterable[ResourceSlice]) -> list[DevicePool]:
    """Return the pools with devices for a node, sorted by driver and name. Older generations are left out.

    As upstream, slices that are not for the node are looked at only where those for the node are not all of their pool.
    """
    of_pool: dict[PoolId, list[ResourceSlice]] = {}
    for one in slices:
        of_pool.setdefault(PoolId(one.spec.driver, one.spec.pool.name), []).append(one)
    found = []
    for pool_id in sorted(of_pool):
        present = of_pool[pool_id]
        own = _newest([one for one in present if _is_for(one.spec, node)])
        if not own:
            continue
        pool = own[0].spec.pool
        if len(own) == pool.resource_slice_count:
            found.append(_built(pool_id, own, ()))
            continue
        newest = _newest(present)
        if newest[0].spec.pool.generation > pool.generation:
            continue
        if len(newest) != pool.resource_slice_count:
            found.append(DevicePool(pool_id, f"resource pool {pool_id} is currently being updated", incomplete=True))
            continue
        found.append(_built(pool_id, own, [one for one in newest if one not in own]))
    return found


def _newest(slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the highest generation."""
    generation = max((one.spec.pool.generation for one in slices), default=0)
    return [one for one in slices if one.spec.pool.generation == generation]


def _built(pool_id: PoolId, own: Sequence[ResourceSlice], others: Sequence[ResourceSlice]) -> DevicePool:
    invalid = f"resource pool {pool_id} is currently invalid"
    # A slice with counters has no devices.
    devices = _devices(pool_id, [one for one in own if not one.spec.shared_counters])
    elsewhere = _devices(pool_id, others)
    if len({device.id for device in devices}) < len(devices):
        return DevicePool(pool_id, invalid)
    counters: dict[tuple[str, str], Fraction] = {}
    sets = [of_set for one in own for of_set in one.spec.shared_counters or ()]
    if len({of_set.name for of_set in sets}) < len(sets):
        return DevicePool(pool_id, invalid)
    for of_set in sets:
        for name, counter in (of_set.counters or {}).items():
            counters[of_set.name, name] = _amount(counter)
    known = {of_set.name for of_set in sets}
    for device in (*devices, *elsewhere):
        if any(part.counter_set not in known for part in device.device.consumes_counters or ()):
            return DevicePool(pool_id, invalid)
        if any((name, counter) not in counters for name, counter, _ in device.consumes):
            return DevicePool(pool_id, invalid)
    return DevicePool(pool_id, devices=devices, elsewhere=elsewhere, counters=counters)


def _devices(pool_id: PoolId, slices: Iterable[ResourceSlice]) -> tuple[PooledDevice, ...]:
    return tuple(
        PooledDevice(DeviceId(*pool_id, device.name), device, one.spec)
        for one in slices
        for device in one.spec.devices or ()
    )
