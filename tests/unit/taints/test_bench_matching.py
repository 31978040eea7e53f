from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "bench" / "matching.py"


def test_the_benchmark_runs_alone_and_says_when_there_is_no_peer(tmp_path: Path) -> None:
    sizes = ["--pods", "40", "--nodes", "200", "--rounds", "1", "--sample", "1000"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *sizes],
        env=os.environ | {"MOORAGE_ORACLE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["bench"] == "matching"
    assert result["verdicts_equal"] is True
    assert result["verdicts_compared_with_scalar"] >= 1000
    assert result["ours_evals_per_s"] > 0
    assert (result["peer_evals_per_s"], result["ratio"]) == (None, None)
    assert "MOORAGE_ORACLE: Invalid value" in done.stderr
