"""`Placement` (cluster.open-cluster-management.io/v1beta1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.ocm import decided, group_text, selector_text
from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, condition, of, text
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import (
    Heading,
    Pair,
    Related,
    Rows,
    Section,
    Values,
    grounds,
    plain_conditions,
    time_and_age,
    tolerations,
)
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.names import PLACEMENT_LABEL

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.managed import Placement


_SATISFIED: Final = "PlacementSatisfied"


def _predicate(predicate: Object) -> str:
    selector = at(predicate, "requiredClusterSelector") or {}
    parts = []
    if labels := selector.get("labelSelector"):
        parts.append(f"labels {selector_text(labels)}")
    if claims := selector.get("claimSelector"):
        parts.append(f"claims {selector_text(claims)}")
    expressions: list[Any] = at(selector, "celSelector", "celExpressions") or []
    parts += [f"cel {text}" for text in expressions]
    return "; ".join(parts) or "all"


def _selected(found: Object) -> str:
    """How many clusters are selected. Upstream's status leaves the number out before the first one is."""
    return str(at(found, "status", "numberOfSelectedClusters") or "")


def _coordinate(config: Object) -> str:
    coordinate = config.get("scoreCoordinate") or {}
    if coordinate.get("type") == "AddOn":
        scored = coordinate.get("addOn") or {}
        return f"AddOn/{scored.get('resourceName')}/{scored.get('scoreName')}"
    return str(coordinate.get("builtIn") or config.get("name") or "")


def _decision(related: Related, namespace: str, name: str, now: datetime) -> Iterator[Section]:
    found = related.get("WorkloadPlacement", namespace, f"placement:{name}")
    if found is None:
        yield Pair("Decision", "not made yet")
        return
    decision = found["status"]
    yield Heading("Decision")
    yield Pair("  Decided", time_and_age(decision["decidedTime"], now))
    if again := decision.get("decideAgain"):
        yield Pair("  Again", again)
    yield from grounds(decision)


class PlacementKind(Kind["Placement"]):
    """A rule that chooses managed clusters. Other programs read its decisions."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta1", "v1alpha1")
    kind = "Placement"
    plural = "placements"
    model_module = "managed"
    mirrorable = True
    namespaced = True
    order = 230
    status_shown = True
    apply_order = 180
    unknown_fields = UnknownFields.WARNED
    fields_elsewhere = frozenset({"status", "spec.spreadPolicy"})
    columns = (
        TableColumn("SUCCEEDED", condition(_SATISFIED)),
        TableColumn("REASON", condition(_SATISFIED, "reason")),
        TableColumn("SELECTEDCLUSTERS", text("status", "numberOfSelectedClusters")),
        TableColumn("WANTED", text("spec", "numberOfClusters", default="<all>"), wide=True),
        TableColumn("MESSAGE", condition(_SATISFIED, "message"), wide=True),
        AGE._replace(wide=True),
    )
    api_columns = (
        of_condition("Succeeded", _SATISFIED),
        of_condition("Reason", _SATISFIED, "reason"),
        TableColumn("SelectedClusters", of(_selected), type="integer"),
    )

    @override
    def validate(self, resource: Placement, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_placement
        from moorage.decide.scheduling.ocm.plugin import Plugins

        return validate_placement(resource, Plugins.discovered().built_in_names)

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.validation.ocm import misconfigured_expressions, misconfigured_tolerations
        from moorage_schemas.resources.pod import OpenToleration

        spec = document.get("spec") or {}
        if spec.get("spreadPolicy"):
            yield "spec.spreadPolicy has no effect"
        tolerations = [OpenToleration.model_validate(one) for one in spec.get("tolerations") or ()]
        wrong = [*misconfigured_expressions(spec), *misconfigured_tolerations(tolerations)]
        yield from (f"the placement is misconfigured: {error}" for error in wrong)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        spec = found.get("spec") or {}
        namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
        yield Pair("Cluster sets", ",".join(spec.get("clusterSets") or []) or "all that are bound")
        number = spec.get("numberOfClusters")
        yield Pair("Clusters", "all that fit" if number is None else number)
        yield Values("Predicates", [_predicate(one) for one in spec.get("predicates") or []])
        policy = spec.get("prioritizerPolicy") or {}
        weights = [f"{_coordinate(one)} {one.get('weight', 1)}" for one in policy.get("configurations") or []]
        yield Values("Prioritizers", [*weights, f"mode {policy.get('mode') or 'Additive'}"])
        yield tolerations(spec.get("tolerations"))
        yield plain_conditions(found)
        selected = [
            [cluster, group_text(one), str(at(one, "metadata", "name"))]
            for one in related.list("PlacementDecision", namespace, f"{PLACEMENT_LABEL}={name}")
            for cluster in decided(one)
        ]
        yield Rows(f"Selected ({len(selected)})", ["CLUSTER", "GROUP", "DECISION"], selected)
        yield from _decision(related, namespace, name, now)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import placement_status

        return placement_status(resource.uid, records.placements.get(resource.key))


KIND = PlacementKind()
