"""The Karmada dialect: the meaning of each effect, and the taints that the system maintains on clusters.

The rules are in docs/domain.md, "Cluster taints".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.decide.taints.dialects.kubernetes import Dialect
from moorage_schemas.taint import Taint, TaintEffect

UNREACHABLE: Final = "cluster.karmada.io/unreachable"
NOT_READY: Final = "cluster.karmada.io/not-ready"
UNSCHEDULABLE: Final = "cluster.karmada.io/unschedulable"
"""The taint key that a person's cordon adds to a cluster. The system neither adds nor removes it."""

KARMADA: Final = Dialect(
    name="karmada",
    effects=(TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value),
    filtering=frozenset({TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value}),
    scoring=frozenset(),
    evicting=frozenset({TaintEffect.NO_EXECUTE.value}),
)

READY_TAINTS: Final[Mapping[str, Taint]] = {
    "Unknown": Taint(key=UNREACHABLE, effect=TaintEffect.NO_SCHEDULE.value),
    "False": Taint(key=NOT_READY, effect=TaintEffect.NO_SCHEDULE.value),
}
"""The taint of a cluster for each status of `Ready`. The system adds no NoExecute taint."""
