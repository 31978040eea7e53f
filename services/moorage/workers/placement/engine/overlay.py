"""The latest value of each key: from the log or, until the log has it, from this process's own decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Overlay(Generic[V]):
    """Keeps values that count from the moment of their decision, before they are in the log.

    Args:
        reaches: returns whether a value from the log is the assumed one, or a later one.
    """

    def __init__(self, reaches: Callable[[V, V], bool]) -> None:
        self._reaches = reaches
        self._logged: dict[str, V] = {}
        self._assumed: dict[str, tuple[object, V | None]] = {}

    @property
    def logged(self) -> Mapping[str, V]:
        """The values in the log."""
        return self._logged

    def get(self, key: str) -> V | None:
        """Return the present value; None when there is none."""
        assumed = self._assumed.get(key)
        return assumed[1] if assumed is not None else self._logged.get(key)

    def arrive(self, key: str, value: V | None) -> bool:
        """Fold in a value from the log; None when it was deleted. Return whether it confirms an assumption."""
        if value is None:
            self._logged.pop(key, None)
        else:
            self._logged[key] = value
        return self.settle(key, value)

    def settle(self, key: str, value: V | None) -> bool:
        """Drop the assumption that a value from the log confirms. Return whether there was one."""
        if key not in self._assumed:
            return False
        assumed = self._assumed[key][1]
        settled = assumed is value if assumed is None or value is None else self._reaches(value, assumed)
        if settled:
            del self._assumed[key]
        return settled

    def assume(self, key: str, value: V | None, by: object) -> None:
        """Count a value, or a tombstone (None), that is about to be written."""
        self._assumed[key] = (by, value)

    def assumption(self, key: str) -> tuple[object, V | None] | None:
        """Return the assumption for a key with the partition that made it; None if there is none."""
        return self._assumed.get(key)

    def put_back(self, key: str, assumption: tuple[object, V | None] | None) -> None:
        """Restore the assumption of a key that `assumption` returned."""
        if assumption is None:
            self._assumed.pop(key, None)
        else:
            self._assumed[key] = assumption

    def assumed_by(self, who: object) -> list[str]:
        """Return the keys of the values that one partition has assumed."""
        return [key for key, (by, _) in self._assumed.items() if by is who]
