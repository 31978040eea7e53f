"""Service accounts with a role, and their tokens."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def token_of_new_account(server: str, state: Path, name: str, role: str) -> str:
    """Make a service account that a cluster role is bound to, and return a token of it.

    Args:
        server: the address of a gateway with identities of its own.
        state: the folder of its state, which has the administrator's token.
        name: the name of the account, and of the binding.
        role: the cluster role.
    """
    trusted = ssl.create_default_context(cafile=str(state / "gateway-identities" / "ca.crt"))
    administrator = (state / "gateway-identities" / "admin.token").read_text().strip()
    headers = {"authorization": f"Bearer {administrator}"}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
    }
    async with httpx.AsyncClient(base_url=server, verify=trusted, trust_env=False, headers=headers) as http:
        (await http.post(accounts, json={"metadata": {"name": name}})).raise_for_status()
        (await http.post(f"{_RBAC}/clusterrolebindings", json=binding)).raise_for_status()
        made = (await http.post(f"{accounts}/{name}/token", json={})).raise_for_status()
    token: str = made.json()["status"]["token"]
    return token
