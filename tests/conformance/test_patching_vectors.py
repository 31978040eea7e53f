"""Patches, applies and their owners compared with recorded answers of upstream's code and of a real kube-apiserver."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.conformance import patching, patching_vectors

VECTORS = Path(__file__).parent / "vectors"
COMMAND = Path(__file__).resolve().parents[2] / "ops" / "patching-conformance"
FILES = {"libraries": VECTORS / "patching.jsonl.gz", "kube-apiserver": VECTORS / "patching_server.jsonl.gz"}
RECORDED = {name: list(patching_vectors.read(path)) for name, path in FILES.items()}


@pytest.mark.parametrize("name", FILES)
def test_results_are_those_of_upstream(name: str) -> None:
    wrong = []
    for request, theirs in RECORDED[name]:
        before = copy.deepcopy(request)
        mine = patching.answered(request)
        assert request == before, "no argument is changed"
        if patching.differs(request, theirs, mine):
            wrong.append((request["op"], request["kind"], list(patching.places(theirs, mine))))
    assert wrong == []


def test_every_operation_and_kind_is_recorded_often() -> None:
    counts = Counter(request["op"] for request, _ in RECORDED["libraries"])
    assert counts.total() >= 2000
    assert counts.keys() == patching.OPERATIONS
    assert min(counts.values()) >= 30, counts
    kinds = Counter((request["group"], request["version"], request["kind"]) for request, _ in RECORDED["libraries"])
    assert kinds.keys() == {*patching.KINDS, *patching.CUSTOM_KINDS}
    refusals = [answer for _, answer in RECORDED["libraries"] if "error" in answer]
    assert sum(answer["code"] == 409 for answer in refusals) >= 30
    assert {request["op"] for request, _ in RECORDED["kube-apiserver"]} >= {"apply", "update", "strategic", "json"}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_result_is_seen(name: str) -> None:
    seen = Counter[str]()
    for request, theirs in RECORDED[name]:
        if "result" in theirs and theirs["result"] and not seen[request["op"]]:
            changed = copy.deepcopy(theirs)
            changed["result"]["metadata"] = {"name": "another"}
            seen[request["op"]] += patching.differs(request, changed, patching.answered(request))
    assert set(seen.values()) == {1}


def test_pairs_are_written_and_read_as_they_are(tmp_path: Path) -> None:
    request, answer = next(pair for pair in RECORDED["libraries"] if pair[0]["op"] == "strategic")
    patching_vectors.written([[(request, answer)]], tmp_path / "one.gz")
    assert list(patching_vectors.read(tmp_path / "one.gz")) == [(request, answer)]


def test_the_comparison_says_that_there_is_no_control_plane(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--plane", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"no control plane is compared with: {tmp_path / 'kubeconfig'} is missing" in done.stderr
