"""Kinds of dynamic resource allocation (resource.k8s.io): devices, claims to them, and rules that taint them.

A driver publishes the devices of a pool in `ResourceSlice`s. A pod requests devices by a `ResourceClaim`. A
`DeviceTaintRule` adds a taint to the devices that it selects.
"""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp
from moorage_schemas.resources.meta import ObjectMeta
from moorage_schemas.resources.node import OpenTaint
from moorage_schemas.resources.pod import NodeSelector
from moorage_schemas.taint import Toleration

Number = str | int | float
"""A quantity, as people write it."""


class DeviceObject(OpenModel):
    """Any object of this group. The gateway does not serve them yet."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)


class OpenDeviceToleration(Toleration, OpenModel):
    """A toleration of taints of devices."""


class DeviceAttribute(OpenModel):
    """The value of an attribute. Exactly one field is set."""

    int_value: int | None = Field(default=None, alias="int")
    bool_value: bool | None = Field(default=None, alias="bool")
    string_value: str | None = Field(default=None, alias="string")
    version_value: str | None = Field(default=None, alias="version")


class DeviceCapacity(OpenModel):
    """How much a device has of something."""

    value: Number = 0


class DeviceCounter(OpenModel):
    """How much there is of something that devices share."""

    value: Number = 0


class CounterSet(OpenModel):
    """Counters under a name, which the devices of a pool share."""

    name: str = ""
    counters: dict[str, DeviceCounter] | None = None


class DeviceCounterConsumption(OpenModel):
    """How much of each counter of a set a device takes while it is allocated."""

    counter_set: str = ""
    counters: dict[str, DeviceCounter] | None = None


class Device(OpenModel):
    """One device of a pool."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    """By name. A name without a domain has that of the driver."""

    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: list[OpenTaint] | None = None
    binding_conditions: list[str] | None = None


class ResourcePool(OpenModel):
    """The pool that a slice belongs to. Only slices of the highest generation count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1
    """The number of slices that the pool has at this generation."""


class ResourceSliceSpec(OpenModel):
    """A part of the devices of a pool, and the nodes that can use them."""

    driver: str = ""
    pool: ResourcePool = Field(default_factory=ResourcePool)
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(DeviceObject):
    """Devices that a driver publishes; cluster-scoped."""

    spec: ResourceSliceSpec = Field(default_factory=ResourceSliceSpec)


class CELDeviceSelector(OpenModel):
    """A CEL expression over `device`."""

    expression: str = ""


class DeviceSelector(OpenModel):
    """Selects devices."""

    cel: CELDeviceSelector | None = None


class DeviceClassSpec(OpenModel):
    """The devices of a class."""

    selectors: list[DeviceSelector] | None = None


class DeviceClass(DeviceObject):
    """A name for a sort of devices; cluster-scoped."""

    spec: DeviceClassSpec = Field(default_factory=DeviceClassSpec)


class ExactDeviceRequest(OpenModel):
    """The devices of one request."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = "ExactCount"
    """`ExactCount`, or `All`: every device that fits."""

    count: int = 1
    admin_access: bool | None = None
    """Whether the devices are used beside those who have them, to look after them."""

    tolerations: list[OpenDeviceToleration] | None = None


class DeviceSubRequest(ExactDeviceRequest):
    """One of several ways to satisfy a request."""

    name: str = ""


class DeviceRequest(OpenModel):
    """A request of a claim. `exactly`, or else the first of `firstAvailable` that can be satisfied."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(OpenModel):
    """A property that the devices of some requests must have in common."""

    requests: list[str] | None = None
    """The names of requests, or of `request/subrequest`. If absent, all."""

    match_attribute: str | None = None
    """The attribute that must be equal, with its domain."""


class DeviceClaim(OpenModel):
    """The requests of a claim, and constraints on what they get."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None


class ResourceClaimSpec(OpenModel):
    """`spec` of a claim."""

    devices: DeviceClaim = Field(default_factory=DeviceClaim)


class DeviceRequestAllocationResult(OpenModel):
    """One device that a claim has got."""

    request: str = ""
    """The name of the request, or of `request/subrequest`."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[OpenDeviceToleration] | None = None


class DeviceAllocationResult(OpenModel):
    """All devices that a claim has got."""

    results: list[DeviceRequestAllocationResult] | None = None


class AllocationResult(OpenModel):
    """The devices that a claim has got, and the nodes on which it can be used."""

    devices: DeviceAllocationResult = Field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: Timestamp | None = None


class ResourceClaimConsumerReference(OpenModel):
    """Who may use a claim: usually a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(OpenModel):
    """`status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None


class ResourceClaim(DeviceObject):
    """A claim to devices."""

    spec: ResourceClaimSpec = Field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = Field(default_factory=ResourceClaimStatus)


class DeviceTaintSelector(OpenModel):
    """The devices that a rule taints. All parts are ANDed. Without parts it selects every device."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(OpenModel):
    """A taint, and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None
    """If absent, the rule selects nothing."""

    taint: OpenTaint


class DeviceTaintRule(DeviceObject):
    """Adds a taint to devices; cluster-scoped."""

    spec: DeviceTaintRuleSpec
