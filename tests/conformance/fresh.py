"""New random requests, and the comparison of two programs' answers to them. `ops/conformance` runs it.

The requests are those of the oracle's own generator, which already brings the answers, and of the project's
generator, which is wilder (`generate_vectors.py`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import (
    generate_addons,
    generate_daemons,
    generate_devices,
    generate_disruptions,
    generate_karmada,
    generate_nodes,
    generate_ocm,
    generate_pod_fleets,
    generate_pods,
    generate_rollouts,
    generate_vectors,
)

Request = dict[str, Any]
Answer = dict[str, Any]
Ask = Callable[[Sequence[Request]], list[Answer]]
"""Sends requests to a program. Returns one answer for each request, in order."""

MAKERS: tuple[Callable[[random.Random], Request], ...] = (
    generate_vectors.normalize,
    generate_vectors.set_taints,
    generate_vectors.edges,
    generate_vectors.edges,  # five operations share it
    generate_vectors.ctp_edges,
    generate_vectors.karmada_edges,
    generate_ocm.schedule,
    generate_ocm.schedule,  # the largest of all operations
    generate_ocm.taint_controller,
    generate_ocm.taint_webhook,
    generate_pods.pod,
    generate_pods.pod,  # three operations share it
    generate_karmada.schedule,
    generate_pod_fleets.schedule,
    generate_disruptions.budget,
    generate_daemons.status,
    generate_nodes.history,
    generate_addons.labels,
    generate_devices.device,
    generate_devices.device,  # four operations share it
    generate_rollouts.rollout,
)
PROGRAMS: Mapping[str, frozenset[str]] = {
    "upstream-pods": frozenset(generate_pods.OPERATIONS),
    "upstream-karmada": frozenset(generate_karmada.OPERATIONS),
    "upstream-scheduler": frozenset(generate_pod_fleets.OPERATIONS),
    "upstream-controllers": frozenset({"disruption_budget", "daemonset_status", "node_pods"}),
    "upstream-addons": frozenset(generate_addons.OPERATIONS),
    "upstream-devices": frozenset(generate_devices.OPERATIONS),
}
"""The programs in `ops` around upstream's code, with the operations that they answer."""

ELSEWHERE = frozenset({"cel"})
"""Operations that another program of the oracle answers (`expressions`)."""

AGAIN = 20
"""How often upstream gets a request again before a different answer counts. It iterates over maps in random order."""

_COMPARED_WHEN_UNSTABLE = ("scores", "decisions")


@dataclass(frozen=True)
class Case:
    """A request, and upstream's answer if it is known already."""

    request: Request
    expected: Answer | None = None


@dataclass(frozen=True)
class Difference:
    """A request with different answers."""

    request: Request
    upstream: Answer
    ours: Answer

    def __str__(self) -> str:
        lines = [json.dumps(part, sort_keys=True, ensure_ascii=False) for part in (self.upstream, self.ours)]
        return f"{json.dumps(self.request, ensure_ascii=False)}\n  upstream: {lines[0]}\n  ours:     {lines[1]}"


def made(seed: str, count: int, operations: Collection[str]) -> list[Case]:
    """Random requests for these operations from the project's own generator."""
    found: list[Case] = []
    makers = [(make, random.Random(f"{seed}-{number}")) for number, make in enumerate(MAKERS)]  # noqa: S311 - test data
    idle = 0
    while len(found) < count and idle < 1000:
        make, rng = makers[(len(found) + idle) % len(makers)]
        request = make(rng)
        if request["op"] in operations:
            found.append(Case(request))
            idle = 0
        else:
            idle += 1
    return found


def read(folder: Path, operations: Collection[str]) -> list[Case]:
    """The oracle's vectors for these operations, from a folder that its generator wrote."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            vector = json.loads(line)
            if vector["request"].get("op") in operations:
                found.append(Case(vector["request"], vector["expect"]))
    return found


def agree(request: Request, upstream: Answer, ours: Answer) -> bool:
    """Whether two answers to a request are equal, apart from `id`.

    Any error matches a panic of upstream's. For an unstable request, only the parts that do not vary are compared.
    """
    left, right = ({name: value for name, value in answer.items() if name != "id"} for answer in (upstream, ours))
    if left.get("panic"):
        return bool(right.get("error"))
    if request.get("unstable"):
        return all(left.get(name) == right.get(name) for name in _COMPARED_WHEN_UNSTABLE)
    if request.get("op") == "pod_tolerations" and "tolerations" in left and "tolerations" in right:
        # Upstream drops what another toleration covers, at some steps of admission but not at others.
        left, right = ({"tolerations": generate_pods.needed(one["tolerations"])} for one in (left, right))
    if request.get("op") == "karmada_schedule" and "why" in left and "why" in right:
        # Upstream keeps the first objection to a cluster, and the order of its filters varies.
        return bool(left["why"].keys() == right["why"].keys())
    return left == right


def compare(cases: Sequence[Case], ask_upstream: Ask, ask_us: Ask) -> list[Difference]:
    """Send the requests to both programs, and return the differences.

    If the answers differ, upstream gets the request again. If its own answer varies, any of its answers is accepted.

    Raises:
        ValueError: the number of a program's answers differs from the number of requests.
    """
    unknown = [case.request for case in cases if case.expected is None]
    fresh = iter(_all_answers("upstream", ask_upstream, unknown))
    expected = [case.expected if case.expected is not None else next(fresh) for case in cases]
    ours = _all_answers("moorage eval", ask_us, [case.request for case in cases])
    found = [
        Difference(case.request, theirs, mine)
        for case, theirs, mine in zip(cases, expected, ours, strict=True)
        if not agree(case.request, theirs, mine)
    ]
    again = _all_answers("upstream", ask_upstream, [d.request for d in found for _ in range(AGAIN)]) if found else []
    return [
        difference
        for number, difference in enumerate(found)
        if not any(
            agree(difference.request, other, difference.ours) for other in again[number * AGAIN : (number + 1) * AGAIN]
        )
    ]


def unknown(ask: Ask, operations: Collection[str]) -> frozenset[str]:
    """The operations that a program does not know."""
    names = sorted(operations)
    answers = ask([{"op": name} for name in names])
    return frozenset(
        name
        for name, answer in zip(names, answers, strict=True)
        if str(answer.get("error", "")).startswith("unknown op")
    )


def routed(ask: Ask | None, others: Sequence[tuple[Collection[str], Ask]]) -> Ask:
    """A function that sends each request to the program of its operation, and all others to `ask`, if there is one."""

    def ask_each(requests: Sequence[Request]) -> list[Answer]:
        found: dict[int, Answer] = {}
        for operations, send in others:
            mine = [number for number, request in enumerate(requests) if request["op"] in operations]
            found |= zip(mine, _all_answers("upstream", send, [requests[number] for number in mine]), strict=True)
        rest = [number for number in range(len(requests)) if number not in found]
        if rest and ask is not None:
            found |= zip(rest, _all_answers("upstream", ask, [requests[number] for number in rest]), strict=True)
        return [found[number] for number in range(len(requests))]

    return ask_each


def _all_answers(name: str, ask: Ask, requests: Sequence[Request]) -> list[Answer]:
    answers = ask(requests)
    if len(answers) != len(requests):
        raise ValueError(f"{name}: {len(answers)} answers to {len(requests)} requests")
    return answers
