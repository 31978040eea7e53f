"""Servers that kubectl speaks to: where they are, and as whom."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml


@dataclass(frozen=True)
class Server:
    """A server, as a kubeconfig describes it."""

    kubeconfig: Path

    def client(self) -> httpx.AsyncClient:
        """A client of the server, which is used without kubectl for what a case is given."""
        config: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        headers = {"authorization": f"Bearer {user['token']}"} if "token" in user else {}
        verify: ssl.SSLContext | bool = True
        if authority := cluster.get("certificate-authority-data"):
            verify = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        return httpx.AsyncClient(base_url=cluster["server"], headers=headers, verify=verify, timeout=120)


def kubeconfig(address: str, path: Path) -> Server:
    """Write the kubeconfig of a gateway, and return the server."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "moorage", "cluster": {"server": address}}],
        "users": [{"name": "moorage", "user": {}}],
        "contexts": [{"name": "moorage", "context": {"cluster": "moorage", "user": "moorage"}}],
        "current-context": "moorage",
    }
    path.write_text(yaml.safe_dump(config))
    return Server(path)
