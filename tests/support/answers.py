"""A gateway over HTTP that answers commands of the command line from a few nodes and a zone."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

_NODES = 20


def node(name: str) -> dict[str, Any]:
    """A node as the gateway shows it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"taints": []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


class Answers(BaseHTTPRequestHandler):
    """A gateway with nodes and one zone."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """One object, or the list of a kind."""
        plural, _, name = self.path.partition("?")[0].rpartition("/")
        if "/nodes" in plural:
            self._send(node(name))
        elif plural.endswith("/zones"):
            zone = {"metadata": {"name": name}, "status": {"zone": "eu/eu-a", "state": "Normal", "rate": 0.1}}
            self._send(zone)
        elif name == "explain":
            self._send({"explanation": {"owner": "Deployment/default/web", "at": "2026-01-01T00:00:00Z", "pods": []}})
        else:
            items = [node(f"n{i}") for i in range(_NODES)] if name == "nodes" else []
            self._send({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

    def do_PATCH(self) -> None:
        """Accept a patch without storing it."""
        self.rfile.read(int(self.headers["content-length"]))
        self._send(node(self.path.rpartition("/")[2]))

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _send(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
