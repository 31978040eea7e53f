"""The description of one deviation; see `deviations`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviationEntry:
    """One row of the list of deviations.

    Attributes:
        slug: the id.
        title: what Moorage does, in one sentence.
        upstream: what upstream's code does.
        reason: why Moorage departs from it.
        operations: the `eval` operations whose answers it can change.
    """

    slug: str
    title: str
    upstream: str
    reason: str
    operations: tuple[str, ...]
