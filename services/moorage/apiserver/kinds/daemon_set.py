"""`DaemonSet` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.controllers import ControllerKind, controller_columns
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of
from moorage.apiserver.kinds.printing.kubernetes import CONTAINERS, IMAGES, SELECTOR, labels_text, number
from moorage.apiserver.rules.field_defaults import with_field_defaults
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation by which Kubernetes counts the templates of a daemon set."""


def _with_template_generation(document: dict[str, Any], number: int) -> dict[str, Any]:
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def _ready(found: Object) -> str:
    return f"{at(found, 'status', 'numberReady') or 0}/{at(found, 'status', 'desiredNumberScheduled') or 0}"


def _scheduled(found: Object) -> str:
    return str(at(found, "status", "currentNumberScheduled") or 0)


class DaemonSetKind(ControllerKind[Any]):
    """A daemon set: one pod on every node that fits."""

    kind = "DaemonSet"
    plural = "daemonsets"
    model_module = "workloads"
    short_names = ("ds",)
    order = 70
    shown_zeros = frozenset({"currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"})
    columns = controller_columns(_ready, _scheduled)
    api_columns = (
        number("Desired", "status", "desiredNumberScheduled"),
        number("Current", "status", "currentNumberScheduled"),
        number("Ready", "status", "numberReady"),
        number("Up-to-date", "status", "updatedNumberScheduled"),
        number("Available", "status", "numberAvailable"),
        TableColumn(
            "Node Selector", of(lambda found: labels_text(at(found, "spec", "template", "spec", "nodeSelector")))
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_daemon_set

        return validate_daemon_set(document)

    @override
    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        return _with_template_generation(super().created(document, gates), 1)

    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        """See `Kind`. Only a changed template changes the number of the template."""
        known = str((at(shown, "metadata", "annotations") or {}).get(_TEMPLATE_GENERATION, ""))
        before = int(known) if known.isdecimal() else 0
        wanted = with_field_defaults(wanted)
        is_other = at(wanted, "spec", "template") != at(with_field_defaults({**shown}), "spec", "template")
        return _with_template_generation(wanted, before + is_other or 1)

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        from moorage.apiserver.kinds.status.rollouts import updated

        return {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "desiredNumberScheduled": counts.replicas,
            "currentNumberScheduled": counts.scheduled,
            "numberReady": counts.ready,
            "numberAvailable": counts.ready,
            "numberUnavailable": counts.replicas - counts.ready,
            "updatedNumberScheduled": updated(resource, records).scheduled,
            "numberMisscheduled": 0,
        }


KIND = DaemonSetKind()
