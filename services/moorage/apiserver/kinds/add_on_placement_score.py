"""`AddOnPlacementScore` (cluster.open-cluster-management.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, CUSTOM_AGE, NONE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.managed import AddOnPlacementScore


def _scores(found: Object) -> str:
    """The scores in one line: `cpu=30,memory=-5`."""
    return ",".join(f"{one.get('name')}={one.get('value', 0)}" for one in at(found, "status", "scores") or []) or NONE


class AddOnPlacementScoreKind(Kind["AddOnPlacementScore"]):
    """Scores that an add-on gives to the cluster of its namespace. They are in its status."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1alpha1",)
    kind = "AddOnPlacementScore"
    plural = "addonplacementscores"
    model_module = "managed"
    mirrorable = True
    namespaced = True
    order = 240
    apply_order = 150
    status_declared = True
    columns = (TableColumn("SCORES", of(_scores)), TableColumn("VALID UNTIL", text("status", "validUntil")), AGE)
    api_columns = (CUSTOM_AGE,)

    @override
    def validate(self, resource: AddOnPlacementScore, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_add_on_score

        return validate_add_on_score(resource)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield Pair("Cluster", at(found, "metadata", "namespace"))
        yield Pair("Valid until", at(found, "status", "validUntil") or "no limit")
        rows = [[str(one.get("name")), str(one.get("value", 0))] for one in at(found, "status", "scores") or []]
        yield Rows("Scores", ["NAME", "VALUE"], rows)


KIND = AddOnPlacementScoreKind()
