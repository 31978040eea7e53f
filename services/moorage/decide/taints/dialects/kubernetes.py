"""The Kubernetes dialect: the meaning of each effect, and the taints of conditions.

The rules are in docs/domain.md, "Node taints".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from moorage.decide.kubernetes.taint_keys import (
    CONTROL_PLANE,
    CONTROL_PLANE_OLD,
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    OUT_OF_SERVICE,
    PID_PRESSURE,
    UNINITIALIZED,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from moorage_schemas.taint import Taint, TaintEffect


class EffectRules(Protocol):
    """The effects of a dialect. `KUBERNETES` is one implementation; each other system has its own."""

    @property
    def name(self) -> str:
        """The dialect's name, as in `--dialect`."""

    @property
    def effects(self) -> tuple[str, ...]:
        """Every effect of the dialect, in the order in which error messages list them."""

    @property
    def filtering(self) -> frozenset[str]:
        """Effects that keep new work away if untolerated."""

    @property
    def scoring(self) -> frozenset[str]:
        """Effects that only lower a target's score if untolerated."""

    @property
    def evicting(self) -> frozenset[str]:
        """Effects that evict running work if untolerated, or when the tolerated time has ended."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The effects of one dialect and their meaning, as `EffectRules`."""

    name: str
    effects: tuple[str, ...]
    filtering: frozenset[str]
    scoring: frozenset[str]
    evicting: frozenset[str]


KUBERNETES: Final = Dialect(
    name="kubernetes",
    effects=(
        TaintEffect.NO_SCHEDULE.value,
        TaintEffect.PREFER_NO_SCHEDULE.value,
        TaintEffect.NO_EXECUTE.value,
    ),
    filtering=frozenset({TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value}),
    scoring=frozenset({TaintEffect.PREFER_NO_SCHEDULE.value}),
    evicting=frozenset({TaintEffect.NO_EXECUTE.value}),
)


@dataclass(frozen=True, slots=True)
class ConditionTaint:
    """A row of the table: while `condition` has `status`, the node has a taint `key` for each of `effects`.

    A taint that evicts is rate limited. When `opposite` replaces it, or it replaces `opposite`, both change in one
    update.
    """

    condition: str
    status: str
    key: str
    effects: tuple[str, ...] = (TaintEffect.NO_SCHEDULE.value,)
    opposite: str = ""

    def taints(self) -> tuple[Taint, ...]:
        """Return the taints of this row, without `timeAdded`."""
        return tuple(Taint(key=self.key, effect=effect) for effect in self.effects)


def is_out_of_service(keys: Iterable[str]) -> bool:
    """Return whether a node that is not ready has been declared out of service: nothing runs there.

    As in Kubernetes' garbage collection of pods, the effect of the taint does not matter. On a ready node the taint has
    no meaning: its work is stopped as usual.
    """
    there = set(keys)
    return OUT_OF_SERVICE in there and not there.isdisjoint((NOT_READY, UNREACHABLE))


_BOTH: Final = (TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value)

CONDITION_TAINTS: Final = (
    ConditionTaint("Ready", "False", NOT_READY, _BOTH, opposite=UNREACHABLE),
    ConditionTaint("Ready", "Unknown", UNREACHABLE, _BOTH, opposite=NOT_READY),
    ConditionTaint("MemoryPressure", "True", MEMORY_PRESSURE),
    ConditionTaint("DiskPressure", "True", DISK_PRESSURE),
    ConditionTaint("PIDPressure", "True", PID_PRESSURE),
    ConditionTaint("NetworkUnavailable", "True", NETWORK_UNAVAILABLE),
)
"""The taint for each condition, in the order in which taints are added (docs/domain.md, "Node taints")."""

UNSCHEDULABLE_TAINT: Final = Taint(key=UNSCHEDULABLE, effect=TaintEffect.NO_SCHEDULE)
"""The taint that `spec.unschedulable` adds to a node."""

EXTERNAL_CLOUD: Final = ("moorage.io/cloud-provider", "external")
"""The annotation of a node with an external cloud provider. A cloud controller sets `spec.providerID` when it has
initialised the node."""

UNINITIALIZED_TAINT: Final = Taint(key=UNINITIALIZED, value="true", effect=TaintEffect.NO_SCHEDULE)
"""The taint of a node with an external cloud provider until a cloud controller has initialised it."""

CONTROL_PLANE_TAINTS: Final = (
    Taint(key=CONTROL_PLANE, effect=TaintEffect.NO_SCHEDULE),
    Taint(key=CONTROL_PLANE_OLD, effect=TaintEffect.NO_SCHEDULE),
)
"""The taints of a control-plane node: the present key and the older one."""
