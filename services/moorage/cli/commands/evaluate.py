"""`moorage eval`: the pure core as a JSON-lines program, offline."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer

from moorage.conformance.operations import evaluate as answer_request


class Reading(StrEnum):
    """Whose rules count where Moorage departs from upstream."""

    DOCUMENTED = "documented"
    UPSTREAM = "upstream"


def evaluate(
    reading: Annotated[
        Reading, typer.Option("--as", help="Answer as Moorage does, or as the upstream systems' own code does.")
    ] = Reading.DOCUMENTED,
) -> None:
    """Answer questions to the core: JSON lines in and out.

    A question is an object with op and the operation's fields. Operations: tolerates, filter, normalize, evict,
    validate, parse_taints, set_taints; of Karmada ctp, karmada_evict, karmada_filter; of Open Cluster Management
    ocm_schedule, ocm_taint_controller, ocm_taint_webhook.
    """
    # A function of a CEL expression that fails is part of the answer.
    logging.getLogger("cel").setLevel(logging.ERROR)
    out = sys.stdout.buffer
    upstream = reading is Reading.UPSTREAM
    while line := sys.stdin.buffer.readline():
        if line.strip():
            out.write(_dump(_answer(line, upstream=upstream)) + b"\n")
            # A program on the other side of two pipes waits for this answer before it asks again.
            out.flush()


def _answer(line: bytes, *, upstream: bool) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return {"error": f"not JSON: {error}"}
    try:
        return answer_request(request, as_upstream=upstream)
    except Exception as error:  # noqa: BLE001 - a program on the other side must get an answer for each line
        answer: dict[str, Any] = {"error": f"internal error: {type(error).__name__}: {error}"}
        if isinstance(request, dict) and request.get("id") is not None:
            answer["id"] = request["id"]
        return answer


def _dump(answer: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:  # an integer beyond 64 bits
        return orjson.dumps({"error": f"internal error: {error}"})
