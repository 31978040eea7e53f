"""The supervisor of `moorage up` lives as long as the services, and loads none of them."""

from __future__ import annotations

import subprocess
import sys

LEFT_OUT = ("numpy", "moorage.workers.placement", "moorage.apiserver.server", "moorage.insight.replay")


def test_the_supervisor_loads_no_service() -> None:
    code = "import sys, moorage.cli.commands.up; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = found.stdout.split()
    assert [name for name in LEFT_OUT if name in loaded] == []
