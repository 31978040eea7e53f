"""Random CEL expressions, and for which clusters OCM's own environment takes them for true.

    python -m tests.conformance.expressions [--count 10000] [--seed TEXT] [--record] [--oracle PROGRAM]

Go builds the program `ops/upstream-cel`, unless another one is given. It reads requests, one a line. It answers with
the error of the compiler (`compile`), or with the clusters for which the expression is true (`yes`) and for which it
fails (`errs`). A program without scores needs `--without-scores`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.expression_requests import request

from moorage.conformance.deviations import Deviation
from moorage.conformance.operations import evaluate
from moorage.decide.kubernetes.cel import programs
from moorage.decide.kubernetes.cel.values import value_of

Request = dict[str, Any]
Answer = dict[str, Any]

RECORDED = Path(__file__).parent / "vectors" / "cel.jsonl.gz"
SOURCE = Path(__file__).parents[2] / "ops" / "upstream-cel"

_AGAIN = 200
"""How many orders of a map's keys are tried before a different answer counts."""

_SHOWN = 20
_CRASHES = ("hash of unhashable type", "internal error")
_LIMITS = ("is not supported", "a text has more", "a list has more", "units of work", "digits after", "is nested more")


def outcome(answer: Answer) -> Any:
    """The part of an answer that both programs must give: it does not compile, or which clusters are in it."""
    return "compile" if "compile" in answer else (sorted(answer["yes"]), sorted(answer["errs"]))


def excused(upstream: Answer, ours: Answer) -> str:
    """The named deviation to which a difference belongs. Empty if there is none."""
    errors = [*(upstream.get("errs") or {}).values(), *(ours.get("errs") or {}).values()]
    if any(crash in error for error in errors for crash in _CRASHES):
        return Deviation.EXPRESSION_NEVER_CRASHES.value
    if ours.get("asUpstream") is False or any(
        limit in error for error in (ours.get("errs") or {}).values() for limit in _LIMITS
    ):
        return Deviation.EXPRESSION_LIMITS.value
    return ""


def requests(seed: str, count: int) -> list[Request]:
    """Random requests for the operation `cel`."""
    rng = random.Random(seed)  # noqa: S311 - test data
    return [request(rng) for _ in range(count)]


def ask_upstream(program: str, given: Sequence[Request]) -> list[Answer]:
    """Send requests to the oracle."""
    lines = (json.dumps({"x": one["expression"], **_rest(one)}) for one in given)
    done = subprocess.run([program], input="\n".join(lines).encode() + b"\n", capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _rest(one: Request) -> Request:
    return {"clusters": one["clusters"], "scores": one["scores"]}


def differences(program: str, given: Sequence[Request]) -> Iterator[tuple[str, Request, Answer, Answer]]:
    """The requests with different answers: name of the deviation (empty for none), request, upstream's, ours."""
    for one, theirs in zip(given, ask_upstream(program, given), strict=True):
        ours = evaluate(one, as_upstream=True)
        if outcome(ours) == outcome(theirs):
            continue
        if _varies(one, theirs):
            yield Deviation.KEYS_IN_ORDER.value, one, theirs, ours
        else:
            yield excused(theirs, ours), one, theirs, ours


def _varies(one: Request, theirs: Answer) -> bool:
    """Whether upstream's answer about each cluster is ours with the keys of maps in another order.

    Upstream goes through maps in a random order, Moorage in that of their keys.
    """
    rng = random.Random(0)  # noqa: S311 - test data

    def shuffled(found: Mapping[Any, Any]) -> Iterator[Any]:
        keys = [*map(value_of, found)]
        return iter(rng.sample(keys, len(keys)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "keys_of", shuffled)
        seen = [_by_cluster(evaluate(one, as_upstream=True)) for _ in range(_AGAIN)]
    wanted = _by_cluster(theirs)
    return all(any(each.get(name) == wanted.get(name) for each in seen) for name in {*wanted, *seen[0]})


def _by_cluster(answer: Answer) -> dict[str, str]:
    if "compile" in answer:
        return {"": "compile"}
    return {**dict.fromkeys(answer["errs"], "error"), **dict.fromkeys(answer["yes"], "yes")}


def record(program: str, seed: str, count: int) -> None:
    """Write requests and upstream's answers into the recorded vectors."""
    given = requests(seed, count)
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as file:
        for one, answer in zip(given, ask_upstream(program, given), strict=True):
            vector = {**one, "outcome": outcome(answer)}
            file.write(json.dumps(vector, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def recorded() -> list[Request]:
    """The recorded vectors."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def built() -> str:
    """Build upstream's program. Returns its path, or nothing if Go is missing."""
    go = shutil.which("go")
    if go is None:
        return ""
    program = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage" / "upstream-cel"
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([go, "build", "-o", str(program), "."], cwd=SOURCE, check=True)
    return str(program)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print what differs. Returns 1 if a difference has no name."""
    parser = argparse.ArgumentParser(prog="expressions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--oracle", default="", help="the program")
    parser.add_argument("--without-scores", action="store_true", help="no cluster has scores")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", default="")
    parser.add_argument("--record", action="store_true", help="write the requests and answers into the vectors")
    options = parser.parse_args(arguments)
    program = options.oracle or built()
    if not program:
        print("expressions: Go is missing, and --oracle names no program")
        return 2
    seed = options.seed or secrets.token_hex(8)
    if options.record:
        record(program, seed, options.count)
        return 0
    given = requests(seed, options.count)
    if options.without_scores:
        given = [{**one, "scores": {}} for one in given]
    found = list(differences(program, given))
    unnamed = [one for one in found if not one[0]]
    for _, one, theirs, ours in unnamed[:_SHOWN]:
        print(f"{one['expression']}\n  upstream: {theirs}\n  ours:     {ours}")
    named = dict(Counter(name for name, *_ in found if name))
    print(json.dumps({"seed": seed, "count": options.count, "unnamed": len(unnamed), "named": named}))
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
