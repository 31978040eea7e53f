"""The packages of extras are needed by the commands that name the extra, and by no others."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

from tests.architecture.files import ROOT

from moorage.cli import app

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

_IMPORT_ALL = """
import importlib, json, pkgutil, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from moorage.cli import app
for name in app.COMMANDS:
    app.load(name)
from moorage.cli.local import services
from moorage.runtime.settings.process_settings import Settings
for name in services.names():
    services.make(name, Settings())
import moorage.apiserver.server, moorage.insight.query.worker, moorage.workers.webhooks.worker
"""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_every_extra_is_named_where_its_packages_are_missing() -> None:
    """Commands fail without the packages of an extra, or go on without traces."""
    assert {*app._EXTRAS.values(), "otel"} == set(EXTRAS)


def test_commands_and_services_load_without_the_packages_of_extras() -> None:
    done = _run("-c", _IMPORT_ALL, json.dumps([*app._EXTRAS, "opentelemetry.sdk", "opentelemetry.exporter"]))
    assert done.returncode == 0, done.stderr


def test_a_command_without_its_extra_names_it() -> None:
    program = "import sys; sys.modules['aiohttp'] = None; from moorage.cli import main; main()"
    done = _run("-c", program, "bridge", "kubernetes", "--kubeconfig", "none")
    assert done.returncode == 1
    assert done.stderr == "error: this needs the extra 'bridge': pip install 'moorage[bridge]'\n"
