"""The scenarios that Moorage does not pass on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.planes.ocm.prioritizers import BUILTIN

from moorage.conformance.deviations import Deviation

DEVIATIONS: Final[Mapping[str, Deviation]] = {
    f"{BUILTIN.name}: Should schedule successfully based on SchedulePolicy balance": Deviation.OWN_DECISIONS_COUNT,
    f"{BUILTIN.name}: Should keep steady successfully even placementdecisions' balance and cluster situation changes": (
        Deviation.OWN_DECISIONS_COUNT
    ),
}
"""By the names of scenarios, which have to fail with Moorage. One that passes has to be taken off."""
