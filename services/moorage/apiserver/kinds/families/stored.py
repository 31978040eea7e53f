"""Kinds of Kubernetes that people declare together with their work, so that a whole directory of manifests applies.

They are stored and shown, with the structure that upstream gives them, and Moorage decides nothing by them. A kind is
one module, and one name in `ops/kubernetes-schema/native.go`. One that does something in Kubernetes which nobody would
do here says so to whoever writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import NONE, Cell

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates


class StoredKind(Untyped):
    """A kind that is stored and shown, and nothing else."""

    namespaced = True
    without: ClassVar[str] = ""
    """What its writer might expect and does not get: `nothing scales by it`. Empty where that is somebody else's task,
    such as a deployer's."""

    def __init_subclass__(cls) -> None:
        """Give the columns of the command line those of the API, in capitals."""
        super().__init_subclass__()
        cls.columns = tuple(
            column._replace(title=column.title.upper(), cell=_filled(column.cell)) for column in cls.api_columns
        )

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        if self.without:
            yield f"a {self.kind} is stored and shown, and {self.without}"


def _filled(cell: Cell) -> Cell:
    """A cell that shows `<none>` where there is nothing."""
    return lambda found, now: cell(found, now) or NONE
