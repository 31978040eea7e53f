from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import fresh
from tests.support.tables import table

from moorage.conformance import operations
from moorage.conformance.operations import evaluate

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "ops" / "conformance"

# Replaces the oracle: answers like the core, except for planted differences.
ORACLE = """#!{python}
import json, sys
sys.path[:0] = {path!r}
from moorage.conformance.operations import evaluate
if sys.argv[1:2] == ["gen-vectors"]:
    raise SystemExit
for line in sys.stdin:
    request = json.loads(line)
    answer = evaluate(request, as_upstream=True)
    if {planted!r} and request["op"] == "tolerates":
        answer["tolerates"] = not answer.get("tolerates")
    print(json.dumps(answer))
"""

OPERATIONS = set(operations.OPERATIONS) - fresh.ELSEWHERE


def honest(requests: Sequence[fresh.Request]) -> list[fresh.Answer]:
    return [evaluate(request, as_upstream=True) for request in requests]


def with_planted(place: int) -> fresh.Ask:
    def ask(requests: Sequence[fresh.Request]) -> list[fresh.Answer]:
        answers = honest(requests)
        if place < len(answers):
            answers[place] = {**answers[place], "planted": True}
        return answers

    return ask


def test_every_operation_is_asked_and_the_seed_decides() -> None:
    cases = fresh.made("one", 800, OPERATIONS)
    counts = Counter(case.request["op"] for case in cases)
    assert set(counts) == set(OPERATIONS)
    assert min(counts.values()) >= 10
    assert cases == fresh.made("one", 800, OPERATIONS)
    assert cases != fresh.made("two", 600, OPERATIONS)


def test_operations_that_are_not_answered_are_not_asked() -> None:
    cases = fresh.made("one", 50, {"validate"})
    assert {case.request["op"] for case in cases} == {"validate"}
    assert len(cases) == 50
    assert fresh.made("one", 50, {"no_such_operation"}) == []


def test_equal_programs_agree() -> None:
    assert fresh.compare(fresh.made("one", 300, OPERATIONS), honest, honest) == []


@pytest.mark.parametrize("place", [0, 17, 195])
def test_one_planted_difference_is_found(place: int) -> None:
    cases = fresh.made("one", 200, OPERATIONS)
    found = fresh.compare(cases, honest, with_planted(place))
    assert [difference.request for difference in found] == [cases[place].request]
    assert '"planted": true' in str(found[0])
    assert json.dumps(cases[place].request, ensure_ascii=False) in str(found[0])


def test_a_difference_from_a_vector_that_came_with_its_answer_is_found() -> None:
    request = {"op": "normalize", "scores": [1, 2]}
    right = evaluate(request, as_upstream=True)
    assert fresh.compare([fresh.Case(request, right)], honest, honest) == []
    # Upstream gets the request again and gives our answer. So the vector is one of several possible answers.
    assert fresh.compare([fresh.Case(request, {"scores": []})], honest, honest) == []
    assert len(fresh.compare([fresh.Case(request, {"scores": []})], lambda r: [{"scores": []}] * len(r), honest)) == 1


def test_a_missing_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="upstream: 9 answers to 10 requests"):
        fresh.compare(fresh.made("one", 10, OPERATIONS), lambda r: honest(r)[1:], honest)


def test_each_request_goes_to_the_program_that_knows_its_operation() -> None:
    def program(name: str, *known: str) -> fresh.Ask:
        def answer(request: fresh.Request) -> fresh.Answer:
            op = request["op"]
            return {"by": name, "op": op} if op in known else {"error": f"unknown op {op}"}

        return lambda requests: [answer(request) for request in requests]

    oracle, pods = program("oracle", "a", "b"), program("pods", "c")
    assert fresh.unknown(oracle, {"a", "c"}) == {"c"}
    found = fresh.routed(oracle, [({"c"}, pods)])([{"op": op} for op in "acba"])
    assert [one["by"] for one in found] == ["oracle", "pods", "oracle", "oracle"]
    assert fresh.routed(None, [({"c"}, pods)])([{"op": "c"}]) == [{"by": "pods", "op": "c"}]


def test_any_of_upstreams_own_answers_will_do() -> None:
    request = {"op": "x"}
    variants = iter([{"order": 1}, *({"order": n % 3} for n in range(fresh.AGAIN))])

    def unsteady(requests: Sequence[fresh.Request]) -> list[fresh.Answer]:
        return [next(variants) for _ in requests]

    assert fresh.compare([fresh.Case(request)], unsteady, lambda _: [{"order": 2}]) == []


@table(
    ("request_", "upstream", "ours", "same"),
    [
        ({}, {"fits": True, "id": 1}, {"fits": True, "id": 2}, True),
        ({}, {"fits": True}, {"fits": False}, False),
        ({}, {"fits": True}, {"fits": True, "more": 1}, False),
        ({}, {"error": "panic: runtime error", "panic": True}, {"error": "scores: must not be empty"}, True),
        ({}, {"error": "panic: runtime error", "panic": True}, {"fits": True}, False),
        ({"unstable": True}, {"decisions": ["a"], "warnings": 1}, {"decisions": ["a"], "warnings": 2}, True),
        ({"unstable": True}, {"decisions": ["a"]}, {"decisions": ["b"]}, False),
        ({"unstable": True}, {"scores": {"a": 1}, "decisions": ["a"]}, {"decisions": ["a"]}, False),
    ],
)
def test_what_agrees(request_: dict[str, Any], upstream: fresh.Answer, ours: fresh.Answer, *, same: bool) -> None:
    assert fresh.agree(request_, upstream, ours) is same


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "MOORAGE_ORACLE"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=inherited | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("planted", [False, True])
def test_the_script_compares_both_programs(tmp_path: Path, *, planted: bool) -> None:
    oracle = tmp_path / "oracle"
    path = [str(ROOT / "services"), str(ROOT / "schemas")]
    oracle.write_text(ORACLE.format(python=sys.executable, path=path, planted=planted), "utf-8")
    oracle.chmod(0o755)
    done = run("--oracle", str(tmp_path), "--count", "240", "--seed", "one")
    result = json.loads(done.stdout.splitlines()[-1])
    assert "seed: one" in done.stderr
    assert sum(result["operations"].values()) == result["requests"] == 240
    if planted:
        assert (done.returncode, result["conformance"]) == (1, "differs")
        assert result["differences"] == result["operations"]["tolerates"]
        assert done.stdout.count("  upstream: ") == min(20, result["differences"])
    else:
        assert (done.returncode, result["conformance"], result["differences"]) == (0, "agrees", 0)


def test_the_script_says_what_is_missing(tmp_path: Path) -> None:
    done = run("--source", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert f"the oracle is missing: no go.mod in {tmp_path / 'nowhere'}" in done.stderr
    done = run("--oracle", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path / 'oracle'} is not a file" in done.stderr


def test_make_offers_it() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\nconformance: $(READY)" in makefile
    assert "ops/conformance" in makefile
