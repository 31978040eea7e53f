"""OCM's placements and their decisions (cluster.open-cluster-management.io)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, UnknownFields, View
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    CUSTOM_AGE,
    NONE,
    Object,
    TableColumn,
    condition,
    count,
    label,
    of,
    selector_text,
    text,
)
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
from moorage.decide.kubernetes.object_texts import condition_status
from moorage.decide.kubernetes.unstructured import at, name_of, namespace_of
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE, PLACEMENT_LABEL

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.managed import Placement


def decided(found: Object) -> list[str]:
    """Return the clusters of a PlacementDecision."""
    return [str(one.get("clusterName")) for one in at(found, "status", "decisions") or []]


def group_text(found: Object) -> str:
    """Return the decision group of a PlacementDecision: its index, and its name if it has one."""
    prefix = "cluster.open-cluster-management.io/decision-group"
    name, index = (at(found, "metadata", "labels", f"{prefix}-{field}") for field in ("name", "index"))
    return " ".join(filter(None, (str(index or "0"), f"({name})" if name else "")))


def placement_of(found: Object) -> str:
    """Return the placement of a PlacementDecision."""
    return str(at(found, "metadata", "labels", PLACEMENT_LABEL) or "")


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
    """Return how many clusters are selected. Upstream's status leaves the number out before the first one is."""
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
    in_own_all = True
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
        tolerations = [OpenToleration.model_validate(one) for one in spec.get("tolerations") or ()]
        wrong = [*misconfigured_expressions(spec), *misconfigured_tolerations(tolerations)]
        yield from (f"the placement is misconfigured: {error}" for error in wrong)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        spec = found.get("spec") or {}
        namespace, name = namespace_of(found), name_of(found)
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
            [cluster, group_text(one), name_of(one)]
            for one in related.list("PlacementDecision", namespace, f"{PLACEMENT_LABEL}={name}")
            for cluster in decided(one)
        ]
        yield Rows(f"Selected ({len(selected)})", ["CLUSTER", "GROUP", "DECISION"], selected)
        yield from _decision(related, namespace, name, now)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import placement_status

        return placement_status(resource.uid, records.placements.get(resource.key))


class PlacementDecisionKind(View):
    """A page of the managed clusters that a placement has selected, as OCM's API shows it.

    One that another controller has written on a real hub is mirrored and shown unchanged, until Moorage decides.
    """

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta1", "v1alpha1")
    kind = "PlacementDecision"
    model_module = "managed"
    cli_names = ("pd",)
    namespaced = True
    mirrorable = True
    order = 2100
    repeatable = True
    columns = (
        TableColumn("PLACEMENT", label(PLACEMENT_LABEL)),
        TableColumn("CLUSTERS", count("status", "decisions")),
        TableColumn("GROUP", of(group_text)),
        TableColumn("SELECTED", of(lambda found: ",".join(decided(found)) or NONE), wide=True),
    )
    api_columns = (CUSTOM_AGE,)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield Pair("Placement", placement_of(found))
        yield Pair("Group", group_text(found))
        known = {name_of(one): one for one in related.list("ManagedCluster")}
        rows = [
            [name, condition_status(known.get(name, {}), MANAGED_CLUSTER_AVAILABLE) or "Unknown"]
            for name in decided(found)
        ]
        yield Rows(f"Clusters ({len(rows)})", ["NAME", "AVAILABLE"], rows)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import placement_decision

        if (placed := records.placements.get(object_id.key)) is not None:
            return placement_decision(placed, records.resources.get(placed.owner.key))
        declared = records.resources.get(object_id.key)
        return declared.object if declared is not None else None


KINDS = (PlacementKind(), PlacementDecisionKind())
