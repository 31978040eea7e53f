"""Random histories of a node and its pods, for the operation `node_pods`."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

Request = dict[str, Any]

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_PASSED = (1, 5, 5, 10, 20, 35, 39, 40, 41, 45, 60, 61, 100)
_OTHERS = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "KernelDeadlock")
_READY = ("True", "True", "True", "True", "False", "Unknown")


def history(rng: random.Random) -> Request:
    """A node whose agent writes its status, renews its lease, or falls silent, with pods that come and change."""
    created = _BEGIN - timedelta(seconds=rng.choice((0, 0, 30, 60, 500)))
    node = {"metadata": {"name": "n", "creationTimestamp": _text(created)}}
    if rng.random() < 0.1:
        node["metadata"]["deletionTimestamp"] = _text(created)
    others = [one for one in _OTHERS if rng.random() < 0.4]
    request: Request = {"op": "node_pods", "node": node}
    request["pods"] = [_pod(rng, number) for number in range(rng.choice((0, 1, 2, 4)))]
    silent = rng.random() < 0.15  # it never writes a status
    leases = rng.random() < 0.5
    now, beat, renewed = _BEGIN, _BEGIN, None
    steps = []
    for number in range(rng.choice((1, 2, 3, 5, 8))):
        step: Request = {"time": _text(now)}
        if not silent and rng.random() < (0.85 if not number else 0.4):
            beat = now if rng.random() < 0.85 else beat
            step["conditions"] = [
                {"type": "Ready", "status": rng.choice(_READY), "lastHeartbeatTime": _text(beat)},
                *(
                    {"type": one, "status": rng.choice(("True", "False")), "lastHeartbeatTime": _text(beat)}
                    for one in others
                ),
            ]
        if leases and rng.random() < 0.5:
            renewed = now if renewed is None or rng.random() < 0.85 else renewed
            step["renewTime"] = _text(renewed).replace("Z", ".000000Z")
        if rng.random() < 0.4:
            step["pods"] = [_pod(rng, rng.randint(0, 5)) for _ in range(rng.randint(1, 2))]
        steps.append(step)
        now += timedelta(seconds=rng.choice(_PASSED))
    return request | {"steps": steps}


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _pod(rng: random.Random, number: int) -> Request:
    spec = {"nodeName": rng.choice(("n", "n", "n", "n", "m"))} if rng.random() < 0.9 else {}
    conditions = [{"type": "PodScheduled", "status": "True"}]
    if rng.random() < 0.9:
        conditions.append({"type": "Ready", "status": rng.choice(("True", "True", "True", "False", "Unknown"))})
    metadata: Request = {"name": f"p{number}", "namespace": "red"}
    if rng.random() < 0.1:
        metadata["deletionTimestamp"] = _text(_BEGIN)
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
