"""`moorage eval`: the rules of the core as an offline program that reads and writes JSON lines."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer

from moorage.conformance.operations import evaluate as answer_request


class Reading(StrEnum):
    """The rules that apply where Moorage departs from upstream."""

    DOCUMENTED = "documented"
    UPSTREAM = "upstream"


def evaluate(
    reading: Annotated[
        Reading, typer.Option("--as", help="Apply Moorage's rules, or those of upstream's own code.")
    ] = Reading.DOCUMENTED,
) -> None:
    """Apply the rules of the core to requests in JSON lines.

    A request is an object with `op` and the fields of that operation. It is read from standard input, and the answer
    is written to standard output. Operations for Kubernetes: tolerates, filter, normalize, evict, validate,
    parse_taints, set_taints, pod_qos, pod_requests, pod_tolerations, pod_schedule, disruption_budget,
    daemonset_status, node_pods, device_tolerates, device_cel, device_allocate, device_evict. For Karmada: ctp,
    karmada_evict, karmada_filter, karmada_schedule. For Open Cluster Management: ocm_schedule, ocm_rollout,
    ocm_taint_controller, ocm_taint_webhook, addon_labels, cel.
    """
    out = sys.stdout.buffer
    upstream = reading is Reading.UPSTREAM
    while line := sys.stdin.buffer.readline():
        if line.strip():
            out.write(_dump(_answer(line, upstream=upstream)) + b"\n")
            # A program at the other end of two pipes waits for this answer before its next request.
            out.flush()


def _answer(line: bytes, *, upstream: bool) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return {"error": f"not JSON: {error}"}
    try:
        return answer_request(request, as_upstream=upstream)
    except Exception as error:  # noqa: BLE001 - each line must get an answer
        answer: dict[str, Any] = {"error": f"internal error: {type(error).__name__}: {error}"}
        if isinstance(request, dict) and request.get("id") is not None:
            answer["id"] = request["id"]
        return answer


def _dump(answer: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:  # an integer beyond 64 bits
        return orjson.dumps({"error": f"internal error: {error}"})
