"""Flaws of what configures work, stores it, limits it, and runs it at times."""

from __future__ import annotations

from tests.conformance.flaws.common import Starts

STARTS: Starts = {}
"""The valid objects, and the values that their fields may get instead."""
