"""The programs of examples/ at a terminal: how they end, and the times that they report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.files import ROOT

# A shell that starts tests in its background makes them ignore SIGINT.
AT_A_TERMINAL = (
    "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def test_ctrl_c_ends_the_deployer_without_a_traceback(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    words = [sys.executable, "-c", AT_A_TERMINAL, str(ROOT / "examples" / "deployer.py"), "--folder", str(tmp_path)]
    process = subprocess.Popen(
        words, env={**environment, "MOORAGE_SERVER": "http://127.0.0.1:9"}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "does not answer" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate()
    assert process.returncode == 0
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.123Z"), ("2026-01-01T00:00:00.3NZ", "whole")],
)
def test_the_probe_in_shell_reports_milliseconds_where_date_has_them(
    answer: str, expected: str, tmp_path: Path
) -> None:
    body = tmp_path / "body"
    date = f'#!/bin/sh\ncase "$*" in *N*) echo {answer} ;; *) echo whole ;; esac\n'
    for name, text in (("date", date), ("curl", f"#!/bin/sh\ncat > {body}\n")):
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
    words = ["sh", str(ROOT / "examples" / "probe.sh"), "Node/n1", "Ready=True"]
    subprocess.run(words, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    document = json.loads(body.read_text())
    assert (document["time"], document["data"]["observedTime"]) == (expected, expected)
