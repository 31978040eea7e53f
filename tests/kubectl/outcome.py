"""Holds what a server answered to what a real kube-apiserver answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from tests.kubectl.cases import ROOM, Case
from tests.kubectl.driver import Answer, Driver, Run

ANSWERS = ROOM / "answers"


@dataclass(frozen=True)
class Difference:
    """What differs in one step of a case."""

    step: int
    """From 1."""

    command: str
    part: str
    """`code`, `out` or `err`."""

    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"step {self.step}: {self.command}\n  {self.part}: - {self.expected!r}\n  {self.part}: + {self.found!r}"


def recorded(version: str) -> dict[str, list[Answer]]:
    """The answers of a real kube-apiserver to this version of kubectl, by case."""
    found: dict[str, list[Answer]] = json.loads((ANSWERS / f"{version}.json").read_text("utf-8"))
    return found


def record(version: str, runs: Mapping[str, Run]) -> None:
    """Write the answers of a real kube-apiserver."""
    found = {name: list(run.answers) for name, run in sorted(runs.items())}
    (ANSWERS / f"{version}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


def reasons(name: str) -> dict[str, str]:
    """The cases of a list such as `not_yet`, with the reason of each."""
    found: dict[str, str] = yaml.safe_load((ROOM / f"{name}.yaml").read_text("utf-8")) or {}
    return found


def differences(case: Case, expected: Sequence[Answer], run: Run) -> list[Difference]:
    """What a run of a case shows otherwise than a real kube-apiserver."""
    found = []
    for number, (step, wanted) in enumerate(zip(case.steps, expected, strict=True), 1):
        command = step.http or " ".join(step.words)
        if number > len(run.answers):
            found.append(Difference(number, command, "run", "an answer", run.failure))
            break
        answer = run.answers[number - 1]
        found += [
            Difference(number, command, part, wanted[part], answer.get(part))
            for part in wanted
            if wanted[part] != answer.get(part)
        ]
    return found


_MORE_RUNS = 4
"""How often a case that shows something else than it should is run again."""


async def again(driver: Driver, cases: Sequence[Case], runs: Mapping[str, Run]) -> dict[str, Run]:
    """The runs, with further ones of each case that differs and is on no list, or is on one and does not differ.

    On a machine that is busy with other tests a deadline of a case may pass, something may come after the command that
    would have shown it, and kubectl goes through its maps in any order. What is so each time is so.
    """
    expected = recorded(driver.kubectl.version)
    listed = {**reasons("not_yet"), **reasons("differs")}
    found = dict(runs)
    for case in cases:
        if case.name not in expected:
            continue
        known = case.name in listed
        for _ in range(_MORE_RUNS):
            if bool(differences(case, expected[case.name], found[case.name])) == known:
                break
            found[case.name] = await driver.run(case)
    return found
