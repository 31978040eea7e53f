"""The result of a simulation as tables. The numbers are those of the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from moorage.cli.render import output
from moorage.cli.render.durations import to_the_second
from moorage.decide.kubernetes.durations import human
from moorage_schemas.times import parse_time

Document = Mapping[str, Any]

_ROWS = 20
"""Rows of a table unless every one is wanted."""

_MESSAGE = 100
"""Characters of a message in a table."""


def text(found: Document, *, every: bool) -> str:
    """Return the whole answer. With `every`, tables have every row and message in full."""
    taken = _time(found["taken"])
    span = human((_time(found["until"]) - taken).total_seconds())
    parts = [f"Simulated {span} from {to_the_second(found['taken'])} on a copy; nothing was changed.\n"]
    parts.append("Change:\n" + "".join(f"  {line}\n" for line in found["changes"]))
    if found["settings"]:
        said = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in found["settings"].items())
        parts.append(f"Settings: {said}\n")
    if found["unreadable"]:
        parts.append(f"Left out: {found['unreadable']} records that cannot be read.\n")

    def after(when: str | None) -> str:
        return "-" if when is None else human((_time(when) - taken).total_seconds())

    sections: Sequence[tuple[str, Sequence[str], Callable[[], list[list[str]]]]] = (
        ("Taints", ("TARGET", "TAINT", "AFTER"), lambda: _taints(found, after)),
        ("Zones", ("ZONE", "STATE", "AFTER", "RATE"), lambda: _zones(found, after)),
        (
            "Leaving",
            ("WORKLOAD", "FROM", "STATE", "DUE", "LEAVES", "HELD BY", "WITHOUT THE CHANGE"),
            lambda: _leaving(found, after),
        ),
        ("Spared", ("WORKLOAD", "ON", "WITHOUT THE CHANGE"), lambda: _spared(found, after)),
        ("Decisions", ("WORKLOAD", "FROM", "TO", "AFTER", "REASON"), lambda: _decisions(found, after)),
        ("Nowhere to go", ("WORKLOAD", "FROM", "AFTER", "WHY"), lambda: _nowhere(found, after, every=every)),
        (
            "Placements",
            ("PLACEMENT", "SELECTS", "ADDED", "REMOVED", "AFTER", "REASON"),
            lambda: _placements(found, after, every=every),
        ),
    )
    for title, head, rows in sections:
        if made := rows():
            parts.append(_section(title, head, made, every=every))
    parts.append(_summary(found))
    return "\n".join(parts)


def _section(title: str, head: Sequence[str], rows: list[list[str]], *, every: bool) -> str:
    shown = rows if every else rows[:_ROWS]
    table = "".join(f"  {line}\n" for line in output.table(head, shown).splitlines())
    more = f"  … and {len(rows) - len(shown)} more (-o wide shows every row)\n" if len(shown) < len(rows) else ""
    return f"{title}:\n{table}{more}"


def _taints(found: Document, after: Callable[[str | None], str]) -> list[list[str]]:
    rows = []
    for one in found["targets"]:
        target = _called(one["target"])
        rows += [[target, f"+ {taint['taint']}", after(taint["at"])] for taint in one["added"]]
        rows += [[target, f"- {taint['taint']}", ""] for taint in one["removed"]]
        # A wait that has ended is shown as an added taint.
        rows += [
            [target, f"… {wait['taint']}: {wait['reason']}", "waits"] for wait in one["waited"] if not wait["until"]
        ]
    return rows


def _zones(found: Document, after: Callable[[str | None], str]) -> list[list[str]]:
    return [
        [
            one["zone"],
            state["state"] + (" (stopped)" if state["stopped"] else ""),
            after(state["at"]),
            f"{state['rate']}/s",
        ]
        for one in found["zones"]
        for state in one["states"]
    ]


def _leaving(found: Document, after: Callable[[str | None], str]) -> list[list[str]]:
    rows = []
    for one in found["leaving"]:
        holds = []
        for hold in one["holds"]:
            until = f" until {after(hold['until'])}" if hold["until"] else ""
            holds.append(f"{', '.join(hold['by'])}{until}")
        other = one["without"]
        state = "Gone" if one["state"] == "Completed" else one["state"]
        leaves = after(one["at"]) if one["at"] else "not in this time"
        rows.append(
            [
                _called(one["workload"]),
                _called(one["target"]),
                state,
                after(one["deadline"] or one["at"]),
                leaves,
                "; ".join(holds) or "-",
                "stays" if other is None else f"{other['state']} {after(other['at'] or other['deadline'])}",
            ]
        )
    return rows


def _spared(found: Document, after: Callable[[str | None], str]) -> list[list[str]]:
    return [
        [
            _called(one["workload"]),
            _called(one["target"]),
            f"leaves after {after(one['without']['at'] or one['without']['deadline'])}",
        ]
        for one in found["spared"]
    ]


def _decisions(found: Document, after: Callable[[str | None], str]) -> list[list[str]]:
    rows = []
    for one in found["decisions"]:
        if one["to"] is not None and one["to"]["state"] == "Pending":
            continue  # shown in a section of its own, with the reason
        name = _called(one["workload"])
        if one.get("replaces"):
            name = f"{_called(one['replaces'])} → {name.rpartition('/')[2]}"
        rows.append([name, _where(one["from"]), _where(one["to"]), after(one["at"]), one["reason"]])
    return rows


def _nowhere(found: Document, after: Callable[[str | None], str], *, every: bool) -> list[list[str]]:
    return [
        [_called(one["workload"]), _where(one["from"]), after(one["since"]), _short(one["message"], every=every)]
        for one in found["nowhere"]
    ]


def _placements(found: Document, after: Callable[[str | None], str], *, every: bool) -> list[list[str]]:
    return [
        [
            _called(one["placement"]),
            f"{one['without']} → {one['selected']}",
            _short(", ".join(one["added"]) or "-", every=every),
            _short(", ".join(one["removed"]) or "-", every=every),
            after(one["at"]),
            one["reason"],
        ]
        for one in found["placements"]
    ]


def _summary(found: Document) -> str:
    counts = found["summary"]
    words = [
        (counts["targets"], "target changes its taints", "targets change their taints"),
        (counts["waiting"], "still waits for one", "still wait for one"),
    ]
    workloads = [
        (counts["leaving"], "leaves", "leave"),
        (counts["scheduled"], "leaves later", "leave later"),
        (counts["held"], "is still held", "are still held"),
        (counts["spared"], "is spared", "are spared"),
        (counts["moved"], "goes elsewhere", "go elsewhere"),
        (counts["placed"], "is placed that was not", "are placed that were not"),
        (counts["nowhere"], "has nowhere to go", "have nowhere to go"),
        (counts["deleted"], "is deleted", "are deleted"),
    ]
    first = next((i for i, (count, _, _) in enumerate(workloads) if count), None)
    if first is not None:
        count, one, many = workloads[first]
        workloads[first] = (count, f"workload {one}", f"workloads {many}")
    placements = (counts["placements"], "placement selects otherwise", "placements select otherwise")
    words += [*workloads, placements]
    said = [f"{count} {one if count == 1 else many}" for count, one, many in words if count]
    calm = "" if found["quiet"] else " After this time something is still on its way."
    if not said and not counts["decisions"]:
        return f"The change makes no difference in this time.{calm}\n"
    return f"{', '.join(said) or 'Decisions differ'}.{calm}\n"


def _where(one: Document | None) -> str:
    if one is None:
        return "-"
    return ", ".join(_called(target) for target in one["targets"]) or str(one["state"])


def _called(key: str) -> str:
    """Return `pod/shop/web-0` for `Pod/shop/web-0`, and `node/n1` for `Node/n1`."""
    kind, slash, rest = key.partition("/")
    return f"{kind.lower()}{slash}{rest}"


def _short(words: str, *, every: bool) -> str:
    return words if every or len(words) <= _MESSAGE else words[: _MESSAGE - 1] + "…"


def _time(value: str) -> datetime:
    found = parse_time(value)
    if not isinstance(found, datetime):
        raise TypeError(value)
    return found
