from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage_schemas.keys import (
    BindingKey,
    ConditionKey,
    EvictionKey,
    ResourceKey,
    TargetKey,
    WorkloadConditionKey,
    binding_key,
    condition_key,
    eviction_key,
    workload_condition_key,
)
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import resource_partition_key, target_of_resource
from moorage_schemas.topics import partition_of

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
CLUSTERS = st.one_of(st.just(""), NAMES)
TARGETS = st.builds(TargetRef, kind=st.sampled_from(TargetKind), name=NAMES, cluster=CLUSTERS)
WORKLOADS = st.builds(
    WorkloadRef,
    kind=st.sampled_from(["Pod", "ResourceBinding"]),
    namespace=st.one_of(st.just(""), NAMES),
    name=NAMES,
    cluster=CLUSTERS,
)


@given(WORKLOADS, TARGETS, st.integers(0, 10**9), NAMES)
def test_what_is_written_is_read_back(workload: WorkloadRef, target: TargetRef, generation: int, kind: str) -> None:
    assert WorkloadRef.parse(workload.key) == workload
    assert TargetRef.parse(target.key) == target
    assert str(TargetKey.parse(target.key)) == target.key
    assert str(ResourceKey.parse(workload.key)) == workload.key
    named = ResourceKey.parse(workload.key)
    assert (named.kind, named.namespace, named.name, named.cluster) == (
        workload.kind,
        workload.namespace,
        workload.name,
        workload.cluster,
    )
    binding = BindingKey(workload.key, target.key)
    assert str(binding) == binding_key(workload, target)
    assert BindingKey.parse(str(binding)) == binding
    eviction = EvictionKey.parse(eviction_key(workload, target, generation))
    assert eviction == (workload.key, target.key, generation)
    assert (str(eviction), eviction.binding) == (eviction_key(workload, target, generation), str(binding))
    assert ConditionKey.parse(condition_key(target, kind)) == (target.key, kind)
    about = WorkloadConditionKey.parse(workload_condition_key(workload, target, kind))
    assert about == (workload.key, target.key, kind)
    assert str(about) == workload_condition_key(workload, target, kind)


def test_the_home_fleet_has_the_keys_and_the_records_that_it_always_had() -> None:
    target, workload = TargetRef(kind=TargetKind.NODE, name="n1"), WorkloadRef(kind="Pod", namespace="shop", name="a")
    assert (target.key, workload.key) == ("Node/n1", "Pod/shop/a")
    assert target.model_dump_json() == '{"kind":"Node","name":"n1"}'
    assert workload.model_dump_json() == '{"kind":"Pod","namespace":"shop","name":"a"}'
    assert target.model_dump() == {"kind": TargetKind.NODE, "name": "n1"}


def test_nodes_of_the_same_name_in_two_clusters_are_two_targets() -> None:
    home = TargetRef(kind=TargetKind.NODE, name="n1")
    paris = TargetRef(kind=TargetKind.NODE, name="n1", cluster="paris")
    assert paris.key == "paris:Node/n1" != home.key
    assert paris != home
    assert TargetRef.model_validate_json(paris.model_dump_json()) == paris
    assert partition_of(paris.key) != partition_of(home.key)
    declared = str(ResourceKey("Node", "", "n1", "paris"))
    assert target_of_resource(declared) == paris
    assert resource_partition_key(declared) == paris.key


def test_a_key_that_lacks_parts_is_read_as_far_as_it_goes() -> None:
    assert ResourceKey.parse("Pod") == ("Pod", "", "", "")
    assert EvictionKey.parse("Pod/a/b|Node/n1|x").generation == 0
    assert WorkloadConditionKey.parse("Pod/a/b") == ("Pod/a/b", "", "")
