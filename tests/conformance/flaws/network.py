"""Flaws of what connects work and scales it."""

from __future__ import annotations

from tests.conformance.flaws.common import Starts

STARTS: Starts = {}
"""The valid objects, and the values that their fields may get instead."""
