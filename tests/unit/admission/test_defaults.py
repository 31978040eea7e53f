"""The defaults that admission adds to pods, nodes, clusters and policies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.apiserver.rules.admission_defaults import declare_external_cloud, role_taints
from moorage.apiserver.rules.field_defaults import with_admitted_defaults
from moorage.decide.kubernetes.pod_defaults import admit_pod
from moorage.decide.kubernetes.pod_resources import qos_class
from moorage.decide.kubernetes.quantities import QuantityError
from moorage.decide.kubernetes.selectors import matches_node_selector
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.taint import Taint

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
MEMORY = "node.kubernetes.io/memory-pressure"


def exists(key: str, effect: str, seconds: int | None = None) -> dict[str, Any]:
    toleration: dict[str, Any] = {"key": key, "operator": "Exists", "effect": effect}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


DEFAULTS = [exists(NOT_READY, "NoExecute", 300), exists(UNREACHABLE, "NoExecute", 300)]


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "team", "labels": {"app": "a"}}, "spec": spec}


def container(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


def tolerations(given: dict[str, Any], *rules: DedicatedNodes, daemon: bool = False) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admit_pod(given, rules, daemon=daemon)["spec"]["tolerations"]
    return found


def dedicated(name: str = "r", **spec: Any) -> DedicatedNodes:
    return DedicatedNodes.model_validate(
        {"apiVersion": "moorage.io/v1alpha1", "kind": "DedicatedNodes", "metadata": {"name": name}, "spec": spec}
    )


@table(
    ("own", "added"),
    [
        ([], DEFAULTS),
        ([exists(NOT_READY, "NoExecute")], DEFAULTS[1:]),
        ([exists(NOT_READY, "")], DEFAULTS[1:]),
        ([exists(UNREACHABLE, "NoExecute", 5)], DEFAULTS[:1]),
        ([exists(NOT_READY, "NoSchedule")], DEFAULTS),
        ([exists("", "NoExecute")], []),
        ([{"operator": "Exists"}], []),
        ([exists("", "NoSchedule")], DEFAULTS),
        ([{"key": NOT_READY, "value": "x", "effect": "NoExecute"}], DEFAULTS[1:]),
    ],
)
def test_300_seconds_unless_the_pod_speaks_of_it(own: list[dict[str, Any]], added: list[dict[str, Any]]) -> None:
    assert tolerations(pod(tolerations=own)) == own + added


def test_a_daemon_pod_stays_for_ever() -> None:
    keys = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    expected = [exists(NOT_READY, "NoExecute"), exists(UNREACHABLE, "NoExecute")]
    expected += [exists(f"node.kubernetes.io/{key}", "NoSchedule") for key in keys]
    assert tolerations(pod(), daemon=True) == expected
    with_network = [*expected, exists("node.kubernetes.io/network-unavailable", "NoSchedule")]
    assert tolerations(pod(hostNetwork=True), daemon=True) == with_network


@pytest.mark.parametrize(
    ("containers", "tolerates"),
    [
        ([container()], False),
        ([container({"cpu": "0"})], False),
        ([container({"cpu": "1m"})], True),
        ([container(limits={"memory": "1Gi"})], True),
        ([container(), container({"cpu": "1"}, {"cpu": "1"})], True),
    ],
)
def test_memory_pressure_by_quality_of_service(containers: list[dict[str, Any]], *, tolerates: bool) -> None:
    assert (exists(MEMORY, "NoSchedule") in tolerations(pod(containers=containers))) is tolerates


BOTH = {"cpu": "1", "memory": "1Gi"}


@table(
    ("spec", "expected"),
    [
        ({}, "BestEffort"),
        ({"containers": [container({"nvidia.com/gpu": "1"})]}, "BestEffort"),
        ({"containers": [container(BOTH, BOTH)]}, "Guaranteed"),
        ({"containers": [container(None, BOTH)]}, "Guaranteed"),
        ({"containers": [container({"cpu": "1000m", "memory": "1024Mi"}, BOTH)]}, "Guaranteed"),
        ({"containers": [container({"cpu": "1"}, {"cpu": "1"})]}, "Burstable"),
        ({"containers": [container({"cpu": "500m"}, BOTH)]}, "Burstable"),
        ({"containers": [container(BOTH, BOTH), container()]}, "Burstable"),
        ({"containers": [container(BOTH, BOTH)], "initContainers": [container()]}, "Burstable"),
        ({"containers": [container()], "initContainers": [container({"cpu": "1"})]}, "Burstable"),
        ({"containers": [container(BOTH, BOTH)], "initContainers": [container(BOTH, BOTH)]}, "Guaranteed"),
        ({"containers": [container()], "resources": {"limits": BOTH}}, "Guaranteed"),
        ({"containers": [container(BOTH, BOTH)], "resources": {"requests": {"cpu": "1"}}}, "Guaranteed"),
        ({"containers": [container(BOTH, BOTH), container()], "resources": {"requests": {"cpu": "1"}}}, "Burstable"),
        ({"containers": [container({"cpu": "500m"})], "resources": {"limits": BOTH}}, "Burstable"),
        ({"containers": [container(BOTH, BOTH)], "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, "Guaranteed"),
        ({"containers": [container(BOTH, BOTH)], "resources": {}}, "Guaranteed"),
    ],
)
def test_quality_of_service(spec: dict[str, Any], expected: str) -> None:
    assert qos_class(spec) == expected


def test_extended_resources_are_tolerated_by_name() -> None:
    given = pod(
        containers=[container({"nvidia.com/gpu": "1", "kubernetes.io/x": "1"}), container({"cpu": "0"})],
        initContainers=[container(None, {"example.com/dongle": 2})],
    )
    assert tolerations(given)[:2] == [
        exists("example.com/dongle", "NoSchedule"),
        exists("nvidia.com/gpu", "NoSchedule"),
    ]


def test_a_dedicated_rule_adds_a_toleration_and_an_affinity() -> None:
    admitted = admit_pod(pod(), [dedicated(value="gpu")])
    assert {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"} in admitted["spec"][
        "tolerations"
    ]
    required = PodSpec.model_validate(admitted["spec"]).affinity
    assert required is not None
    assert required.node_affinity is not None
    selector = required.node_affinity.required_during_scheduling_ignored_during_execution
    assert selector is not None
    assert matches_node_selector(selector, {"dedicated": "gpu"}, "n")
    assert not matches_node_selector(selector, {"dedicated": "web"}, "n")
    assert not matches_node_selector(selector, {}, "n")


def test_the_affinity_is_anded_into_every_term_but_empty_ones() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        {},
    ]
    given = pod(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    )
    admitted = admit_pod(given, [dedicated(value="gpu")])
    found = admitted["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    label = {"key": "dedicated", "operator": "In", "values": ["gpu"]}
    assert found["nodeSelectorTerms"] == [
        {"matchExpressions": [*terms[0]["matchExpressions"], label]},
        {**terms[1], "matchExpressions": [label]},
        {},
    ]


@pytest.mark.parametrize(
    ("spec", "applies"),
    [
        ({}, True),
        ({"namespaces": ["team"]}, True),
        ({"namespaces": ["other"]}, False),
        ({"namespaces": []}, False),
        ({"podSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"podSelector": {"matchLabels": {"app": "b"}}}, False),
    ],
)
def test_whom_a_dedicated_rule_is_about(spec: dict[str, Any], *, applies: bool) -> None:
    admitted = admit_pod(pod(), [dedicated(value="gpu", **spec)])
    assert ("affinity" in admitted["spec"]) is applies


def test_a_wrong_quantity_is_named() -> None:
    with pytest.raises(QuantityError, match=r"spec.containers\[1\].resources.requests\[cpu\].*'lots'"):
        admit_pod(pod(containers=[container(), container({"cpu": "lots"})]))


TOLERATION = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", NOT_READY, UNREACHABLE, MEMORY, "dedicated"]),
        "operator": st.sampled_from(["", "Exists", "Equal"]),
        "value": st.sampled_from(["", "gpu"]),
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute"]),
        "tolerationSeconds": st.integers(0, 9),
    },
)


@given(
    st.lists(TOLERATION, max_size=4),
    st.lists(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_admitting_twice_is_admitting_once(
    own: list[dict[str, Any]],
    asked: list[str],
    daemon: bool,  # noqa: FBT001 - generated by hypothesis
    network: bool,  # noqa: FBT001 - generated by hypothesis
) -> None:
    given = pod(tolerations=own, containers=[container(dict.fromkeys(asked, "1"))], hostNetwork=network)
    before = copy.deepcopy(given)
    rules = [dedicated("b", value="gpu"), dedicated("a", value="web", effect="NoExecute")]
    once = admit_pod(given, rules, daemon=daemon)
    assert given == before, "what comes in is not changed"
    assert admit_pod(once, rules, daemon=daemon) == once
    assert [effect_of(one) for one in once["spec"]["tolerations"]][: len(own)] == [effect_of(one) for one in own]


def effect_of(toleration: dict[str, Any]) -> tuple[str, ...]:
    names = ("key", "operator", "value", "effect")
    return tuple(toleration.get(name) or ("Equal" if name == "operator" else "") for name in names)


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MASTER = "node-role.kubernetes.io/master"


@pytest.mark.parametrize(
    ("labels", "present", "added"),
    [
        (None, [], []),
        ({"node-role.kubernetes.io/worker": ""}, [], []),
        ({CONTROL_PLANE: ""}, [], [CONTROL_PLANE, MASTER]),
        ({MASTER: "true"}, [], [CONTROL_PLANE, MASTER]),
        ({CONTROL_PLANE: "", MASTER: ""}, [Taint(key=MASTER, effect="NoSchedule")], [CONTROL_PLANE]),
        ({MASTER: ""}, [Taint(key=MASTER, effect="NoExecute")], [CONTROL_PLANE, MASTER]),
    ],
)
def test_taints_of_control_plane_nodes(labels: dict[str, str] | None, present: list[Taint], added: list[str]) -> None:
    found = role_taints(labels, present)
    assert [taint.key for taint in found] == added
    assert {taint.effect for taint in found} <= {"NoSchedule"}


def test_a_new_node_is_declared_with_its_external_cloud_once() -> None:
    node: dict[str, Any] = {"metadata": {"name": "n", "annotations": {"a": "b"}}}
    declared = declare_external_cloud(node)
    assert declared["metadata"]["annotations"] == {"a": "b", "moorage.io/cloud-provider": "external"}
    assert node["metadata"]["annotations"] == {"a": "b"}
    assert declare_external_cloud(declared) is declared
    initialised = {"metadata": {"name": "n"}, "spec": {"providerID": "cloud://n"}}
    assert declare_external_cloud(initialised) is initialised


def test_a_cluster_is_pushed_to_unless_it_says_otherwise() -> None:
    assert with_admitted_defaults({"kind": "Cluster"})["spec"] == {"syncMode": "Push"}
    assert with_admitted_defaults({"kind": "Cluster", "spec": {"syncMode": "Pull"}})["spec"] == {"syncMode": "Pull"}


POLICIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "kind": st.just("PropagationPolicy"),
        "metadata": st.sampled_from([{"name": "p"}, {"name": "p", "namespace": "shop"}]),
        "spec": st.fixed_dictionaries(
            {"resourceSelectors": st.just([{"apiVersion": "v1", "kind": "Pod"}, {"kind": "Pod", "namespace": "x"}])},
            optional={
                "priority": st.integers(-1, 1),
                "preemption": st.sampled_from(["Always", "Never", ""]),
                "placement": st.fixed_dictionaries(
                    {},
                    optional={
                        "spreadConstraints": st.lists(
                            st.fixed_dictionaries(
                                {},
                                optional={
                                    "minGroups": st.integers(0, 2),
                                    "spreadByField": st.sampled_from(["region", ""]),
                                    "spreadByLabel": st.sampled_from(["rack", ""]),
                                },
                            ),
                            max_size=3,
                        ),
                        "replicaScheduling": st.sampled_from(
                            [
                                None,
                                {},
                                {"replicaSchedulingType": "Duplicated"},
                                {"replicaDivisionPreference": "Aggregated"},
                            ]
                        ),
                    },
                ),
                "failover": st.sampled_from([{}, {"cluster": {}}, {"cluster": {"purgeMode": "Directly"}}]),
            },
        ),
    }
)


@given(POLICIES)
def test_defaults_of_policies_fill_gaps_and_change_nothing_else(policy: dict[str, Any]) -> None:
    before = copy.deepcopy(policy)
    admitted = with_admitted_defaults(policy)
    assert policy == before
    assert with_admitted_defaults(admitted) == admitted
    assert says_the_same(before, admitted)
    spec = admitted["spec"]
    assert spec["preemption"] in {"Always", "Never"}
    for constraint in (spec.get("placement") or {}).get("spreadConstraints") or ():
        assert constraint["minGroups"] >= 1
        assert constraint.get("spreadByField") or constraint.get("spreadByLabel")
    strategy = (spec.get("placement") or {}).get("replicaScheduling")
    if strategy is not None:
        assert (strategy["replicaSchedulingType"] == "Duplicated") == ("replicaDivisionPreference" not in strategy)
    cluster = (spec.get("failover") or {}).get("cluster")
    assert cluster is None or cluster["purgeMode"] in {"Directly", "Gracefully"}


def says_the_same(before: Any, after: Any) -> bool:
    """Whether all values before are also there after, except empty texts and zeros."""
    if isinstance(before, dict):
        return all(
            says_the_same(value, after.get(name)) for name, value in before.items() if value not in ("", 0, None)
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(says_the_same, before, after))
    return bool(before == after)
