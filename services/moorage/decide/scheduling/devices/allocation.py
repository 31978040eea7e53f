"""Allocates devices to the claims of a pod on one node.

The first solution in a fixed order is taken: claim by claim, request by request, device by device, with a step back
wherever nothing fits. The order of pools is that of driver and name, the order of devices that of the slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from moorage.decide.kubernetes.cel.environments import DEVICE
from moorage.decide.kubernetes.cel.expressions import Evaluation, ExpressionError, compiled
from moorage.decide.kubernetes.cel.values import CelError
from moorage.decide.scheduling.devices.pools import (
    DeviceId,
    DeviceNode,
    DevicePool,
    PooledDevice,
    PoolId,
    device_is_for,
    pools_for,
)
from moorage.decide.taints.dialects.devices import keeps_away
from moorage_schemas.resources.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceConstraint,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from moorage_schemas.resources.meta import SelectorRequirement
from moorage_schemas.resources.pod import NodeSelector, NodeSelectorTerm
from moorage_schemas.taint import Taint

MOST_DEVICES: Final = 32
"""How many devices a claim can get (`AllocationResultsMaxSize`)."""

MOST_STEPS: Final = 100_000
"""How many devices one search tries. Upstream stops a search after ten seconds instead."""

Taints = Callable[[PooledDevice], Iterable[Taint]]
"""Returns all taints of a device: those that its slice has, and those of rules."""


class AllocationError(Exception):
    """The claims cannot be allocated, and the cause is not that devices are taken. The text is upstream's.

    Attributes:
        on_node: whether the claims may be allocated on another node.
    """

    def __init__(self, text: str, *, on_node: bool = False) -> None:
        super().__init__(text)
        self.on_node = on_node


class _TooMany(Exception):  # noqa: N818 - a signal of the search, not an error
    """The present choice gives a claim too many devices."""


@dataclass(eq=False)
class _Request:
    """A request, or one of the ways to satisfy it.

    Attributes:
        name: the name that results show: `request`, or `request/subrequest`.
        names: the names by which constraints may mean it.
        wanted: its devices, as the claim has them.
        selectors: those of its class and its own.
        count: how many devices it takes.
        all: the devices of a request for all.
    """

    name: str
    names: frozenset[str]
    wanted: ExactDeviceRequest
    selectors: tuple[tuple[str, int, DeviceSelector], ...]
    count: int = 0
    all: tuple[PooledDevice, ...] | None = None
    matching: dict[DeviceId, bool] = field(default_factory=dict)

    @property
    def admin(self) -> bool:
        """Whether it takes devices beside those who have them."""
        return bool(self.wanted.admin_access)


@dataclass(eq=False)
class _Constraint:
    """Requires an equal attribute of all devices that some requests get."""

    attribute: str
    requests: frozenset[str]
    values: list[tuple[str, object]] = field(default_factory=list)

    def applies(self, request: _Request) -> bool:
        return not self.requests or not self.requests.isdisjoint(request.names)

    def add(self, request: _Request, device: PooledDevice) -> bool:
        if not self.applies(request):
            return True
        found = device.attribute(self.attribute)
        if found is None or (self.values and self.values[0] != found):
            return False
        self.values.append(found)
        return True

    def remove(self, request: _Request) -> None:
        if self.applies(request):
            self.values.pop()


@dataclass(frozen=True, eq=False)
class Offer:
    """All devices of a fleet, and who has them.

    Attributes:
        slices: all slices.
        classes: the classes by name.
        allocated: the devices that claims have already.
        taints: the taints of devices. If absent, those of their slices alone.
    """

    slices: Iterable[ResourceSlice]
    classes: Mapping[str, DeviceClass]
    allocated: Collection[DeviceId] = ()
    taints: Taints | None = None


def allocate(claims: Sequence[ResourceClaim], node: DeviceNode, offer: Offer) -> list[AllocationResult] | None:
    """Return what each claim gets on a node. None if not all of them can be satisfied there.

    Args:
        claims: the claims that have no devices yet, in the order of the pod.
        node: the node.
        offer: the devices.

    Raises:
        AllocationError: a claim, a class or a pool is wrong, or the search takes too long.
    """
    return _Search(claims, node, offer).result()


def _own_taints(device: PooledDevice) -> Iterable[Taint]:
    return device.device.taints or ()


def claim_name(claim: ResourceClaim) -> str:
    """Return how messages name a claim."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


class _Search:
    """One search on one node."""

    def __init__(self, claims: Sequence[ResourceClaim], node: DeviceNode, offer: Offer) -> None:
        self._claims = claims
        self._node = node
        self._pools = pools_for(node, offer.slices)
        self._classes = offer.classes
        self._allocated = offer.allocated
        self._taints = offer.taints or _own_taints
        self._available: dict[PoolId, dict[tuple[str, str], Fraction]] = {}
        self._takers: dict[DeviceId, list[int]] = {}
        """The claims that the present choice gives a device to, by their places."""

        self._found: list[list[tuple[_Request, PooledDevice]]] = [[] for _ in claims]
        self._steps = 0
        self._dead: set[Hashable] = set()
        """Where the search has failed already, by the devices that are taken: without it, a search for one device too
        many goes through all orders of the others."""

        self._requests = [self._ways(claim) for claim in claims]
        self._constraints = [
            [_constraint(claim, number, one) for number, one in enumerate(claim.spec.devices.constraints or ())]
            for claim in claims
        ]

    def result(self) -> list[AllocationResult] | None:
        """Search, and return the result."""
        try:
            done = self._claim(0)
        except _TooMany:
            done = False
        if done:
            return [_result(found) for found in self._found]
        if any(pool.problem and not pool.incomplete for pool in self._pools):
            raise AllocationError("invalid resource pools were encountered", on_node=True)
        return None

    # --- requests

    def _ways(self, claim: ResourceClaim) -> list[list[_Request]]:
        """Return the ways to satisfy each request of a claim."""
        requests, least = [], 0
        for request in claim.spec.devices.requests or ():
            ways = []
            for sub in request.first_available or ():
                names = frozenset({request.name, f"{request.name}/{sub.name}"})
                ways.append(self._request(claim, f"{request.name}/{sub.name}", names, sub))
            if not ways:
                names = frozenset({request.name})
                ways.append(self._request(claim, request.name, names, request.exactly or ExactDeviceRequest()))
            least += min(way.count for way in ways)
            requests.append(ways)
        if least > MOST_DEVICES:
            raise AllocationError(
                f"claim {claim_name(claim)}: number of requested devices {least} exceeds the claim limit of "
                f"{MOST_DEVICES}"
            )
        return requests

    def _request(self, claim: ResourceClaim, name: str, names: frozenset[str], wanted: ExactDeviceRequest) -> _Request:
        own = wanted.name if isinstance(wanted, DeviceSubRequest) else name
        where = f"claim {claim_name(claim)}, request {own}"
        for number, selector in enumerate(wanted.selectors or ()):
            if selector.cel is None:
                raise AllocationError(f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)")
        if not wanted.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        of_class = self._classes.get(wanted.device_class_name)
        if of_class is None:
            raise AllocationError(
                f"{where}: could not retrieve device class {wanted.device_class_name}: "
                f'deviceclass.resource.k8s.io "{wanted.device_class_name}" not found'
            )
        selectors = [
            *((f"class {of_class.metadata.name}", n, one) for n, one in enumerate(of_class.spec.selectors or ())),
            *((f"claim {claim_name(claim)}", n, one) for n, one in enumerate(wanted.selectors or ())),
        ]
        request = _Request(name, names, wanted, tuple(selectors))
        if wanted.allocation_mode == "ExactCount":
            request.count = wanted.count
        elif wanted.allocation_mode == "All":
            request.all = self._all(where, request)
            request.count = len(request.all)
        else:
            raise AllocationError(f"{where}: unsupported count mode {wanted.allocation_mode}")
        return request

    def _all(self, where: str, request: _Request) -> tuple[PooledDevice, ...]:
        """Return the devices of a request for all of them."""
        for pool in self._pools:
            if pool.problem:
                raise AllocationError(f"{where}: asks for all devices, but {pool.problem}")
        return tuple(device for pool in self._pools for device in pool.devices if self._selects(request, device))

    def _selects(self, request: _Request, device: PooledDevice) -> bool:
        """Return whether a device fits a request, even if a claim has it already."""
        if device.device.binding_conditions:
            return False
        known = request.matching.get(device.id)
        if known is None:
            known = all(_holds(whose, number, one, device) for whose, number, one in request.selectors) and (
                not device.slice.per_device_node_selection or device_is_for(device.device, self._node)
            )
            request.matching[device.id] = known
        return known

    # --- the search

    def _claim(self, place: int) -> bool:
        """Satisfy a claim and those after it."""
        return place >= len(self._claims) or self._next(place, 0)

    def _next(self, claim: int, place: int) -> bool:
        """Satisfy a request and those after it."""
        if place >= len(self._requests[claim]):
            try:
                return self._claim(claim + 1)
            except _TooMany:
                # A claim before may take other devices, so that a way with fewer devices is possible here.
                return False
        ways = self._requests[claim][place]
        if len(ways) == 1 and "/" not in ways[0].name:
            return self._device(claim, place, ways[0], 0)
        too_many = 0
        for way in ways:
            try:
                if self._device(claim, place, way, 0):
                    return True
            except _TooMany:
                too_many += 1
        if too_many == len(ways):
            raise _TooMany
        return False

    def _device(self, claim: int, place: int, request: _Request, number: int) -> bool:
        """Give a request one more device, and go on."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise AllocationError(f"the search for devices was stopped after {MOST_STEPS} steps", on_node=True)
        if request.all is not None and not request.all:
            return False
        if number >= request.count:
            return self._next(claim, place + 1)
        if len(self._found[claim]) + request.count - number > MOST_DEVICES:
            raise _TooMany
        if request.all is not None:
            return self._tried(claim, place, request, number, request.all[number])
        state = self._state(claim, place, request, number)
        if state in self._dead:
            return False
        found = any(
            self._tried(claim, place, request, number, device)
            for pool in self._pools
            for device in pool.devices
            if not self._is_taken(claim, request, device) and self._selects(request, device)
        )
        if not found:
            self._dead.add(state)
        return found

    def _state(self, claim: int, place: int, request: _Request, number: int) -> Hashable:
        """Return all that the rest of a search depends on."""
        taken = frozenset(device for device, takers in self._takers.items() if takers)
        own = frozenset(device.id for _, device in self._found[claim])
        values = tuple(one.values[0] if one.values else None for one in self._constraints[claim])
        return claim, place, request.name, number, taken, own, values

    def _is_taken(self, claim: int, request: _Request, device: PooledDevice) -> bool:
        takers = self._takers.get(device.id, ())
        return claim in takers if request.admin else bool(takers) or device.id in self._allocated

    def _tried(self, claim: int, place: int, request: _Request, number: int, device: PooledDevice) -> bool:
        """Return whether everything can be satisfied with a device. If not, nothing of the attempt stays."""
        if not self._take(claim, request, device):
            return False
        try:
            done = self._device(claim, place, request, number + 1)
        except _TooMany:
            self._give_back(claim, request, device)
            raise
        if not done:
            self._give_back(claim, request, device)
        return done

    def _take(self, claim: int, request: _Request, device: PooledDevice) -> bool:
        """Take a device, with its counters. Returns whether that is possible; if not, nothing is taken."""
        if self._is_taken(claim, request, device) or not self._count(device):
            return False
        constraints = self._constraints[claim]
        if keeps_away(self._taints(device), request.wanted.tolerations or ()):
            self._release(device)
            return False
        added = 0
        while added < len(constraints) and constraints[added].add(request, device):
            added += 1
        if added == len(constraints):
            self._takers.setdefault(device.id, []).append(claim)
            self._found[claim].append((request, device))
            return True
        for constraint in constraints[:added]:
            constraint.remove(request)
        self._release(device)
        if request.all is not None:
            own = request.name.rpartition("/")[2]
            raise AllocationError(
                f"claim {claim_name(self._claims[claim])}, request {own}: cannot add device {device.id} because a "
                "claim constraint would not be satisfied"
            )
        return False

    def _give_back(self, claim: int, request: _Request, device: PooledDevice) -> None:
        self._found[claim].pop()
        self._takers[device.id].remove(claim)
        for constraint in self._constraints[claim]:
            constraint.remove(request)
        self._release(device)

    # --- counters

    def _count(self, device: PooledDevice) -> bool:
        """Take the counters of a device. Returns whether there was enough of each; if not, none is taken."""
        if not device.consumes:
            return True
        pool_id = PoolId(device.id.driver, device.id.pool)
        if pool_id not in self._available:
            self._available[pool_id] = self._left(next(pool for pool in self._pools if pool.id == pool_id))
        left = self._available[pool_id]
        for of_set, name, amount in device.consumes:
            left[of_set, name] -= amount
        if min(left.values(), default=Fraction(0)) >= 0:
            return True
        self._release(device)
        return False

    def _release(self, device: PooledDevice) -> None:
        if device.consumes:
            left = self._available[PoolId(device.id.driver, device.id.pool)]
            for of_set, name, amount in device.consumes:
                left[of_set, name] += amount

    def _left(self, pool: DevicePool) -> dict[tuple[str, str], Fraction]:
        """Return what allocated devices leave of the counters of a pool."""
        left = dict(pool.counters or {})
        for device in (*pool.devices, *pool.elsewhere):
            if device.id in self._allocated:
                for of_set, name, amount in device.consumes:
                    left[of_set, name] -= amount
        return left


def _constraint(claim: ResourceClaim, number: int, constraint: DeviceConstraint) -> _Constraint:
    if constraint.match_attribute is None:
        raise AllocationError(
            f"claim {claim_name(claim)}, constraint #{number}: empty constraint (unsupported constraint type?)"
        )
    return _Constraint(constraint.match_attribute, frozenset(constraint.requests or ()))


def _holds(whose: str, number: int, selector: DeviceSelector, device: PooledDevice) -> bool:
    """Return whether a selector selects a device."""
    text = selector.cel.expression if selector.cel is not None else ""
    try:
        expression = compiled(text, DEVICE.limit, DEVICE)
    except ExpressionError as error:
        raise AllocationError(f"{whose}: selector #{number}: CEL compile error: {error}") from None
    try:
        result = expression.evaluate(device.document, Evaluation())
    except (CelError, ValueError) as error:
        problem, holds = str(error), False
    else:
        problem, holds = result.error, result.value
    if problem:
        hint = (
            ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
            "optional fields"
        )
        shown = problem + hint if "no such key:" in problem else problem
        raise AllocationError(f"{whose}: selector #{number} on device {device.id}: CEL runtime error: {shown}")
    return holds


# --- results


def _result(found: Sequence[tuple[_Request, PooledDevice]]) -> AllocationResult:
    results = [
        DeviceRequestAllocationResult(
            request=request.name,
            driver=device.id.driver,
            pool=device.id.pool,
            device=device.id.device,
            admin_access=True if request.admin else None,
            tolerations=request.wanted.tolerations,
        )
        for request, device in found
    ]
    selector = _node_selector([device for _, device in found])
    return AllocationResult(devices=DeviceAllocationResult(results=results), node_selector=selector)


def _node_selector(devices: Iterable[PooledDevice]) -> NodeSelector | None:
    """Return the nodes on which devices can be used together. None if on all."""
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for device in devices:
        where = device.device if device.slice.per_device_node_selection else device.slice
        if where.node_name:
            requirement = SelectorRequirement(key="metadata.name", operator="In", values=[where.node_name])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[requirement])])
        for term in where.node_selector.node_selector_terms if where.node_selector is not None else ():
            _add(fields, term.match_fields or ())
            _add(expressions, term.match_expressions or ())
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=fields or None, match_expressions=expressions or None)
    return NodeSelector(node_selector_terms=[term])


def _add(known: list[SelectorRequirement], more: Iterable[SelectorRequirement]) -> None:
    for one in more:
        if not any(
            (one.key, one.operator) == (other.key, other.operator) and set(one.values or ()) == set(other.values or ())
            for other in known
        ):
            known.append(one)
