"""The Helm chart makes the objects of the kustomize base, and refuses values that it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import manifests
from tests.support.processes import COMMANDS_APART, READS_SEALS

from moorage.runtime.chains import CHAINS


def test_the_chart_makes_the_objects_of_the_base() -> None:
    ours = manifests.objects(manifests.kustomized("base"))
    # Who installs a chart makes its namespace.
    del ours[f"Namespace/{manifests.NAMESPACE}"]
    theirs = {key: manifests.without_makers(one) for key, one in manifests.objects(manifests.templated()).items()}
    assert theirs.keys() == ours.keys()
    for key, one in ours.items():
        assert theirs[key] == one, key


@pytest.mark.parametrize(("more", "options"), [((), ()), (("bridge/cluster-token",), (manifests.CLUSTER_TOKENS,))])
def test_with_all_options_the_chart_makes_the_objects_of_all_components(
    tmp_path: Path, more: tuple[str, ...], options: tuple[str, ...]
) -> None:
    components = ("strimzi", "keda", "keda/strimzi", "monitoring", *more)
    ours = manifests.objects(manifests.combined(tmp_path, *components, bridges=manifests.BRIDGED))
    # The chart uses a Kafka and its users, and does not make them.
    ours = {
        key: one for key, one in ours.items() if one["kind"] not in ("Namespace", "Kafka", "KafkaNodePool", "KafkaUser")
    }
    theirs = manifests.objects(manifests.templated(*manifests.WHOLE, *options))
    assert theirs.keys() == ours.keys()
    for key, one in ours.items():
        assert _compared(theirs[key]) == _compared(one), key


def _compared(one: manifests.Manifest) -> manifests.Manifest:
    """An object without labels that select nothing, and with its volumes in the order of their names."""
    made = manifests.without_makers(one)
    made["metadata"].pop("labels", None)
    if "template" in made.get("spec", {}):
        for name in ("app.kubernetes.io/part-of", "app.kubernetes.io/version"):
            made["spec"]["template"]["metadata"]["labels"].pop(name, None)
        for place in (manifests.pod(made)["volumes"], manifests.container(made)["volumeMounts"]):
            place.sort(key=lambda each: str(each["name"]))
    return made


def _roles(made: dict[str, manifests.Manifest]) -> dict[str, list[manifests.Manifest]]:
    return {one["metadata"]["name"]: one["rules"] for one in made.values() if one["kind"] in ("ClusterRole", "Role")}


def test_a_bridge_has_the_roles_of_its_acts_alone() -> None:
    home = {"name": "home", "kind": "kubernetes"}
    made = manifests.objects(manifests.templated(manifests.bridges({**home, "acts": ["taints"]})))
    assert _roles(made).keys() == {
        f"moorage-bridge-{name}-home" for name in ("mirror", "heartbeats", "election", "taints")
    }
    assert "--act=taints" in manifests.container(made["Deployment/moorage-bridge-home"])["args"]
    made = manifests.objects(manifests.templated(manifests.bridges(home)))
    assert _roles(made).keys() == {f"moorage-bridge-{name}-home" for name in ("mirror", "heartbeats")}


def test_a_bridge_to_the_hub_that_moorage_runs_on_has_the_roles_of_other_hubs() -> None:
    hub = {"name": "hub", "kind": "ocm", "acts": ["placements", "taints", "labels"]}
    made = manifests.objects(manifests.templated(manifests.bridges(hub)))
    theirs = [_roles(manifests.objects(manifests.kustomized(folder))) for folder in manifests.REMOTE["ocm"]]
    assert _roles(made) == {f"{name}-hub": rules for roles in theirs for name, rules in roles.items()}
    account = manifests.pod(made["Deployment/moorage-bridge-hub"])["serviceAccountName"]
    for one in made.values():
        if one["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            assert one["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "moorage"}]
    home = {"name": "home", "kind": "kubernetes"}
    assert len(_roles(manifests.objects(manifests.templated(manifests.bridges(hub, home))))) == len(_roles(made)) + 2


def test_a_bridge_is_what_its_values_say() -> None:
    east = {
        **manifests.BRIDGES[1],
        "tokenSecret": "token-of-east",
        "leaseNamespace": "kube-system",
        "eviction": "api",
        "schedulerName": "default-scheduler",
        "qps": 50,
        "burst": 70,
        "replicas": 0,
        "resources": {"requests": {"cpu": "2"}},
        "extraArgs": ["--node-monitor-grace-period=60"],
    }
    servers = '--set-json=networkPolicy.apiServers=[{"ipBlock":{"cidr":"192.0.2.0/24"}}]'
    made = manifests.objects(
        manifests.templated(manifests.bridges(east), "--set=networkPolicy.apiServerPorts={8443}", servers)
    )
    one = made["Deployment/moorage-bridge-east"]
    assert manifests.container(one)["args"] == [
        "bridge",
        "kubernetes",
        "--cluster=east",
        "--act=taints,evictions,placement,conditions",
        "--lease-namespace=kube-system",
        "--eviction=api",
        "--scheduler-name=default-scheduler",
        "--kube-api-qps=50",
        "--kube-api-burst=70",
        "--node-monitor-grace-period=60",
        "--http-port=8081",
    ]
    assert one["spec"]["replicas"] == 0
    assert manifests.container(one)["resources"] == {"requests": {"cpu": "2"}}
    secrets = {each["name"]: each["secret"]["secretName"] for each in manifests.pod(one)["volumes"] if "secret" in each}
    assert (secrets["bridge-token"], secrets["kubeconfig"]) == ("token-of-east", "moorage-bridge-east-kubeconfig")
    assert made["NetworkPolicy/moorage-bridge"]["spec"]["egress"][1] == {
        "to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        "ports": [{"protocol": "TCP", "port": 8443}],
    }
    assert _roles(made) == {}, "its roles are in its own cluster"


def test_services_of_a_chain_can_be_run_apart() -> None:
    """They differ from any other worker in names, commands, and in what they may see."""
    apart = "--set=chained=false"
    made = manifests.objects(manifests.templated(*manifests.WHOLE, apart, "--set=services.timer.replicas=5"))
    chained = manifests.objects(manifests.templated(*manifests.WHOLE))
    members = {name for services in CHAINS.values() for name in services}
    processes = {manifests.component(one): one for one in manifests.workloads(made)}
    words = {name: manifests.container(one)["args"] for name, one in processes.items()}
    assert {name: words[name] for name in COMMANDS_APART} == COMMANDS_APART
    assert members < COMMANDS_APART.keys()
    own = {"Deployment", "PodDisruptionBudget", "ServiceAccount", "ScaledObject"}
    assert made.keys() - chained.keys() == {f"{kind}/moorage-{name}" for kind in own for name in members}
    assert chained.keys() - made.keys() == {f"{kind}/moorage-{name}" for kind in own for name in CHAINS}
    like = str(chained["Deployment/moorage-placement"])
    for name in members:
        one = made[f"Deployment/moorage-{name}"]
        volumes = {each["name"]: each.get("secret", {}).get("secretName") for each in manifests.pod(one)["volumes"]}
        assert volumes["kafka-user"] == f"moorage-{name}"
        assert ("signing-key" in volumes) == (name == READS_SEALS)
        if name != READS_SEALS:
            mine = str(one).replace(str(manifests.container(one)["resources"]), "…").replace(name, "placement")
            resources = str(manifests.container(chained["Deployment/moorage-placement"])["resources"])
            assert mine == like.replace(resources, "…")
        triggers = made[f"ScaledObject/moorage-{name}"]["spec"]["triggers"]
        assert [one["metadata"]["consumerGroup"] for one in triggers] == [f"moorage.{name}"]
    plain = manifests.objects(manifests.templated(apart, "--set=services.timer.replicas=5,services.targets.replicas=7"))
    replicas = {name: plain[f"Deployment/moorage-{name}"]["spec"]["replicas"] for name in members}
    assert replicas == {name: 5 if name == "timer" else 2 for name in members}


def test_the_chart_is_sound() -> None:
    assert "0 chart(s) failed" in manifests.linted()
    assert "0 chart(s) failed" in manifests.linted(*manifests.WHOLE)
    assert "0 chart(s) failed" in manifests.linted(*manifests.WHOLE, "--set=chained=false")


def test_every_value_has_its_effect() -> None:
    made = manifests.objects(
        manifests.templated(
            "--set=image.repository=registry.example.com/moorage,image.tag=1.2.3",
            "--set=services.placement.replicas=5,workers.replicas=3,gateway.replicas=4",
            "--set=gateway.service.type=LoadBalancer,gateway.service.port=6443",
            "--set=networkPolicy.enabled=false,topics.enabled=false",
            "--set=settings.MOORAGE_TOPIC_PREFIX=east,priorityClassName=high",
            '--set-json=tolerations=[{"key":"a","operator":"Exists"}]',
            '--set-json=imagePullSecrets=[{"name":"pull"}]',
        )
    )
    pods = list(manifests.workloads(made))
    assert {manifests.container(one)["image"] for one in pods} == {"registry.example.com/moorage:1.2.3"}
    replicas = {manifests.component(one): one["spec"]["replicas"] for one in pods}
    assert (replicas.pop("placement"), replicas.pop("gateway")) == (5, 4)
    assert set(replicas.values()) == {3}
    assert "topics" not in replicas
    service = made["Service/moorage-gateway"]["spec"]
    assert (service["type"], service["ports"][0]["port"]) == ("LoadBalancer", 6443)
    assert not any(key.startswith("NetworkPolicy/") for key in made)
    assert made["ConfigMap/moorage-settings"]["data"]["MOORAGE_TOPIC_PREFIX"] == "east"
    for one in pods:
        spec = manifests.pod(one)
        assert spec["priorityClassName"] == "high"
        assert spec["tolerations"] == [{"key": "a", "operator": "Exists"}]
        assert spec["imagePullSecrets"] == [{"name": "pull"}]


def test_a_change_of_the_settings_replaces_the_pods() -> None:
    def annotations(*options: str) -> set[str]:
        made = manifests.workloads(manifests.objects(manifests.templated(*options)))
        return {str(one["spec"]["template"]["metadata"].get("annotations")) for one in made if one["kind"] != "Job"}

    before, after = annotations(), annotations("--set=settings.MOORAGE_LOG_LEVEL=debug")
    assert len(before) == len(after) == 1
    assert before != after


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("gateway.replicas=-1", "gateway/replicas"),
        ("services.timers.replicas=1", "timers"),
        ("chained=both", "chained"),
        ("settings.moorage_log_level=info", "moorage_log_level"),
        ("settings.MOORAGE_BOOTSTRAP_SERVERS=", "MOORAGE_BOOTSTRAP_SERVERS"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("networkPolicy.enabeld=true", "enabeld"),
        ("gateway.service.port=70000", "gateway/service/port"),
    ],
)
def test_a_wrong_value_is_refused_by_name(value: str, rule: str) -> None:
    said = manifests.refused("--set", value)
    assert rule in said.replace(".", "/") or rule in said


_HERE = {"name": "home", "kind": "kubernetes"}
_EAST = {"name": "east", "kind": "kubernetes", "cluster": "east", "kubeconfigSecret": "east"}
_HUB = {"name": "hub", "kind": "ocm"}


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        ([{**_HERE, "acts": ["taint"]}], "'/bridges/0/acts/0': value must be one of 'taints', 'evictions'"),
        (
            [{**_HUB, "acts": ["evictions"]}],
            "'/bridges/0/acts/0': value must be one of 'placements', 'taints', 'labels'",
        ),
        ([{**_HERE, "kind": "hub"}], "'/bridges/0/kind': value must be one of 'kubernetes', 'ocm', 'karmada'"),
        ([{**_HERE, "name": "Home"}], "'/bridges/0/name': 'Home' does not match"),
        ([{"kind": "ocm"}], "'/bridges/0': missing property 'name'"),
        ([{**_HERE, "kubeconfig": "x"}], "'/bridges/0': additional properties 'kubeconfig' not allowed"),
        ([{**_HERE, "extraArgs": ["-v"]}], "'/bridges/0/extraArgs/0': '-v' does not match"),
        ([{**_HERE, "eviction": "drain"}], "'/bridges/0/eviction': value must be one of 'delete', 'api'"),
        ([_HERE, {**_EAST, "name": "home"}], 'bridges[1] (home): name: invalid value "home": bridges[0] has it, too'),
        ([{**_HUB, "cluster": "x"}], "bridges[0] (hub): cluster: must not be set: a bridge of kind ocm does not have"),
        ([{**_HUB, "schedulerName": "x"}], "bridges[0] (hub): schedulerName: must not be set"),
        ([{"name": "k", "kind": "karmada"}], "bridges[0] (k): kubeconfigSecret: must be set: Karmada's API server"),
        ([{**_HERE, "cluster": "home"}], 'bridges[0] (home): cluster: invalid value "home": the home fleet is called'),
        (
            [_EAST, {**_EAST, "name": "west"}],
            'bridges[1] (west): cluster: invalid value "east": bridges[0] has it, too',
        ),
        (
            [_HERE, {**_HERE, "name": "own", "cluster": "own"}],
            "bridges[1] (own): kubeconfigSecret: must be set: bridges[0]",
        ),
        (
            [_HUB, {**_HUB, "name": "b", "kubeconfigSecret": "b"}],
            'bridges[1] (b): kind: invalid value "ocm": bridges[0]',
        ),
        ([{**_HERE, "extraArgs": ["--act=all"]}], 'extraArgs: invalid value "--act=all": the chart sets --act'),
    ],
    ids=lambda value: value.split(": ")[-1] if isinstance(value, str) else "",
)
def test_a_wrong_bridge_is_refused_by_field_and_rule(wanted: list[dict[str, object]], rule: str) -> None:
    assert rule in manifests.refused(manifests.bridges(*wanted))
