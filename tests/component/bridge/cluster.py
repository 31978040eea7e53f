"""Objects of a cluster, and clients of it."""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio.client import ApiClient, Configuration
from tests.support.kube_api import TOKEN, KubeApi

from moorage.bridges.kube.client import ClusterAccess, KubeClient

Json = dict[str, Any]


def client_of(api: KubeApi) -> KubeClient:
    """A client of a cluster."""
    configuration = Configuration(
        host=api.server, api_key={"BearerToken": TOKEN}, api_key_prefix={"BearerToken": "Bearer"}
    )
    configuration.connection_pool_maxsize = 0
    return KubeClient(ApiClient(configuration), ClusterAccess())


def node(name: str, *, ready: str = "True", taints: list[Json] | None = None, **more: Any) -> Json:
    """A node."""
    return {
        "metadata": {"name": name, **more},
        "spec": {"taints": taints} if taints else {},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}]},
    }


def pod(name: str, *, node: str = "", scheduler: str = "default-scheduler", **more: Any) -> Json:
    """A pod in the namespace default."""
    return {
        "metadata": {"name": name, "namespace": "default", **more},
        "spec": {
            **({"nodeName": node} if node else {}),
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "job:1"}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def lease(name: str, renewed: str) -> Json:
    """The Lease of a node."""
    return {
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed},
    }
