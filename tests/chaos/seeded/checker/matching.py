"""docs/domain.md, "Matching" and "Deadlines", implemented independently: tolerations that match, and when work goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tests.chaos.seeded.checker.parsed_history import Json, instant

AT_ONCE = float("-inf")

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def matches(toleration: Json, taint: Json) -> bool:
    """Whether a toleration matches a taint."""
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    return (
        effect in {"", taint["effect"]}
        and key in {"", taint["key"]}
        and _compares(
            toleration.get("operator") or "Equal", key, toleration.get("value") or "", taint.get("value") or ""
        )
    )


def _compares(operator: str, key: str, value: str, has: str) -> bool:
    if operator == "Exists":
        return not value  # it takes none
    if not key:
        return False  # any key needs Exists
    if operator == "Equal":
        return value == has
    if not _is_integer(value) or not _is_integer(has):
        return False
    return (operator == "Gt" and int(has) > int(value)) or (operator == "Lt" and int(has) < int(value))


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def untolerated(taints: Iterable[Json], tolerations: Sequence[Json], effects: Iterable[str]) -> list[Json]:
    """The taints with one of these effects that no toleration matches."""
    wanted = set(effects)
    return [
        taint for taint in taints if taint["effect"] in wanted and not any(matches(one, taint) for one in tolerations)
    ]


def leaves_at(taint: Json, tolerations: Sequence[Json]) -> float | None:
    """When one NoExecute taint makes work leave: `AT_ONCE`, at a time, or (None) never.

    The first toleration that matches counts.
    """
    first = next((one for one in tolerations if matches(one, taint)), None)
    if first is None:
        return AT_ONCE
    seconds = first.get("tolerationSeconds")
    if seconds is None:
        return None
    return AT_ONCE if seconds <= 0 else instant(taint["timeAdded"]) + seconds


def must_leave(taints: Iterable[Json], tolerations: Sequence[Json]) -> float | None:
    """When work must leave: the earliest of what its NoExecute taints say; None when it may stay."""
    times = [leaves_at(taint, tolerations) for taint in taints if taint["effect"] == "NoExecute"]
    return min((time for time in times if time is not None), default=None)


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; an absent one selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for one in selector.get("matchExpressions") or ():
        has, values = labels.get(one["key"]), one.get("values") or ()
        holds = {
            "In": has is not None and has in values,
            "NotIn": has not in values,
            "Exists": has is not None,
            "DoesNotExist": has is None,
        }
        if not holds[one["operator"]]:
            return False
    return True
