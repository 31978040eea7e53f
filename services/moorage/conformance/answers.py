"""The format of taints and tolerations in the answers of `moorage eval`."""

from __future__ import annotations

from typing import Any

from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.times import format_time

Answer = dict[str, Any]


def taint_json(taint: Taint, *, fresh: bool = False) -> Answer:
    """A taint in upstream's format. The operation added a `fresh` taint, at a time that only the caller knows."""
    answer: Answer = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        answer["value"] = taint.value
    if fresh:
        # There is no clock here. NOW stands for the time at which the answer is applied.
        answer["timeAdded"] = "NOW"
    elif taint.time_added is not None:
        answer["timeAdded"] = format_time(taint.time_added)
    return answer


def toleration_json(toleration: Toleration) -> Answer:
    """A toleration in upstream's format. Empty fields are left out, but a tolerationSeconds of 0 is not."""
    wire: Answer = toleration.model_dump(mode="json", by_alias=True)
    return {name: value for name, value in wire.items() if value not in ("", None)}
