"""Measures how long CLI commands take, from the start of the process to its end.

A gateway in this process answers on loopback. The commands run in turn, so that other load on the machine affects all
of them equally. For each command the output states the shortest time, which is the most useful one on a busy machine,
the median, and the CPU time. The last line is JSON. Run: `python bench/cli.py [ROUNDS]`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import history

COMMANDS: Final = {
    "python": [],
    "version": ["version"],
    "help": ["--help"],
    "get_help": ["get", "--help"],
    "get": ["get", "nodes"],
    "get_json": ["get", "nodes", "-o", "json"],
    "describe": ["describe", "zone", "eu.eu-a"],
    "taint": ["taint", "node", "n1", "key:NoSchedule"],
    "cordon": ["cordon", "n1"],
    "explain": ["explain", "deployment", "web"],
}
"""The commands that are run. The empty one is an interpreter that does nothing."""

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


def once(arguments: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """The wall time and the CPU time of one run, in seconds."""
    program = ["-m", "moorage.cli", *arguments] if arguments else ["-c", "pass"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"moorage {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run every command in several rounds. The last line of the output is JSON."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as state:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
        address = f"http://127.0.0.1:{server.server_address[1]}"
        environment = {**kept, "MOORAGE_SERVER": address, "MOORAGE_STATE_DIR": state}
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, arguments in COMMANDS.items():
                took[name].append(once(arguments, environment))
    server.shutdown()
    result: dict[str, float] = {}
    for name, arguments in COMMANDS.items():
        words = f"moorage {' '.join(arguments)}" if arguments else "(python alone)"
        wall, processor = zip(*took[name], strict=True)
        print(
            f"{words:<38} {min(wall):.3f} s shortest, {statistics.median(wall):.3f} s median, "
            f"{statistics.median(processor):.3f} s of CPU time"
        )
        result |= {f"{name}_min_s": round(min(wall), 3), f"{name}_median_s": round(statistics.median(wall), 3)}
        result[f"{name}_cpu_s"] = round(statistics.median(processor), 3)
    named = {"bench": "cli", "rounds": rounds, **result}
    history.record(named)
    print(json.dumps(named))


if __name__ == "__main__":
    main()
