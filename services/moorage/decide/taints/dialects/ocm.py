"""The OCM dialect: the meaning of each effect (docs/domain.md, "Taints and effects")."""

from __future__ import annotations

from typing import Final

from moorage.decide.taints.dialects.kubernetes import Dialect
from moorage_schemas.taint import TaintEffect

NO_SELECT: Final = TaintEffect.NO_SELECT.value
PREFER_NO_SELECT: Final = TaintEffect.PREFER_NO_SELECT.value
NO_SELECT_IF_NEW: Final = TaintEffect.NO_SELECT_IF_NEW.value

OCM: Final = Dialect(
    name="ocm",
    effects=(NO_SELECT, PREFER_NO_SELECT, NO_SELECT_IF_NEW),
    filtering=frozenset({NO_SELECT, NO_SELECT_IF_NEW}),
    scoring=frozenset({PREFER_NO_SELECT}),
    evicting=frozenset({NO_SELECT}),
)
"""`evicting` effects remove clusters from existing decisions. `tolerationSeconds` has no effect for `NoSelectIfNew`."""
