"""The benchmark that compares with OCM's scheduler also runs without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[4] / "bench" / "ocm.py"


def test_the_benchmark_runs_alone_and_says_when_there_is_no_peer(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--placements", "5,20", "--clusters", "30"],
        env=os.environ | {"MOORAGE_ORACLE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["bench"], result["clusters"], result["decisions_equal"]) == ("ocm", 30, None)
    assert [(one["placements"], one["ratio"], one["states_compared"]) for one in result["sizes"]] == [
        (5, None, 0),
        (20, None, 0),
    ]
    assert all(one["ours_us_per_placement"] > 0 for one in result["sizes"])
    assert "MOORAGE_ORACLE: Invalid value" in done.stderr
