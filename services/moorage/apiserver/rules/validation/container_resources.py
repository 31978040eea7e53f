"""Validation of what containers and pods request and may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import Fields, inner, qualified_name
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid, not_supported, required
from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS, QuantityError, canonical_text, parse_quantity

_STORAGE: Final = "ephemeral-storage"
_HUGE: Final = "hugepages-"
_QUOTA: Final = "requests."
_NATIVE: Final = "kubernetes.io/"
_CONTAINER: Final = frozenset({CPU, MEMORY, _STORAGE})
_COUNTED: Final = frozenset(
    {
        PODS,
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
"""Resources of which there are only whole ones."""

_OF_QUOTAS: Final = (
    _CONTAINER
    | _COUNTED
    | {"requests.storage"}
    | {f"{kind}.{name}" for kind in ("limits", "requests") for name in _CONTAINER}
)
_STANDARD: Final = _OF_QUOTAS | {"storage"}
_LIMITS: Final = "limits"
_REQUESTS: Final = "requests"


def container_resources(resources: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a container's requests and limits.

    Args:
        resources: `resources` of the container.
        path: of them.
    """
    yield from _requirements(resources, path, of_pod=False)


def pod_resources(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of the requests and limits of a pod as a whole, if it has any."""
    if isinstance(spec.get("resources"), Mapping):
        yield from _requirements(inner(spec, "resources"), f"{path}.resources", of_pod=True)


def amounts(values: Fields, path: str) -> Iterator[FieldError]:
    """The errors of amounts of resources, such as a node's capacity. Each is at `path.<its name>`."""
    for name, value in sorted(values.items()):
        yield from amount(name, value, f"{path}.{name}")


def _requirements(resources: Fields, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    limits, requests = inner(resources, _LIMITS), inner(resources, _REQUESTS)
    for name, value in sorted(limits.items()):
        yield from _named(name, value, f"{path}.{_LIMITS}[{name}]", of_pod=of_pod)
        yield from _whole_pages(name, value, f"{path}.{_LIMITS}[{name}]")
    for name, value in sorted(requests.items()):
        yield from _named(name, value, f"{path}.{_REQUESTS}[{name}]", of_pod=of_pod)
        yield from _within_limit(name, value, limits, path)
        yield from _whole_pages(name, value, f"{path}.{_REQUESTS}[{name}]")
    named = {*limits, *requests}
    if not named & {CPU, MEMORY} and any(name.startswith(_HUGE) for name in named):
        yield forbidden(path, "HugePages require cpu or memory")


def _named(name: str, value: Any, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    wrong = list(resource_name(name, path))
    yield from wrong
    if of_pod:
        if not wrong and name not in {CPU, MEMORY} and not name.startswith(_HUGE):
            yield not_supported(path, name, sorted((CPU, _HUGE, MEMORY)))
    else:
        yield from _of_containers(name, path)
    yield from amount(name, value, path)


def _of_containers(name: str, path: str) -> Iterator[FieldError]:
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(_HUGE):
            yield invalid(path, name, "must be a standard resource for containers")
    elif _NATIVE not in name and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def resource_name(name: str, path: str) -> Iterator[FieldError]:
    """The errors of the name of a resource."""
    wrong = list(qualified_name(name, path))
    yield from wrong
    if not wrong and "/" not in name and name not in _STANDARD and not name.removeprefix(_QUOTA).startswith(_HUGE):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def _is_extended(name: str) -> bool:
    return not name.startswith(_QUOTA) and not names.check_qualified_name(f"{_QUOTA}{name}")


def is_overcommitted(name: str) -> bool:
    """Whether a limit may be higher than the request."""
    return ("/" not in name or _NATIVE in name) and not name.startswith(_HUGE)


def quantity(value: Any) -> Fraction | None:
    """A quantity. None if it is none, or absent."""
    try:
        return parse_quantity(value)
    except QuantityError:  # decoding refuses it
        return None


def amount(name: str, value: Any, path: str) -> Iterator[FieldError]:
    """The errors of an amount of a resource."""
    found = quantity(value)
    if found is None:
        return
    if found < 0:
        yield invalid(path, canonical_text(value), "must be greater than or equal to 0")
    if (name in _COUNTED or _is_extended_resource(name)) and found.denominator != 1:
        yield invalid(path, canonical_text(value), "must be an integer")


def _is_extended_resource(name: str) -> bool:
    return "/" in name and _NATIVE not in name and _is_extended(name)


def _within_limit(name: str, value: Any, limits: Fields, path: str) -> Iterator[FieldError]:
    request, limit = quantity(value), quantity(limits.get(name))
    if limit is None:
        if not is_overcommitted(name):
            yield required(f"{path}.{_LIMITS}", "Limit must be set for non overcommitable resources")
    elif request is None:
        return
    elif request != limit and not is_overcommitted(name):
        rule = f"must be equal to {name} limit of {canonical_text(limits[name])}"
        yield invalid(f"{path}.{_REQUESTS}", canonical_text(value), rule)
    elif request > limit:
        rule = f"must be less than or equal to {name} limit of {canonical_text(limits[name])}"
        yield invalid(f"{path}.{_REQUESTS}", canonical_text(value), rule)


def _whole_pages(name: str, value: Any, path: str) -> Iterator[FieldError]:
    if not name.startswith(_HUGE):
        return
    size, found = quantity(name.removeprefix(_HUGE)), quantity(value)
    if found is not None and (size is None or size <= 0 or found % size):
        shown = canonical_text(value)
        yield invalid(path, shown, f"{shown} is not positive integer multiple of {name}")
