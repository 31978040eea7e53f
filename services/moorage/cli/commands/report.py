"""`moorage report`: report conditions by hand, as a probe or a deployer does.

The default source is the user (`cli/<user>`). Such sources have no heartbeats, so their reports stay until the next
ones (`moorage.decide.conditions.heartbeats`).

Not each accepted report counts: one that is older than the known state is ignored. So the command waits for the
outcome of its reports, and fails if one does not count.
"""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from moorage.cli import completion
from moorage.cli.api import kinds, targets
from moorage.cli.api.client import Client, refused
from moorage.cli.api.endpoints import connect
from moorage.cli.errors import FAILED, CliError, UsageError, warn
from moorage.cli.render import output
from moorage.cli.render.durations import parse_instant, parse_wait
from moorage.decide.conditions.heartbeats import BY_HAND
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.report_rules import check_workload

_AT_ONCE: Final = 1000
"""The largest number of reports that the gateway accepts in one request."""


AboutArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND/NAME | KIND/NAMESPACE/NAME | KIND",
        help="A target; or with --on a workload; or with --all a kind of targets.",
        show_default=False,
        autocompletion=completion.target,
    ),
]
StatusesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TYPE=STATUS…",
        help="Conditions, such as Ready=False. STATUS is True, False or Unknown.",
        show_default=False,
        autocompletion=completion.conditions,
    ),
]
OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="KIND/NAME",
        help="The target on which the workload runs.",
        autocompletion=completion.target,
    ),
]
NamespaceOption = Annotated[
    str,
    typer.Option(
        "-n", "--namespace", help="Namespace of a workload that names none.", autocompletion=completion.namespaces
    ),
]
SourceOption = Annotated[
    str,
    typer.Option(
        help="The source. The default is you, and your reports stay. A probe's become Unknown when its heartbeats end."
    ),
]
AtOption = Annotated[
    str, typer.Option(help="When it was observed: an RFC 3339 time, or a duration ago such as 5m. The default is now.")
]
WaitOption = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait",
        help="Wait until it is known whether the reports count. A report that does not is an error. It is also one "
        "without waiting, if it is known at once.",
    ),
]
TimeoutOption = Annotated[
    str, typer.Option(help="How long to wait for that, at most 30s. After it, the reports may still count.")
]


def report(
    ctx: typer.Context,
    about: AboutArgument,
    statuses: StatusesArgument,
    *,
    on: OnOption = "",
    namespace: NamespaceOption = "default",
    reason: Annotated[str, typer.Option(help="The reason, in one word.")] = "",
    message: Annotated[str, typer.Option(help="The reason, in a sentence.")] = "",
    source: SourceOption = "",
    every: Annotated[bool, typer.Option("--all", help="Report it for all targets of the kind.")] = False,
    at: AtOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "10s",
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Report conditions of a target, as a probe does, or of a workload on one, as a deployer does.

    For example: `moorage report node/n1 Ready=False`, `moorage report nodes --all Ready=True`,
    `moorage report managedcluster/c1 ManagedClusterConditionAvailable=True`, or
    `moorage report pod/shop/web-0 --on node/n1 Healthy=True`.
    """
    if every:
        subjects = _every(ctx, about, on)
    else:
        subjects = [_Subject(_target(on), _workload(about, namespace)) if on else _Subject(_target(about))]
    conditions = [_condition(text) for text in statuses]
    seconds = parse_wait(timeout, "more than 0 and ") if wait else 0.0
    now = datetime.now(UTC)
    seen = parse_instant(at, now) if at else now
    said = {
        "reason": reason,
        "message": message,
        "observed_time": seen,
        "source": source or f"{BY_HAND}{_user()}",
    }
    reports = [
        (subject, _event({**said, "type": condition, "status": status}, subject))
        for subject in subjects
        for condition, status in conditions
    ]
    with connect(ctx) as client:
        # One request after the other, each with as many reports as the gateway accepts.
        outcomes = [
            _hand_in(client, reports[first : first + _AT_ONCE], form, seconds)
            for first in range(0, len(reports), _AT_ONCE)
        ]
    if not all(outcomes):
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The subject of a report: a target, or a workload on it."""

    target: TargetRef
    workload: WorkloadRef | None = None

    def __str__(self) -> str:
        where = f"{self.target.kind.value.lower()}/{self.target.name}"
        if self.workload is None:
            return where
        names = "/".join(filter(None, (self.workload.kind.lower(), self.workload.namespace, self.workload.name)))
        return f"{names} on {where}"


def _hand_in(
    client: Client, reports: Sequence[tuple[_Subject, ConditionReported]], form: output.Format, wait: float
) -> bool:
    """Send reports, print the outcome of each, and return whether all count, or may still do."""
    events = []
    for subject, event in reports:
        meta = Meta(
            id=str(uuid.uuid4()),
            source=event.source,
            type=event.event_type,
            time=event.observed_time,
            subject=subject.target.key,
        )
        events.append(to_structured(meta, event))
    answer = client.report(events, wait=wait)
    problems = refused(answer)
    for refusal in problems:
        warn(str(refusal))
    # A single report has no list around its outcome.
    items: list[Mapping[str, Any]] = answer.get("items") or [{**answer, "index": 0}]
    outcomes = {item["index"]: item for item in items}
    ignored, unknown = 0, 0
    for index, (subject, _) in enumerate(reports):
        wire, item = events[index], outcomes.get(index, {})
        said = f"{wire['data']['type']}={wire['data']['status']}"
        if item.get("status"):
            continue
        if item.get("outcome") == "Ignored":
            ignored += 1
            warn(f"error: {subject} {said} ignored: {item.get('message', 'it does not count')}")
            continue
        unknown += item.get("outcome") == "Accepted"
        if form in {output.Format.JSON, output.Format.YAML}:
            output.write(output.document(wire, form))
        elif form is output.Format.NAME:
            output.line(str(subject))
        else:
            output.line(f"{subject} reported {said}")
    if wait and unknown:
        warn(
            f"warning: after {wait:g} s it is not known whether {unknown} of {len(reports)} reports count; is "
            "condition-ingest running? `moorage deadletters list` shows what is refused"
        )
    return not problems and not ignored


def _every(ctx: typer.Context, word: str, on: str) -> list[_Subject]:
    """Return all targets of a kind."""
    if "/" in word or on:
        raise UsageError("name cannot be provided when --all is specified")
    kind = targets.target_kind(word)
    with connect(ctx) as client:
        names = targets.select(client, kind, (), "", every=True)
    return [_Subject(TargetRef(kind=TargetKind(kind.kind), name=name)) for name in names]


def _condition(text: str) -> tuple[str, str]:
    condition, equals, status = text.partition("=")
    if not equals or not condition or not status:
        raise UsageError(f"invalid condition {text!r}: must be TYPE=STATUS, such as Ready=False")
    return condition, status.title()


def _event(fields: dict[str, Any], subject: _Subject) -> ConditionReported:
    try:
        event = ConditionReported.model_validate({**fields, "target": subject.target, "workload": subject.workload})
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"])
        rule = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
        raise UsageError(f"{field}: invalid value {problem['input']!r}: {rule}") from None
    if wrong := check_workload(event):
        raise UsageError(wrong.message)
    return event


def _target(text: str) -> TargetRef:
    word, slash, name = text.partition("/")
    if not slash or not name:
        raise UsageError(f"invalid target {text!r}: must be KIND/NAME, such as node/n1")
    kind = kinds.find(word).kind
    try:
        return TargetRef(kind=TargetKind(kind), name=name)
    except ValueError:
        raise CliError(
            f"invalid resource type {word}: only targets, such as nodes, have conditions of their own; "
            "for a workload, name the target that it runs on (--on node/n1)"
        ) from None


def _workload(text: str, namespace: str) -> WorkloadRef:
    """Return the workload of `pod/web-0` or `pod/shop/web-0`. Its kind need not be one that Moorage serves."""
    word, *names = text.split("/")
    if len(names) not in {1, 2} or not all(names):
        raise UsageError(f"invalid workload {text!r}: must be KIND/NAME or KIND/NAMESPACE/NAME, such as pod/shop/web-0")
    namespaced = True
    try:
        found = kinds.find(word)
        kind, namespaced = found.kind, found.namespaced
    except CliError:
        if not word[:1].isupper():
            raise CliError(
                f"invalid kind {word!r}: not a known kind; other kinds must be written as in a manifest, such as Pod"
            ) from None
        kind = word
    if kind in TargetKind.__members__.values():
        raise UsageError(f"invalid workload {text!r}: must not be a target")
    if len(names) == 1:
        names = [namespace if namespaced else "", *names]
    try:
        return WorkloadRef(kind=kind, namespace=names[0], name=names[1])
    except ValidationError as error:
        raise UsageError(f"invalid workload {text!r}: {error.errors()[0]['msg']}") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return "unknown"
