"""The scenarios that Moorage does not pass on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.planes.kubernetes.scheduling import FILTERS, PREDICATES

from moorage.conformance.deviations import Deviation

_REFUSED: Final = frozenset(
    {
        f"{FILTERS.name}: validates that Inter-pod-Affinity is respected if not matching",
        f"{FILTERS.name}: pod cannot be placed onto any node",
    }
)
"""Scenarios in which the pod must not get a node. Moorage gives none to such a pod anyway."""

_HOST_PORTS: Final = (
    "validates that there exists conflict between pods with same hostPort and protocol but one using 0.0.0.0 hostIP",
    "validates that there is no conflict between pods with same hostPort but different hostIP and protocol",
)

DEVIATIONS: Final[Mapping[str, Deviation]] = {
    **{f"{PREDICATES.name}: {name}": Deviation.FOUR_FILTERS_FOR_PODS for name in _HOST_PORTS},
    **{
        scenario.name: Deviation.FOUR_FILTERS_FOR_PODS
        for scenario in FILTERS.scenarios
        if scenario.name not in _REFUSED
    },
}
"""By the names of scenarios, which have to fail with Moorage. One that passes has to be taken off."""
