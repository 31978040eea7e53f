"""Random add-ons of a managed cluster with their leases, for the operation `addon_labels`."""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.generate_ocm import chance, marked

Request = dict[str, Any]

OPERATIONS = ("addon_labels",)
_PREFIX = "feature.open-cluster-management.io/addon-"
_NAMES = ("manager", "search", "proxy", "policy")
_RENEWED = (
    "2026-01-01T00:00:00.000000Z",
    "2026-01-01T00:00:00.000001Z",
    "2026-01-01T00:04:10.000000Z",
    "2025-12-31T23:59:59.999999Z",
    "2025-12-01T00:00:00.000000Z",
    "2026-01-01T00:05:00.000000Z",
    "2026-01-01T09:00:00.000000Z",
)
_NOW = ("2026-01-01T00:05:00.000000Z", "2026-01-01T00:05:00.000000Z", "2026-01-01T00:05:00.000001Z")
_STATES = ("True", "False", "Unknown")


def labels(rng: random.Random) -> Request:
    """A cluster with labels of add-ons, its add-ons and their leases."""
    shown = {
        f"{_PREFIX}{name}": rng.choice(("available", "unhealthy", "unreachable", "odd")) for name in _some(rng, 0.4)
    }
    shown |= {"region": "eu"} if chance(rng, 0.5) else {}
    cluster: Request = {"metadata": {"name": "c1", "labels": shown, **marked(rng, 0.08)}, "status": {"conditions": []}}
    if chance(rng, 0.92):
        status = rng.choice(("True", "True", "True", "False", "False", "Unknown"))
        cluster["status"]["conditions"].append(_condition("ManagedClusterConditionAvailable", status))
    if chance(rng, 0.3):
        cluster["status"]["conditions"].append(_condition("ManagedClusterJoined", "True"))
    request: Request = {"op": "addon_labels", "now": rng.choice(_NOW), "cluster": cluster}
    request["addOns"] = [_add_on(rng, name) for name in _some(rng, 0.7)]
    request["leases"] = [_lease(rng, name) for name in _some(rng, 0.8)]
    return request


def _some(rng: random.Random, share: float) -> list[str]:
    return [name for name in _NAMES if chance(rng, share)]


def _condition(kind: str, status: str) -> Request:
    return {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _namespace(rng: random.Random) -> str:
    return "c1" if chance(rng, 0.95) else "c2"


def _add_on(rng: random.Random, name: str) -> Request:
    status: Request = {}
    if chance(rng, 0.3):
        status["healthCheck"] = {"mode": rng.choice(("Customized", "Customized", "Lease"))}
    if chance(rng, 0.6):
        status["conditions"] = [_condition("Available", rng.choice(_STATES))]
    if chance(rng, 0.2):
        status.setdefault("conditions", []).append(_condition("Progressing", "True"))
    metadata = {"name": name, "namespace": _namespace(rng), **marked(rng, 0.1)}
    return {"metadata": metadata, "spec": {}, "status": status}


def _lease(rng: random.Random, name: str) -> Request:
    spec: Request = {"renewTime": rng.choice(_RENEWED)}
    if chance(rng, 0.3):
        spec["leaseDurationSeconds"] = rng.choice((1, 10, 60, 600))
    return {"metadata": {"name": name, "namespace": _namespace(rng), **marked(rng, 0.1)}, "spec": spec}
