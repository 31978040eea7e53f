"""What `make setup` runs: a slow step is never silent, and its exit code is kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.architecture.files import ROOT


def test_a_slow_command_is_reported_and_its_exit_code_kept(tmp_path: Path) -> None:
    """The second sleep of the ticker ends the command, so the line of the first one was printed before."""
    gate, slept = tmp_path / "gate", tmp_path / "slept"
    os.mkfifo(gate)
    sleep = tmp_path / "sleep"
    sleep.write_text(f"#!/bin/sh\n[ -e {slept} ] && {{ echo > {gate}; exit 1; }}\n: > {slept}\n")
    sleep.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [str(ROOT / "ops" / "patiently"), "setup: installing", "sh", "-c", f"read _ < {gate}; echo done; exit 7"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "setup: installing: 5 s so far\ndone\n")


def test_a_quick_command_is_run_as_it_is() -> None:
    words = [str(ROOT / "ops" / "patiently"), "text", "sh", "-c", "echo out; echo err >&2"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
