"""The gateway's count of the clusters in each set, compared with a new count after every change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.kinds.status.ocm import CLUSTER, SET, ManagedIndex, merged_labels
from moorage.apiserver.storage.tables import Tables
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import BUILT_IN_SETS, SET_LABEL, ManagedClusterSet
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import RESOURCES, TAINTS

FEATURE = "feature.open-cluster-management.io/addon-x"
SETS = ("s", "t")
CLUSTERS = ("a", "b", "c")

labels = st.fixed_dictionaries(
    {}, optional={SET_LABEL: st.sampled_from(("", "default", *SETS)), "tier": st.sampled_from(("x", "y"))}
)
selectors = st.sampled_from(
    (
        {},
        {"selectorType": "ExclusiveClusterSetLabel"},
        {"selectorType": "LabelSelector", "labelSelector": {}},
        {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"tier": "x"}}},
        {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {FEATURE: "available"}}},
    )
)
changes = st.one_of(
    st.tuples(st.just("cluster"), st.sampled_from(CLUSTERS), st.none() | labels),
    st.tuples(st.just("system"), st.sampled_from(CLUSTERS), st.sampled_from(("available", "unreachable", ""))),
    st.tuples(st.just("set"), st.sampled_from(SETS), st.none() | selectors),
)


def declared(kind: str, name: str, **parts: object) -> ResourceDeclared:
    metadata = {"name": name, "uid": f"u-{name}", **({"labels": parts.pop("labels")} if "labels" in parts else {})}
    head = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": kind, "metadata": metadata}
    return ResourceDeclared(object={**head, **parts}, version=1)


@given(st.lists(changes, max_size=25))
def test_sizes_are_right_and_every_change_is_told(made: list[tuple[str, str, object]]) -> None:
    tables = Tables()
    index = tables.index(ManagedIndex)
    clusters: dict[str, ResourceDeclared] = {}
    system: dict[str, TargetTainted] = {}
    sets: dict[str, ResourceDeclared] = {}
    shown = dict.fromkeys(BUILT_IN_SETS, 0)
    for what, name, value in made:
        if what == "set":
            new = None if value is None else declared(SET, name, spec={"clusterSelector": value})
            sets.pop(name, None)
            if new is not None:
                sets[name] = new
            touched = tables.apply(RESOURCES, f"{SET}//{name}", new)
        elif what == "cluster":
            clusters.pop(name, None)
            if value is not None:
                clusters[name] = declared(CLUSTER, name, labels=value)
            touched = tables.apply(RESOURCES, f"{CLUSTER}//{name}", clusters.get(name))
        else:
            target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=name)
            kept = {FEATURE: str(value)} if value else {}
            system[name] = TargetTainted(target=target, target_uid=f"u-{name}", generation=1, labels=kept)
            touched = tables.apply(TAINTS, target.key, system[name])
        told = {one.name for one in touched if one.kind == SET}
        there = {
            group: ManagedSet.of(group, ManagedClusterSet.model_validate(one.object).spec)
            for group, one in sets.items()
        }
        there |= {group: index.sets.get(group) or ManagedSet(group, exclusive=True) for group in BUILT_IN_SETS}
        sizes = {
            group: sum(one.has(merged_labels(cluster, system.get(key))) for key, cluster in clusters.items())
            for group, one in there.items()
        }
        assert {group: index.size(group) for group in sizes} == sizes
        shown = {group: sizes[group] if group in told else shown[group] for group in sizes}
        assert shown == sizes
