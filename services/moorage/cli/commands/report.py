"""`moorage report`: what a probe does, by hand."""

from __future__ import annotations

import getpass
import uuid
from datetime import UTC, datetime
from typing import Annotated

import typer
from pydantic import ValidationError

from moorage.cli import kinds, output
from moorage.cli.client import refused
from moorage.cli.durations import parse_instant
from moorage.cli.errors import FAILED, CliError, UsageError
from moorage.cli.where import connect
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.refs import TargetKind, TargetRef


def report(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", show_default=False)],
    statuses: Annotated[list[str], typer.Argument(metavar="TYPE=STATUS…", show_default=False)],
    *,
    reason: Annotated[str, typer.Option(help="One word for why.")] = "",
    message: Annotated[str, typer.Option(help="Why, for people.")] = "",
    source: Annotated[str, typer.Option(help="Who says so.")] = "",
    at: Annotated[str, typer.Option(help="When it was seen: RFC 3339, or a duration ago; now unless said.")] = "",
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Report conditions of a target, as a probe does."""
    ref = _target(target)
    now = datetime.now(UTC)
    seen = parse_instant(at, now) if at else now
    who = source or f"cli/{_user()}"
    events = []
    for text in statuses:
        condition, equals, status = text.partition("=")
        if not equals or not condition or not status:
            raise UsageError(f"invalid condition {text!r}: must be TYPE=STATUS, such as Ready=False")
        try:
            event = ConditionReported.model_validate(
                {
                    "target": ref,
                    "type": condition,
                    "status": status.title(),
                    "reason": reason,
                    "message": message,
                    "observed_time": seen,
                    "source": who,
                }
            )
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(str(part) for part in problem["loc"])
            raise UsageError(f"{field}: invalid value {problem['input']!r}: {problem['msg']}") from None
        meta = Meta(id=str(uuid.uuid4()), source=who, type=event.event_type, time=seen, subject=ref.key)
        events.append(to_structured(meta, event))
    with connect(ctx) as client:
        outcome = client.report(events)
    problems = refused(outcome)
    for refusal in problems:
        output.warn(str(refusal))
    taken = {item["index"] for item in outcome.get("items") or [] if not item.get("status")} or set(range(len(events)))
    called = f"{ref.kind.value.lower()}/{ref.name}"
    for index, wire in enumerate(events):
        if index not in taken:
            continue
        if form in {output.Format.JSON, output.Format.YAML}:
            output.write(output.document(wire, form))
        elif form is output.Format.NAME:
            output.line(called)
        else:
            output.line(f"{called} reported {wire['data']['type']}={wire['data']['status']}")
    if problems:
        raise typer.Exit(FAILED)


def _target(text: str) -> TargetRef:
    word, slash, name = text.partition("/")
    if not slash or not name:
        raise UsageError(f"invalid target {text!r}: must be KIND/NAME, such as node/n1")
    kind = kinds.find(word).kind
    try:
        return TargetRef(kind=TargetKind(kind), name=name)
    except ValueError:
        raise CliError(f"invalid resource type {word}: only targets have conditions, such as nodes") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return "unknown"
