"""What is said of one deviation; see `deviations`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviationEntry:
    """One row of the list of deviations.

    Attributes:
        slug: its id.
        title: what Moorage does, in a sentence.
        upstream: what upstream's code does.
        reason: why Moorage departs from it.
        operations: the `eval` operations where it can show.
    """

    slug: str
    title: str
    upstream: str
    reason: str
    operations: tuple[str, ...]
