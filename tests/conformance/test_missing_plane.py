"""What is compared with a control plane says that there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("compared", ["validating", "conversations", "permissions"])
def test_the_comparison_says_that_there_is_no_control_plane(compared: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.conformance.{compared}", "--plane", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert done.returncode == 2
    assert f"no control plane is compared with: {tmp_path / 'kubeconfig'} is missing" in done.stderr
