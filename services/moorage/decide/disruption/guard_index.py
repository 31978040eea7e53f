"""An index of all guards that may hold evictions, by the workloads and namespaces to which they apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from moorage.decide.disruption.budgets import (
    BUDGET,
    DISRUPTION,
    PAUSE,
    Budget,
    Disruption,
    Pause,
    ScopeTest,
    Subject,
    budget_of,
    disruption_of,
    is_pod,
    own_namespace,
    pause_of,
)
from moorage_schemas.keys import ResourceKey


class _Scoped(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def test(self) -> ScopeTest: ...


G = TypeVar("G", bound=_Scoped)


class _Found(dict[str, dict[str, G]]):
    """Guards by a name that their scope requires, so that only guards that may apply to a subject are tested."""

    __slots__ = ()

    def add(self, guard: G) -> None:
        for place in _places(guard.test):
            self.setdefault(place, {})[guard.key] = guard

    def take(self, guard: G) -> None:
        for place in _places(guard.test):
            self[place].pop(guard.key)
            if not self[place]:
                del self[place]

    def of(self, subject: Subject) -> Iterator[G]:
        """Return the guards that apply to a subject, each once, in no particular order."""
        seen: set[str] = set()
        for place in {"", f"n:{subject.namespace}", f"w:{subject.workload}", f"w:{subject.owner}"}:
            for guard in self.get(place, {}).values():
                if guard.key not in seen and guard.test.applies(subject):
                    seen.add(guard.key)
                    yield guard


def _places(test: ScopeTest) -> Iterable[str]:
    if test.workloads is not None:
        return [f"w:{name}" for name in test.workloads]
    if test.namespaces is not None:
        return [f"n:{name}" for name in test.namespaces]
    return [""]


class Guards:
    """All guards that may hold evictions, indexed by the workloads and namespaces to which they apply.

    A lookup tests each guard whose scope names no namespace or workload, and each guard that names the subject's. It
    also tests each disruption budget of the namespace that requires no label, or a label that the pod has.
    """

    def __init__(self) -> None:
        self.pauses: dict[str, Pause] = {}
        self.budgets: dict[str, Budget] = {}
        self.disruptions: dict[str, Disruption] = {}
        self._pauses: _Found[Pause] = _Found()
        self._budgets: _Found[Budget] = _Found()
        self._disruptions: dict[tuple[str, tuple[str, str] | None], dict[str, Disruption]] = {}

    def __bool__(self) -> bool:
        """Return whether there are any guards."""
        return bool(self.pauses or self.budgets or self.disruptions)

    def put(self, key: str, obj: Mapping[str, Any] | None) -> None:
        """Add or replace the guard that a resource declares. None removes the guard of that key.

        Raises:
            ValueError: the resource is invalid. The previous guard of that key has been removed.
        """
        if (pause := self.pauses.pop(key, None)) is not None:
            self._pauses.take(pause)
        if (budget := self.budgets.pop(key, None)) is not None:
            self._budgets.take(budget)
        if (disruption := self.disruptions.pop(key, None)) is not None:
            place = (disruption.namespace, disruption.demands)
            del self._disruptions[place][key]
            if not self._disruptions[place]:
                del self._disruptions[place]
        if obj is None:
            return
        kind, _, _, cluster = ResourceKey.parse(key)
        if kind == PAUSE:
            self.pauses[key] = pause = pause_of(obj)
            self._pauses.add(pause)
        elif kind == BUDGET:
            self.budgets[key] = budget = budget_of(obj)
            self._budgets.add(budget)
        elif kind == DISRUPTION:
            self.disruptions[key] = disruption = disruption_of(obj, cluster)
            self._disruptions.setdefault((disruption.namespace, disruption.demands), {})[key] = disruption

    def pauses_of(self, subject: Subject) -> tuple[Pause, ...]:
        """Return the pauses that hold an eviction, by name. One with a schedule holds it only in its windows."""
        if not self.pauses:
            return ()
        return tuple(sorted(self._pauses.of(subject), key=lambda pause: pause.name))

    def budgets_of(self, subject: Subject) -> tuple[Budget, ...]:
        """Return the budgets that an eviction counts for, by name."""
        if not self.budgets:
            return ()
        return tuple(sorted(self._budgets.of(subject), key=lambda budget: budget.name))

    def disruptions_of(self, workload: str, labels: Mapping[str, str]) -> tuple[Disruption, ...]:
        """Return the disruption budgets that select a pod, by name. Empty for workloads that are not pods."""
        if not self._disruptions or not is_pod(workload):
            return ()
        namespace, known = own_namespace(workload), self._disruptions
        found = [
            guard
            for label in (None, *labels.items())
            if (near := known.get((namespace, label))) is not None
            for guard in near.values()
            if guard.selects(labels)
        ]
        return tuple(sorted(found, key=lambda guard: guard.name)) if found else ()

    def concern(self, subject: Subject) -> bool:
        """Return whether any guard may hold this eviction."""
        return bool(
            self.pauses_of(subject) or self.budgets_of(subject) or self.disruptions_of(subject.workload, subject.labels)
        )
