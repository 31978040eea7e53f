"""The tables of the API: Kubernetes' own columns for its kinds, those of their definitions for others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, deployment, node, pod
from tests.support.tables import table

from moorage.apiserver.http.messages import tables
from moorage.apiserver.machinery.served_kinds import served

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPS = "/apis/apps/v1"
OCM = "/apis/cluster.open-cluster-management.io"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

# Name, type and priority, as a kube-apiserver of 1.37 has them; `*` stands before columns of wide tables.
COLUMNS = {
    "/api/v1/pods": "Name Ready Status Restarts Age *IP *Node *Nominated_Node *Readiness_Gates",
    "/api/v1/nodes": (
        "Name Status Roles Age Version *Internal-IP *External-IP *OS-Image *Kernel-Version *Container-Runtime"
    ),
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/configmaps": "Name Data Age",
    "/api/v1/replicationcontrollers": "Name Desired Current Ready Age *Containers *Images *Selector",
    "/api/v1/services": "Name Type Cluster-IP External-IP Port(s) Age *Selector",
    f"{APPS}/deployments": "Name Ready Up-to-date Available Age *Containers *Images *Selector",
    f"{APPS}/replicasets": "Name Desired Current Ready Age *Containers *Images *Selector",
    f"{APPS}/statefulsets": "Name Ready Age *Containers *Images",
    f"{APPS}/daemonsets": (
        "Name Desired Current Ready Up-to-date Available Node_Selector Age *Containers *Images *Selector"
    ),
    "/apis/batch/v1/jobs": "Name Status Completions Duration Age *Containers *Images *Selector",
    "/apis/policy/v1/poddisruptionbudgets": "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
    f"{RBAC}/roles": "Name Created_At",
    f"{RBAC}/clusterroles": "Name Created_At",
    f"{RBAC}/rolebindings": "Name Role Age *Users *Groups *ServiceAccounts",
    f"{RBAC}/clusterrolebindings": "Name Role Age *Users *Groups *ServiceAccounts",
    "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    "/apis/cluster.open-cluster-management.io/v1/managedclusters": (
        "Name Hub_Accepted Managed_Cluster_URLs Joined Available Age"
    ),
    "/apis/cluster.open-cluster-management.io/v1beta1/placements": "Name Succeeded Reason SelectedClusters",
    "/apis/cluster.karmada.io/v1alpha1/clusters": (
        "Name Version Mode Ready Age *Zones *Region *Provider *API-Endpoint *Proxy-URL"
    ),
    f"{OCM}/v1beta2/managedclustersets": "Name Empty Age",
    f"{OCM}/v1beta2/managedclustersetbindings": "Name Age",
    f"{OCM}/v1beta1/placementdecisions": "Name Age",
    f"{OCM}/v1alpha1/addonplacementscores": "Name Age",
    "/apis/addon.open-cluster-management.io/v1alpha1/managedclusteraddons": "Name Available Degraded Progressing",
    "/apis/policy.karmada.io/v1alpha1/propagationpolicies": "Name CONFLICT-RESOLUTION PRIORITY AGE",
    "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies": "Name CONFLICT-RESOLUTION PRIORITY AGE",
    "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies": "Name Age",
    "/apis/work.karmada.io/v1alpha2/resourcebindings": "Name SCHEDULED FULLYAPPLIED AGE",
    "/apis/work.karmada.io/v1alpha2/clusterresourcebindings": "Name SCHEDULED FULLYAPPLIED AGE",
    "/apis/machine.openshift.io/v1beta1/machinesets": "Name Desired Current Ready Available Age",
}

# The types of columns that are not texts.
TYPES = {
    f"{OCM}/v1/managedclusters": {"Hub Accepted": "boolean", "Age": "date"},
    f"{OCM}/v1beta1/placements": {"SelectedClusters": "integer"},
    "/apis/policy.karmada.io/v1alpha1/propagationpolicies": {"AGE": "date"},
    "/apis/machine.openshift.io/v1beta1/machinesets": {
        **dict.fromkeys(("Desired", "Current", "Ready"), "integer"),
        "Age": "date",
    },
    "/api/v1/configmaps": {},
    "/apis/cluster.karmada.io/v1alpha1/clusters": {},
}


async def shown_table(gateway: Fixture, path: str) -> Any:
    answer = await gateway.http.get(path, headers={"accept": TABLE})
    assert answer.status_code == 200, answer.text
    return answer.json()


@table(("path", "columns"), COLUMNS.items())
async def test_the_columns_are_those_that_users_of_kubectl_expect(path: str, columns: str) -> None:
    found = (await shown_table(Fixture(), path))["columnDefinitions"]
    shown = " ".join("*" * column["priority"] + column["name"].replace(" ", "_") for column in found)
    assert shown == columns
    assert (found[0]["name"], found[0]["format"]) == ("Name", "name")


async def test_every_kind_has_a_name_and_something_more_in_each_row() -> None:
    for kind in served():
        columns = tables.definitions(kind.definition)
        assert len(columns) > 1, kind
        empty = {"metadata": {"name": "a"}}
        row = tables.row(kind.definition, empty, "Metadata", "v1", Fixture().clock.now())
        assert len(row["cells"]) == len(columns), kind
        assert row["cells"][-1 if kind.definition.name_comes_last else 0] == "a"


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({"node-role.kubernetes.io/worker": ""}, "worker"),
        ({"kubernetes.io/role": "gpu"}, "gpu"),
        ({"kubernetes.io/role": "gpu", "node-role.kubernetes.io/edge": "x"}, "edge,gpu"),
        ({"kubernetes.io/role": ""}, "<none>"),
    ],
)
async def test_both_labels_of_a_role_count(labels: dict[str, str], roles: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "labels": labels}})
    (row,) = (await shown_table(gateway, "/api/v1/nodes"))["rows"]
    assert row["cells"][2] == roles


async def test_a_scale_has_columns_of_its_own() -> None:
    gateway = Fixture()
    await gateway.ok("POST", f"{APPS}/namespaces/default/deployments", deployment())
    found = await shown_table(gateway, f"{APPS}/namespaces/default/deployments/web/scale")
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    (row,) = found["rows"]
    assert row["cells"] == ["web", 2, 0, "0s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_rows_show_the_objects() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node(unschedulable=True))
    await gateway.ok("POST", "/api/v1/namespaces/default/pods", pod())
    await gateway.ok("POST", f"{APPS}/namespaces/default/deployments", deployment())
    config = {"metadata": {"name": "c"}, "data": {"a": "b", "c": "d"}}
    await gateway.ok("POST", "/api/v1/namespaces/default/configmaps", config)
    ports = [{"name": "web", "port": 80, "nodePort": 30080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    spec = {"type": "NodePort", "ports": ports, "selector": {"app": "web"}, "clusterIP": "10.0.0.1"}
    service = {"metadata": {"name": "s"}, "spec": spec}
    await gateway.ok("POST", "/api/v1/namespaces/default/services", service)
    rows = {}
    for path in ("/api/v1/nodes", "/api/v1/pods", f"{APPS}/deployments", "/api/v1/configmaps", "/api/v1/services"):
        (row,) = (await shown_table(gateway, path))["rows"]
        rows[path.rpartition("/")[2]] = row["cells"]
    assert rows["nodes"][:5] == ["n1", "Unknown,SchedulingDisabled", "<none>", "0s", ""]
    assert rows["pods"][:5] == ["p1", "0/1", "Pending", "0", "0s"]
    assert rows["deployments"] == ["web", "0/2", "0", "0", "0s", "main", "app:1", "app=web"]
    assert rows["configmaps"] == ["c", 2, "0s"]
    assert rows["services"] == ["s", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "0s", "app=web"]


@pytest.mark.parametrize(("path", "types"), TYPES.items())
async def test_columns_have_the_types_of_their_definitions(path: str, types: dict[str, str]) -> None:
    found = (await shown_table(Fixture(), path))["columnDefinitions"]
    assert {one["name"]: one["type"] for one in found if one["type"] != "string"} == types


async def test_cells_of_custom_resources_have_the_types_of_their_columns() -> None:
    gateway = Fixture()
    urls = [{"url": "https://one.example"}, {"url": "https://two.example"}]
    spec = {"hubAcceptsClient": True, "managedClusterClientConfigs": urls}
    await gateway.ok("POST", f"{OCM}/v1/managedclusters", {"metadata": {"name": "c"}, "spec": spec})
    (row,) = (await shown_table(gateway, f"{OCM}/v1/managedclusters"))["rows"]
    assert row["cells"][:5] == ["c", True, "https://one.example", None, None]


async def test_the_cells_of_a_count_are_numbers() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "m"}, "data": {"a": "b"}})
    (row,) = (await shown_table(gateway, "/api/v1/configmaps"))["rows"]
    assert row["cells"][:2] == ["m", 1]


async def test_a_scale_has_a_table_of_its_own() -> None:
    gateway = Fixture()
    await gateway.ok("POST", f"{APPS}/namespaces/shop/deployments", deployment())
    path = f"{APPS}/namespaces/shop/deployments/web/scale"
    found = await shown_table(gateway, path)
    assert [one["name"] for one in found["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    (row,) = found["rows"]
    assert row["cells"][:3] == ["web", deployment()["spec"]["replicas"], 0]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    answer = await gateway.http.get(path, headers={"accept": TABLE.replace("Table", "PartialObjectMetadataList")})
    assert answer.status_code == 406
