"""Random rollouts over the decision groups of a placement, for the operation `ocm_rollout`."""

from __future__ import annotations

import random
from typing import Any

Request = dict[str, Any]

OPERATIONS = ("ocm_rollout",)
NOW = "2026-01-01T00:05:00Z"
_SINCE = (
    "2026-01-01T00:05:00Z",
    "2026-01-01T00:04:59.999999Z",
    "2026-01-01T00:04:00Z",
    "2026-01-01T00:03:30Z",
    "2026-01-01T00:03:29.5Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:06:00Z",
    None,
)
_TYPES = (*["All"] * 2, *["Progressive"] * 5, *["ProgressivePerGroup"] * 5)
_STATES = ("ToApply", "Progressing", "Progressing", *["Succeeded"] * 6, "Failed", "TimeOut", "Skip")
_DEADLINES = (
    "",
    "None",
    "90s",
    "90s",
    "90s",
    "1m30s",
    "5m",
    "1h",
    "0s",
    "100ms",
    "90",
    "1.5m",
    "-90s",
    "9x",
    "NotNone",
)
_SOAKS = ("0s", "0s", "0s", "60s", "1m30s", "2m", "1h0m0.5s", "-1m")
_AMOUNTS = (0, 0, 0, 1, 1, 2, 3, 100, -1, "0%", "1%", "30%", "33.4%", "50%", "100%", "200%", "1e1%", "-5%")
_WRONG = ("3", "x%", "%", " 5%", "1_0%")


def rollout(rng: random.Random) -> Request:
    """A strategy, decision groups, and what is known of their clusters."""
    names = [f"c{number}" for number in range(rng.choice((0, 1, 2, 4, 6, 9)))]
    groups = _groups(rng, names)
    strategy: Request = {"type": kind} if (kind := rng.choice(_TYPES)) and rng.random() < 0.98 else {"type": "Bogus"}
    if rng.random() < 0.95:
        strategy[kind[0].lower() + kind[1:]] = _config(rng, kind, groups)
    group_of = {name: one for one in groups for name in one["clusters"]}
    known = [name for name in (*names, "gone", "away") if rng.random() < 0.6]
    rng.shuffle(known)
    clusters = [_cluster(rng, name, group_of.get(name, {})) for name in known]
    return {"op": "ocm_rollout", "now": NOW, "strategy": strategy, "groups": groups, "clusters": clusters}


def _groups(rng: random.Random, names: list[str]) -> list[Request]:
    count = rng.choice((0, 1, 1, 2, 3, 4))
    titles = [rng.choice(("canary", "canary", "eu", "")) for _ in range(count)]
    found: list[Request] = [{"name": title, "index": index, "clusters": []} for index, title in enumerate(titles)]
    for name in names:
        if found:
            rng.choice(found)["clusters"].append(name)
    if len(found) > 2 and rng.random() < 0.1:  # a gap in the indexes
        found[-1]["index"] += 1
    return found


def _config(rng: random.Random, kind: str, groups: list[Request]) -> Request:
    config: Request = {"progressDeadline": rng.choice(_DEADLINES[:10] if rng.random() < 0.9 else _DEADLINES)}
    if rng.random() < 0.7:
        config["minSuccessTime"] = rng.choice(_SOAKS)
    if rng.random() < 0.7:
        config["maxFailures"] = rng.choice(_AMOUNTS if rng.random() < 0.97 or kind == "All" else _WRONG)
    if kind == "All":
        return config
    # The limit is parsed only when the mandatory groups are complete, so an invalid one comes without them.
    is_wrong = rng.random() < 0.05
    if kind == "Progressive":
        config["maxConcurrency"] = rng.choice(_WRONG if is_wrong else _AMOUNTS)
    if not is_wrong and rng.random() < 0.5:
        named = [{"groupName": rng.choice(("canary", "eu", "none"))} for _ in range(rng.randint(0, 1))]
        config["mandatoryDecisionGroups"] = named + [
            {"groupIndex": rng.randint(0, len(groups))} for _ in range(rng.randint(0, 1))
        ]
    return config


def _cluster(rng: random.Random, name: str, group: Request) -> Request:
    made: Request = {"name": name, "state": rng.choice(_STATES), "since": rng.choice(_SINCE)}
    if group:
        made |= {"groupName": group["name"], "groupIndex": group["index"]}
    return made
