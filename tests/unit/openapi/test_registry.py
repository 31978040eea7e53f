"""The structure of every kind that is served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.tables import table

from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.machinery.openapi import definitions
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of, schema_of
from moorage.apiserver.machinery.schema import Field, Form, ListType, Schema

SERVED = [(kind.group, version, kind.kind) for kind in kinds.discovered() for version in kind.versions]


def reached(schema: Schema) -> Iterator[Schema]:
    """A schema and all that it consists of, once each."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [field.schema for field in one.fields.values()]
        waiting += [one.items] if one.items is not None else []


def field_at(schema: Schema, path: str) -> Field:
    """The field at a path: `spec.containers.ports`. Elements of lists need no word."""
    *before, last = path.split(".")
    for name in before:
        found = schema.at(name)
        assert found is not None, name
        schema = found.items if found.form is Form.LIST and found.items is not None else found
    return schema.fields[last]


@table("served", SERVED, ids="/".join)
def test_every_served_kind_has_a_structure_at_every_version(served: tuple[str, str, str]) -> None:
    schema = schema_of(*served)
    assert {"apiVersion", "kind", "metadata"} <= schema.fields.keys()
    metadata = schema.at("metadata")
    assert metadata is not None
    assert {"managedFields", "ownerReferences", "finalizers", "generateName"} <= metadata.fields.keys()
    group, version, kind = served
    listed = schema_of(group, version, f"{kind}List").at("items")
    assert listed is not None
    assert listed.items is schema


@table("served", SERVED, ids="/".join)
def test_a_structure_is_whole(served: tuple[str, str, str]) -> None:
    for one in reached(schema_of(*served)):
        assert (one.items is not None) is (one.form in {Form.LIST, Form.MAP}), one
        assert one.list_type is not ListType.MAP or one.list_keys, one
        assert not one.fields or one.form is Form.STRUCT, one
        if one.form is Form.LIST and one.list_keys:
            assert one.items is not None
            assert set(one.list_keys) <= one.items.fields.keys()
        if one.merge_key:
            assert one.items is not None
            assert one.merge_key in one.items.fields


def test_lists_of_a_pod_are_merged_by_their_keys() -> None:
    pod = schema_of("", "v1", "Pod")
    ports = field_at(pod, "spec.containers.ports").schema
    assert (ports.list_type, ports.list_keys) == (ListType.MAP, ("containerPort", "protocol"))
    assert (ports.merge_key, ports.patch_strategies) == ("containerPort", frozenset({"merge"}))
    assert field_at(pod, "spec.containers.ports.protocol").schema.default == "TCP"
    tolerations = field_at(pod, "spec.tolerations").schema
    assert (tolerations.list_type, tolerations.merge_key) == (ListType.ATOMIC, "")
    assert field_at(pod, "spec.volumes").schema.patch_strategies == {"merge", "retainKeys"}
    owners = field_at(pod, "metadata.ownerReferences").schema
    assert (owners.list_type, owners.list_keys, owners.merge_key) == (ListType.MAP, ("uid",), "uid")
    finalizers = field_at(pod, "metadata.finalizers").schema
    assert (finalizers.list_type, finalizers.patch_strategies) == (ListType.SET, frozenset({"merge"}))


def test_fields_have_their_numbers_in_protobuf() -> None:
    pod = schema_of("", "v1", "Pod")
    assert field_at(pod, "spec.tolerations.tolerationSeconds").number == 5
    assert field_at(pod, "apiVersion").number == 0
    empty_dir = field_at(pod, "spec.volumes.emptyDir")
    assert (empty_dir.within, empty_dir.number) == ((2,), 2)


def test_a_use_of_a_definition_may_say_more_than_the_definition() -> None:
    strategy = field_at(schema_of("apps", "v1", "Deployment"), "spec.strategy").schema
    assert strategy.name == "io.k8s.api.apps.v1.DeploymentStrategy"
    assert strategy.patch_strategies == {"retainKeys"}
    assert definitions.definition(strategy.name).patch_strategies == frozenset()


def test_custom_resources_keep_what_their_definitions_leave_open() -> None:
    provider = field_at(schema_of("machine.openshift.io", "v1beta1", "MachineSet"), "spec.template.spec.providerSpec")
    assert provider.schema.fields["value"].schema.keeps_unknown


def test_own_kinds_have_the_structure_and_the_docstrings_of_their_models() -> None:
    budget = schema_of("moorage.io", "v1alpha1", "EvictionBudget")
    assert budget.name == "io.moorage.v1alpha1.EvictionBudget"
    assert budget.description
    most = field_at(budget, "spec.maxConcurrent")
    assert most.schema.form is Form.INT_OR_STRING
    assert most.description.startswith("The maximum at a time.")
    assert field_at(budget, "spec.per").schema.enum == ("Fleet", "Zone", "Namespace", "Workload")
    assert field_at(budget, "spec.scope.selector").schema.name.endswith(".LabelSelector")
    assert "state" in field_at(schema_of("moorage.io", "v1alpha1", "Eviction"), "status").schema.fields


def test_what_a_kind_takes_follows_from_where_upstream_serves_it() -> None:
    assert origin_of("", "Pod") is Origin.BUILT_IN
    assert origin_of("", "PodList") is Origin.BUILT_IN
    assert origin_of("", "Binding") is Origin.BUILT_IN
    assert origin_of("moorage.io", "Binding") is Origin.OWN
    assert origin_of("policy.karmada.io", "PropagationPolicyList") is Origin.CUSTOM
    assert origin_of("apps", "DeleteOptions") is Origin.BUILT_IN
    assert origin_of("cluster.karmada.io", "Cluster") is Origin.AGGREGATED
    assert Origin.AGGREGATED.merges_strategically
    assert not Origin.AGGREGATED.has_protobuf
    assert not origin_of("cluster.open-cluster-management.io", "ManagedCluster").merges_strategically


def test_what_is_not_served_has_no_structure() -> None:
    with pytest.raises(LookupError, match="core/v1 has no kind Potato"):
        schema_of("", "v1", "Potato")
    with pytest.raises(LookupError, match="there is no definition Potato"):
        definitions.definition("Potato")


def test_options_are_found_in_every_group() -> None:
    assert schema_of("apps", "v1", "DeleteOptions") is schema_of("", "v1", "DeleteOptions")


def test_a_version_that_upstream_dropped_has_the_structure_of_the_next_newer_one() -> None:
    group = "cluster.open-cluster-management.io"
    newer, older = (schema_of(group, version, "ManagedClusterSet") for version in ("v1beta1", "v1alpha1"))
    selector = "spec.clusterSelector.selectorType"
    assert field_at(older, selector).schema.enum == field_at(newer, selector).schema.enum
    assert (
        field_at(older, selector).schema.enum
        != field_at(schema_of(group, "v1beta2", "ManagedClusterSet"), selector).schema.enum
    )
    assert older.name == "io.open-cluster-management.cluster.v1alpha1.ManagedClusterSet"


@table(
    ("served", "path"),
    [
        (("apps", "v1", "Deployment"), "status.scheduledReplicas"),
        (("batch", "v1", "Job"), "status.scheduledReplicas"),
        (("policy", "v1", "PodDisruptionBudget"), "status.held"),
        (("", "v1", "Node"), "status.heldTaints"),
        (("cluster.karmada.io", "v1alpha1", "Cluster"), "status.heldTaints"),
        (("cluster.karmada.io", "v1alpha1", "Cluster"), "status.conditions.lastHeartbeatTime"),
        (("cluster.open-cluster-management.io", "v1", "ManagedCluster"), "status.heldTaints"),
        (("cluster.open-cluster-management.io", "v1beta1", "Placement"), "spec.prioritizerPolicy.configurations.name"),
        (("cluster.open-cluster-management.io", "v1alpha1", "Placement"), "spec.decisionStrategy.groupStrategy"),
        (("policy.karmada.io", "v1alpha1", "PropagationPolicy"), "spec.failover.cluster.gracePeriodSeconds"),
    ],
)
def test_what_moorage_shows_and_reads_in_addition_is_known(served: tuple[str, str, str], path: str) -> None:
    assert field_at(schema_of(*served), path).number == 0


def test_the_shared_condition_has_no_heartbeat() -> None:
    assert "lastHeartbeatTime" not in definitions.definition(f"{definitions.META}.Condition").fields


def test_no_definition_has_two_structures() -> None:
    found: dict[str, set[object]] = {}
    for group, version, kind in SERVED:
        for schema in reached(schema_of(group, version, kind)):
            if schema.name:
                fields = frozenset((name, one.required, one.schema.form) for name, one in schema.fields.items())
                found.setdefault(schema.name, set()).add((schema.form, fields))
    assert {name for name, structures in found.items() if len(structures) > 1} == set()
