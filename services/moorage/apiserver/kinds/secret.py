"""`Secret` (v1)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, count, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section
from moorage.apiserver.kinds.stored import StoredKind
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.decide.kubernetes.field_errors import FieldError

_OPAQUE: Final = "Opaque"

Document = dict[str, Any]


class SecretKind(StoredKind):
    """A secret. Topics are not encrypted, and readers of the gateway have no identities yet."""

    kind = "Secret"
    plural = "secrets"
    order = 104
    has_generation = False
    field_selectors: ClassVar[Mapping[str, str]] = {"type": ""}
    without = "everybody who reaches the gateway or its topics can read it"
    api_columns = (
        TableColumn("TYPE", text("type", default=_OPAQUE)),
        TableColumn("DATA", count("data"), holds="integer"),
        AGE,
    )

    @override
    def stored(self, document: Document) -> Document:
        from moorage.apiserver.rules.field_defaults import with_texts_as_data

        return with_texts_as_data(super().stored(document))

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.config_data import validate_secret

        return validate_secret(document) if is_new else []

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.config_data import validate_immutable, validate_secret
        from moorage.decide.kubernetes.field_errors import invalid

        kind, found = after.get("type") or _OPAQUE, []
        if kind != (before.get("type") or _OPAQUE):
            found.append(invalid("type", kind, "field is immutable"))
        return [*found, *validate_immutable(before, after, "data"), *validate_secret(after)]

    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        """See `Kind`. The sizes of the values are shown, and not the values."""
        yield Pair("Type", found.get("type") or _OPAQUE)
        rows = [[name, f"{_size(value)} bytes"] for name, value in sorted((at(found, "data") or {}).items())]
        yield Rows("Data", ["KEY", "SIZE"], rows)


def _size(value: Any) -> int:
    try:
        return len(base64.b64decode(str(value)))
    except (binascii.Error, ValueError):
        return len(str(value))


KIND = SecretKind()
