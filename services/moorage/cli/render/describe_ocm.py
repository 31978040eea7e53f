"""`moorage describe` of managed clusters, their sets and bindings, placements with their decisions, add-ons, scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.objects import at
from moorage.cli.errors import ServerError
from moorage.cli.render.cells import condition_status
from moorage.cli.render.describe import conditions, grounds, many, pair, since, table, toleration_text
from moorage.cli.render.describe_targets import taints
from moorage.cli.render.durations import age
from moorage.cli.render.ocm_tables import (
    PLACEMENT_LABEL,
    condition,
    decided,
    group_text,
    selector_text,
    set_text,
)
from moorage_schemas.resources.names import GLOBAL_SET, MANAGED_CLUSTER_AVAILABLE

if TYPE_CHECKING:
    from moorage.core.scheduling.ocm.cluster_sets import ManagedSets

_CLUSTERS = kinds.find("managedclusters")
_SETS = kinds.find("managedclustersets")
_SET_BINDINGS = kinds.find("managedclustersetbindings")
_PLACEMENTS = kinds.find("placements")
_DECISIONS = kinds.find("placementdecisions")
_PLACED = kinds.find("workloadplacements")
_ADD_ONS = kinds.find("managedclusteraddons")
_LEASES = kinds.find("leases")


def cluster(client: Client, found: JsonObject) -> Iterator[str]:
    """A managed cluster: its sets, taints, conditions, claims, amounts, add-ons, and which placements selected it."""
    name = str(at(found, "metadata", "name"))
    yield pair("Hub accepts", str(bool(at(found, "spec", "hubAcceptsClient"))).lower())
    sets, labels = _sets(client), at(found, "metadata", "labels") or {}
    yield pair("Cluster sets", ",".join(sorted(sets.of(labels) - {GLOBAL_SET})))
    if missing := sets.missing(labels):
        yield pair("Missing set", f"{missing}: no exclusive set of this name exists, so the cluster is in none")
    yield from taints(client, found)
    yield from conditions(found)
    claims = [[str(one.get("name")), str(one.get("value"))] for one in at(found, "status", "clusterClaims") or []]
    yield from table("Claims", ["NAME", "VALUE"], claims)
    for field in ("capacity", "allocatable"):
        if offered := at(found, "status", field):
            yield from many(field.title(), [f"{key}: {value}" for key, value in offered.items()])
    add_ons = [
        [str(at(one, "metadata", "name")), condition(one, "Available"), condition(one, "Available", "reason")]
        for one in client.list(_ADD_ONS, name)["items"]
    ]
    yield from table(f"Add-ons ({len(add_ons)})", ["NAME", "AVAILABLE", "REASON"], add_ons)
    rows = [
        [str(at(one, "metadata", "namespace")), _placement_of(one), group_text(one)]
        for one in client.list(_DECISIONS, None)["items"]
        if name in decided(one)
    ]
    yield from table(f"Selected by ({len(rows)})", ["NAMESPACE", "PLACEMENT", "GROUP"], rows)


def cluster_set(client: Client, found: JsonObject) -> Iterator[str]:
    """A set: how it finds its clusters, which they are, and where it is bound."""
    name = str(at(found, "metadata", "name"))
    yield pair("Selector", set_text(found))
    yield pair("Empty", condition(found, "ClusterSetEmpty"))
    made = _sets(client).get(name)
    rows = [
        [str(at(one, "metadata", "name")), condition_status(one, MANAGED_CLUSTER_AVAILABLE) or "Unknown"]
        for one in client.list(_CLUSTERS, None)["items"]
        if made is not None and made.has(at(one, "metadata", "labels") or {})
    ]
    yield from table(f"Clusters ({len(rows)})", ["NAME", "AVAILABLE"], rows)
    bound = [
        str(at(one, "metadata", "namespace"))
        for one in client.list(_SET_BINDINGS, None)["items"]
        if at(one, "metadata", "name") == name
    ]
    yield from many("Bound to", bound)


def binding(client: Client, found: JsonObject) -> Iterator[str]:
    """A binding: its set, whether it exists, and the placements that may choose from it."""
    name = str(at(found, "metadata", "name"))
    yield pair("Cluster set", at(found, "spec", "clusterSet"))
    yield pair("Bound", f"{condition(found, 'Bound')} ({condition(found, 'Bound', 'reason')})")
    using = [
        str(at(one, "metadata", "name"))
        for one in client.list(_PLACEMENTS, str(at(found, "metadata", "namespace")))["items"]
        if name in (at(one, "spec", "clusterSets") or [name])
    ]
    yield from many("Placements", using)


def placement(client: Client, found: JsonObject) -> Iterator[str]:
    """A placement: what it asks for, its conditions, what it has selected and on what grounds."""
    spec = found.get("spec") or {}
    namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
    yield pair("Cluster sets", ",".join(spec.get("clusterSets") or []) or "all that are bound")
    number = spec.get("numberOfClusters")
    yield pair("Clusters", "all that fit" if number is None else number)
    yield from many("Predicates", [_predicate(one) for one in spec.get("predicates") or []])
    policy = spec.get("prioritizerPolicy") or {}
    weights = [f"{_coordinate(one)} {one.get('weight', 1)}" for one in policy.get("configurations") or []]
    yield from many("Prioritizers", [*weights, f"mode {policy.get('mode') or 'Additive'}"])
    yield from many("Tolerations", [toleration_text(one) for one in spec.get("tolerations") or []])
    rows = [
        [str(one.get(field) or "") for field in ("type", "status", "reason", "message")]
        for one in at(found, "status", "conditions") or []
    ]
    yield from table("Conditions", ["TYPE", "STATUS", "REASON", "MESSAGE"], rows)
    pages = client.list(_DECISIONS, namespace, f"{PLACEMENT_LABEL}={name}")["items"]
    selected = [
        [cluster_name, group_text(one), str(at(one, "metadata", "name"))]
        for one in pages
        for cluster_name in decided(one)
    ]
    yield from table(f"Selected ({len(selected)})", ["CLUSTER", "GROUP", "DECISION"], selected)
    try:
        decision = client.get(_PLACED, namespace, f"placement:{name}")["status"]
    except ServerError as error:
        if error.reason != "NotFound":
            raise
        yield pair("Decision", "not made yet")
        return
    yield "Decision:"
    yield pair("  Decided", f"{decision['decidedTime']} ({age(decision['decidedTime'])} ago)")
    if again := decision.get("decideAgain"):
        yield pair("  Again", again)
    yield from grounds(decision)


def decision(client: Client, found: JsonObject) -> Iterator[str]:
    """A page of decisions: of which placement, which group, which clusters, and how these are."""
    yield pair("Placement", _placement_of(found))
    yield pair("Group", group_text(found))
    known = {str(at(one, "metadata", "name")): one for one in client.list(_CLUSTERS, None)["items"]}
    rows = [
        [name, condition_status(known.get(name, {}), MANAGED_CLUSTER_AVAILABLE) or "Unknown"] for name in decided(found)
    ]
    yield from table(f"Clusters ({len(rows)})", ["NAME", "AVAILABLE"], rows)


def score(_: Client, found: JsonObject) -> Iterator[str]:
    """Scores that an add-on gives to the cluster of its namespace."""
    yield pair("Cluster", at(found, "metadata", "namespace"))
    yield pair("Valid until", at(found, "status", "validUntil") or "for ever")
    rows = [[str(one.get("name")), str(one.get("value", 0))] for one in at(found, "status", "scores") or []]
    yield from table("Scores", ["NAME", "VALUE"], rows)


def add_on(client: Client, found: JsonObject) -> Iterator[str]:
    """An add-on: whether it is available on its cluster, and the lease that says so."""
    namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
    yield pair("Cluster", namespace)
    yield pair("Available", f"{condition(found, 'Available')} ({condition(found, 'Available', 'reason')})")
    try:
        lease = client.get(_LEASES, namespace, name)
    except ServerError as error:
        if error.reason != "NotFound":
            raise
        yield pair("Lease", "none of the add-on's name in its namespace")
        return
    yield pair("Lease renewed", since(at(lease, "spec", "renewTime")))


def _sets(client: Client) -> ManagedSets:
    """The sets that there are."""
    # Only a few kinds need models and the rules of sets; the others are described without them.
    from pydantic import ValidationError  # noqa: PLC0415 - see above

    from moorage.core.scheduling.ocm.cluster_sets import ManagedSets  # noqa: PLC0415 - see above
    from moorage_schemas.resources.managed import ManagedClusterSet  # noqa: PLC0415 - see above

    found = ManagedSets()
    for one in client.list(_SETS, None)["items"]:
        head = {"apiVersion": _SETS.api_version, "kind": _SETS.kind}
        try:
            made = ManagedClusterSet.model_validate({**head, **one})
        except ValidationError:  # of a newer version than this program
            continue
        found.put(made.metadata.name, made.spec)
    return found


def _placement_of(found: JsonObject) -> str:
    return str(at(found, "metadata", "labels", PLACEMENT_LABEL) or "")


def _predicate(predicate: JsonObject) -> str:
    selector = at(predicate, "requiredClusterSelector") or {}
    parts = []
    if labels := selector.get("labelSelector"):
        parts.append(f"labels {selector_text(labels)}")
    if claims := selector.get("claimSelector"):
        parts.append(f"claims {selector_text(claims)}")
    expressions: list[Any] = at(selector, "celSelector", "celExpressions") or []
    parts += [f"cel {text}" for text in expressions]
    return "; ".join(parts) or "all"


def _coordinate(config: JsonObject) -> str:
    coordinate = config.get("scoreCoordinate") or {}
    if coordinate.get("type") == "AddOn":
        scored = coordinate.get("addOn") or {}
        return f"AddOn/{scored.get('resourceName')}/{scored.get('scoreName')}"
    return str(coordinate.get("builtIn") or config.get("name") or "")
