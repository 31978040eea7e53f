"""Holds what happened in a run against what Moorage promises.

It shares no code with what it checks: it reads the topics' JSON itself and judges by rules of its own, each a function
with the promise as its docstring. `check` gives whatever was broken.
"""

from __future__ import annotations

from tests.chaos.seeded.checker.invariants import INVARIANTS, check
from tests.chaos.seeded.checker.violations import Allowances, Violation

__all__ = ["INVARIANTS", "Allowances", "Violation", "check"]
