"""The scenarios that Moorage does not pass on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.planes.kubernetes.scheduling import FILTERS, PREDICATES

from moorage.conformance.deviations import Deviation

DEVIATIONS: Final[Mapping[str, Deviation]] = {
    f"{PREDICATES.name}: validates that there exists conflict between pods with same hostPort and protocol but one "
    "using 0.0.0.0 hostIP": Deviation.FOUR_FILTERS_FOR_PODS,
    **{scenario.name: Deviation.FOUR_FILTERS_FOR_PODS for scenario in FILTERS.scenarios},
}
"""By the names of scenarios, which have to fail with Moorage. One that passes has to be taken off."""
