"""The scenarios that Moorage does not pass on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.conformance.deviations import Deviation

DEVIATIONS: Final[Mapping[str, Deviation]] = {}
"""By the names of scenarios, which have to fail with Moorage. One that passes has to be taken off."""
