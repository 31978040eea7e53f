"""The resources that a pod requests, and the quality of service class that follows from them.

All functions are pure and work on plain objects. Amounts are added exactly and rounded up at the end, as in Kubernetes.
The rules are in docs/domain.md, "Requests of pods".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moorage.decide.kubernetes.quantities import CPU, MEMORY, thousandths, units_of
from moorage.decide.kubernetes.unstructured import part

BEST_EFFORT: Final = "BestEffort"
BURSTABLE: Final = "Burstable"
GUARANTEED: Final = "Guaranteed"

HUGE_PAGES: Final = "hugepages-"
_RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"

_Object = Mapping[str, Any]
_Amounts = dict[str, int]
"""Exact amounts by resource, in thousandths of its unit."""

_Reader = Callable[[_Object, str], _Amounts]
"""Reads the amounts of one container. The second argument is its path."""


def pod_requests(spec: _Object, status: _Object | None = None) -> dict[str, int]:
    """Return the resources that a pod takes of its node: cpu in millicores, all others in their own unit.

    The requests are those of the pod's containers and sidecars in total, or the peak of its init containers if that is
    larger. The pod's own `resources` replace those totals for cpu, memory and huge pages. The overhead is added.

    Args:
        spec: of the pod.
        status: of a pod that runs. While its resources are being resized, the larger of the wanted and the present
            amounts counts, and only the present ones if the resize is infeasible.

    Raises:
        QuantityError: a request or limit is not a quantity.
    """
    own = pod_level(spec)
    total = _container_totals(spec, status or {})
    requests = _own_requests(own["requests"], status or {})
    total.update((name, amount) for name, amount in requests.items() if is_pod_level(name))
    _add(total, _amounts(part(spec, "overhead"), "spec.overhead"))
    return {name: units_of(name, amount) for name, amount in total.items()}


def qos_class(spec: _Object) -> str:
    """Return the quality of service class of a pod's spec: Guaranteed, Burstable or BestEffort.

    Only cpu and memory count. The class is computed from the pod's own `resources` if these name a resource that a pod
    may have of its own, and otherwise over containers and init containers, including sidecars.

    Raises:
        QuantityError: a request or limit is not a quantity.
    """
    own = pod_level(spec)
    if any(is_pod_level(name) for amounts in own.values() for name in amounts):
        return _class_of(own["requests"], own["limits"])
    classes = {_class_of(_requests(one, path), _limits(one, path)) for one, path in _every_container(spec)}
    if not classes:
        return BEST_EFFORT
    return classes.pop() if len(classes) == 1 else BURSTABLE


def pod_level(spec: _Object) -> dict[str, _Amounts]:
    """Return the pod's own `requests` and `limits`, exactly, with the defaults that admission gives them.

    A pod that has any of its own gets the limits of huge pages and the requests of cpu and memory from its containers.
    A limit without a request counts as the request. A request without a limit gets one if every container has a limit.
    """
    resources = part(spec, "resources")
    limits = _amounts(part(resources, "limits"), "spec.resources.limits")
    requests = _amounts(part(resources, "requests"), "spec.resources.requests")
    if not limits and not requests:
        return {"requests": requests, "limits": limits}
    container_limits = _aggregate(spec, _limits)
    for name, amount in container_limits.items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, amount)
    for name, amount in _aggregate(spec, _requests).items():
        if name in _COMPUTE:
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, amount)
    for name, amount in requests.items():
        if is_pod_level(name) and name not in limits and _all_limit(spec, name):
            limits[name] = max(amount, container_limits[name])
    return {"requests": requests, "limits": limits}


_COMPUTE: Final = (CPU, MEMORY)


def is_pod_level(resource: str) -> bool:
    """Return whether a pod may have this resource of its own, beside its containers."""
    return resource in _COMPUTE or resource.startswith(HUGE_PAGES)


def is_infeasible(status: _Object) -> bool:
    """Return whether the pod's node cannot resize it to the requests of its spec."""
    pending = next((one for one in _objects(status, "conditions") if one.get("type") == _RESIZE_PENDING), None)
    return pending is not None and pending.get("reason") == _INFEASIBLE


def requested_names(spec: _Object) -> set[str]:
    """Return the names of the resources that the pod's containers request or limit."""
    return {name for one, path in _every_container(spec) for name in _requests(one, path)}


# Containers.


def _every_container(spec: _Object) -> Iterable[tuple[_Object, str]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(_objects(spec, field)):
            yield container, f"spec.{field}[{index}].resources"


def _requests(container: _Object, path: str) -> _Amounts:
    """Return the requests of a container. A limit replaces a missing request."""
    return {**_limits(container, path), **_amounts(part(part(container, "resources"), "requests"), f"{path}.requests")}


def _limits(container: _Object, path: str) -> _Amounts:
    return _amounts(part(part(container, "resources"), "limits"), f"{path}.limits")


def _all_limit(spec: _Object, name: str) -> bool:
    """Return whether every container of a pod limits a resource."""
    found = [name in _limits(one, path) for one, path in _every_container(spec)]
    return bool(found) and all(found)


def _aggregate(spec: _Object, read: _Reader) -> _Amounts:
    """Return the amounts of all containers and sidecars together, or the peak of the init containers if larger."""
    running: _Amounts = {}
    for index, container in enumerate(_objects(spec, "containers")):
        _add(running, read(container, f"spec.containers[{index}].resources"))
    sidecars: _Amounts = {}
    starting: _Amounts = {}
    for index, container in enumerate(_objects(spec, "initContainers")):
        amounts = read(container, f"spec.initContainers[{index}].resources")
        if container.get("restartPolicy") == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            need = sidecars
        else:
            need = dict(sidecars)
            _add(need, amounts)
        _raise_to(starting, need)
    _raise_to(running, starting)
    return running


# The resources that a running pod has at present, while it is resized in place.


def _container_totals(spec: _Object, status: _Object) -> _Amounts:
    if not status:
        return _aggregate(spec, _requests)
    infeasible = is_infeasible(status)
    allocated, actual = _present(status, "allocatedResources"), _present(part(status, "resources"), "requests")
    if allocated is not None and actual is not None:
        total = _amounts(allocated, "status.allocatedResources")
        _raise_to(total, _amounts(actual, "status.resources.requests"))
    else:
        found = _statuses(status)

        def allocated_to(container: _Object, path: str) -> _Amounts:
            one = _present(found.get(container.get("name"), {}), "allocatedResources")
            if one is None:
                return {} if infeasible else _requests(container, path)
            return _amounts(one, "status.containerStatuses.allocatedResources")

        def actual_of(container: _Object, path: str) -> _Amounts:
            one = _present(part(found.get(container.get("name"), {}), "resources"), "requests")
            if one is None:
                return allocated_to(container, path)
            return _amounts(one, "status.containerStatuses.resources.requests")

        total = _aggregate(spec, allocated_to)
        _raise_to(total, _aggregate(spec, actual_of))
    if not infeasible:
        _raise_to(total, _aggregate(spec, _requests))
    return total


def _statuses(status: _Object) -> dict[Any, _Object]:
    """Return the statuses of the containers by name. The first of a name counts."""
    every = [*_objects(status, "containerStatuses"), *_objects(status, "initContainerStatuses")]
    return {one.get("name"): one for one in reversed(every)}


def _own_requests(requests: _Amounts, status: _Object) -> _Amounts:
    resources = _present(status, "resources")
    if resources is None or not any(is_pod_level(name) for name in requests):
        return requests
    found = {} if is_infeasible(status) else dict(requests)
    _raise_to(found, _amounts(part(resources, "requests"), "status.resources.requests"))
    _raise_to(found, _amounts(part(status, "allocatedResources"), "status.allocatedResources"))
    return found


def _present(found: _Object, name: str) -> _Object | None:
    """Return an object in another one. None if it is absent, which differs from one that is empty."""
    value = found.get(name)
    return value if isinstance(value, Mapping) else None


def _objects(found: _Object, name: str) -> list[_Object]:
    """Return the objects of a list."""
    value = found.get(name)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


# Amounts.


def _class_of(requests: _Amounts, limits: _Amounts) -> str:
    pairs = [(requests.get(name, 0), limits.get(name, 0)) for name in _COMPUTE]
    if all(request == limit == 0 for request, limit in pairs):
        return BEST_EFFORT
    return GUARANTEED if all(request == limit > 0 for request, limit in pairs) else BURSTABLE


def _amounts(amounts: _Object, path: str) -> _Amounts:
    return {str(name): thousandths(value, path, str(name)) for name, value in amounts.items()}


def _add(total: _Amounts, more: _Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Amounts, least: _Amounts) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
