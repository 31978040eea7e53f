"""Which clusters a Karmada `ClusterAffinity` selects (docs/domain.md, "ClusterAffinity")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from moorage.decide.kubernetes.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    matches_labels,
    requirement_text,
    test_of,
)
from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resources.meta import LabelSelector, SelectorRequirement
from moorage_schemas.resources.policies import ClusterAffinity

PROVIDER: Final = "provider"
REGION: Final = "region"
ZONE: Final = "zone"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts about a cluster that affinities consider."""

    name: str
    labels: Mapping[str, str]
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the facts of a `Cluster` object. A field with the wrong type counts as absent.

        A cluster that has only the older field `spec.zone` is in that one zone, as upstream's webhook writes it.
        """
        metadata, spec = part(document, "metadata"), part(document, "spec")
        zones = spec.get("zones")
        listed = tuple(zone for zone in zones if isinstance(zone, str)) if isinstance(zones, list | tuple) else ()
        return cls(
            name=_text(metadata, "name"),
            labels={key: value for key, value in part(metadata, "labels").items() if isinstance(value, str)},
            provider=_text(spec, "provider"),
            region=_text(spec, "region"),
            zones=listed or ((zone,) if (zone := _text(spec, "zone")) else ()),
        )


def _text(document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    return found if isinstance(found, str) else ""


def selects(affinity: ClusterAffinity | None, cluster: ClusterFacts) -> bool:
    """Return whether an affinity selects a cluster. An absent affinity and an empty one select every cluster.

    All parts are ANDed: the cluster is not excluded, it is among the given names, and labels and fields match. As
    upstream, an empty list of names counts as absent.
    """
    if affinity is None:
        return True
    if cluster.name in (affinity.exclude or ()):
        return False
    if affinity.cluster_names and cluster.name not in affinity.cluster_names:
        return False
    if affinity.label_selector is not None and not matches_labels(affinity.label_selector, cluster.labels):
        return False
    fields = affinity.field_selector
    return fields is None or all(_field_matches(requirement, cluster) for requirement in fields.match_expressions or ())


def objections(affinity: ClusterAffinity | None, cluster: ClusterFacts) -> Iterator[str]:
    """Return each part of an affinity that does not select a cluster, as text. Empty exactly if `selects` is true."""
    if affinity is None:
        return
    if cluster.name in (affinity.exclude or ()):
        yield "exclude names it"
    if affinity.cluster_names and cluster.name not in affinity.cluster_names:
        yield "clusterNames does not name it"
    if affinity.label_selector is not None:
        yield from _label_objections(affinity.label_selector, cluster.labels)
    fields = affinity.field_selector
    for requirement in (fields.match_expressions if fields is not None else None) or ():
        if not _field_matches(requirement, cluster):
            has = {PROVIDER: cluster.provider, REGION: cluster.region, ZONE: ", ".join(cluster.zones)}.get(
                requirement.key
            )
            yield f"fieldSelector {requirement_text(requirement)} fails: {_present(has or None)}"


def _label_objections(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[str]:
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            yield f"labelSelector {key}={value} fails: {_present(labels.get(key))}"
    for requirement in selector.match_expressions or ():
        if not test_of(requirement, node=False)(labels.get(requirement.key)):
            yield f"labelSelector {requirement_text(requirement)} fails: {_present(labels.get(requirement.key))}"


def _present(value: str | None) -> str:
    return "the cluster has none" if value is None else f"it is {value!r}"


def _field_matches(requirement: SelectorRequirement, cluster: ClusterFacts) -> bool:
    if requirement.key == ZONE:
        return _zones_match(requirement, cluster.zones)
    # As with labels, an empty field counts as absent, and so does a field that clusters do not have.
    known = {PROVIDER: cluster.provider, REGION: cluster.region}.get(requirement.key)
    return test_of(requirement, node=True)(known or None)


def _zones_match(requirement: SelectorRequirement, zones: tuple[str, ...]) -> bool:
    """Return whether a requirement on the zones matches. `In` needs a zone, and all zones among the values."""
    values = requirement.values or ()
    if requirement.operator == IN:
        return bool(zones) and all(zone in values for zone in zones)
    if requirement.operator == NOT_IN:
        return not any(zone in values for zone in zones)
    if requirement.operator == EXISTS:
        return bool(zones)
    return requirement.operator == DOES_NOT_EXIST and not zones
