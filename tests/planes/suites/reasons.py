"""Why a spec of upstream does not pass, with both engines or with Moorage alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[str, str]] = {}
"""By the name of a spec. Where upstream's controllers pass, the reason begins with a deviation, as in "`its-id`: …"."""
