"""`EvictionPause` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.guards import scope_text
from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Related, Section, as_declared, held_by
from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.eviction import EvictionDecided
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.budgets import EvictionPause


_PAUSE: Final = "EvictionPause/"


class PauseIndex(Index):
    """The evictions that each pause holds."""

    topics = ("evictions",)

    def __init__(self) -> None:
        self.held = Groups()
        """The keys of the evictions that are held, by the key of the pause (`EvictionPause/all`)."""

    @override
    def changed(
        self, topic: str, key: str, before: EvictionDecided | None, after: EvictionDecided | None, records: Records
    ) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.records import ObjectId

        old, new = _pauses(before), _pauses(after)
        self.held.move(key, old, new)
        return [ObjectId("EvictionPause", "", pause.removeprefix(_PAUSE)) for pause in old ^ new]


def _pauses(eviction: EvictionDecided | None) -> set[str]:
    """The keys of the pauses that hold an eviction."""
    held = eviction is not None and eviction.state == "Held"
    return {key for key in eviction.held_by if key.startswith(_PAUSE)} if eviction is not None and held else set()


class EvictionPauseKind(Kind["EvictionPause"]):
    """A pause, which holds evictions."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "EvictionPause"
    plural = "evictionpauses"
    model_module = "budgets"
    cli_names = ("pause", "pauses")
    namespaced = False
    order = 190
    status_shown = True
    apply_order = 30
    unknown_fields = UnknownFields.REFUSED
    columns = (
        TableColumn("SCOPE", of(scope_text)),
        TableColumn("HELD", text("status", "held", default="0")),
        TableColumn("REASON", text("spec", "reason")),
        AGE,
    )
    counted_status = True
    indexes = (PauseIndex,)

    @override
    def validate(self, resource: EvictionPause, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.moorage import validate_eviction_pause

        return validate_eviction_pause(resource.spec)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield from as_declared(found)
        yield held_by(f"{self.kind}/{at(found, 'metadata', 'name')}", related, now)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        return {"held": len(records.index(PauseIndex).held.get(f"{_PAUSE}{resource.name}", ()))}


KIND = EvictionPauseKind()
