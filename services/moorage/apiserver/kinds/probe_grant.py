"""`ProbeGrant` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, text
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.probe_grants import ProbeGrant


def _targets(found: Object) -> str:
    return ",".join(map(_target, at(found, "spec", "targets") or ())) or NONE


def _target(entry: Mapping[str, Any]) -> str:
    names = "|".join(entry.get("names") or ["*"])
    return f"{entry.get('kind')}/{names}" + (" by labels" if entry.get("selector") else "")


def _conditions(found: Object) -> str:
    return ",".join(at(found, "spec", "conditions") or ()) or NONE


def _subjects(found: Object) -> str:
    subjects = at(found, "spec", "subjects") or ()
    return ",".join("/".join(filter(None, map(one.get, ("kind", "namespace", "name")))) for one in subjects) or NONE


def _keys(found: Object) -> str:
    return ",".join(str(one.get("id")) for one in at(found, "spec", "keys") or ()) or NONE


class ProbeGrantKind(Kind["ProbeGrant"]):
    """What a source of reports may report, and who may use it."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "ProbeGrant"
    plural = "probegrants"
    model_module = "probe_grants"
    short_names = ("pg",)
    when_none = "While there is no ProbeGrant, every report counts, whoever has written it."
    namespaced = False
    order = 315
    apply_order = 6
    unknown_fields = UnknownFields.REFUSED
    columns = (
        TableColumn("SOURCE", text("spec", "source")),
        TableColumn("TARGETS", of(_targets)),
        TableColumn("CONDITIONS", of(_conditions)),
        TableColumn("WORKLOADS", text("spec", "workloads", default="false")),
        AGE,
        TableColumn("SUBJECTS", of(_subjects), wide=True),
        TableColumn("KEYS", of(_keys), wide=True),
    )

    @override
    def validate(self, resource: ProbeGrant, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.moorage import validate_probe_grant

        return validate_probe_grant(resource.spec)


KIND = ProbeGrantKind()
