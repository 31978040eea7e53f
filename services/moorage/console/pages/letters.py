"""Dead letters: the list, one letter, and sending letters again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from moorage.console.api import ApiAnswer
from moorage.console.changes import send, write_of
from moorage.console.host import PageError
from moorage.console.pages import shared
from moorage.console.views import Action, ConsolePage, Content, Done, Form, PageView, required
from moorage.decide.kubernetes.durations import human
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import CONDITION_REPORTS

LETTER: Final = "DeadLetter"
SHOWN: Final = 50
"""Letters on a page."""

_ROOT: Final = "/console/deadletters"
_WEBHOOK: Final = "Webhook"
_SENT_AGAIN: Final = "replay"
_NAME: Final = re.compile(r"(?:0|[1-9]\d{0,17})-(?:0|[1-9]\d{0,17})", re.ASCII)
_REPLAY: Final = "/console/actions/deadletters/replay"
_SINCE: Final = {"1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
_FIELDS: Final = ("reason", "service", "topic", "source", "key")
_MOST: Final = SHOWN
_WAIT: Final = "3"  # seconds for which the outcome of a single letter is waited for
_FAILURES: Final = 3  # in one notice


async def listed(view: PageView) -> Content:
    """`/console/deadletters`: dead letters, the newest first."""
    may_list = await view.rights.may("list", LETTER)
    answer = await _part(view) if may_list else None
    failed = answer is not None and answer.failed
    items = [] if answer is None or failed else answer.document.get("items") or []
    more = "" if answer is None or failed else str((answer.document.get("metadata") or {}).get("continue") or "")
    rows = [_row(item) for item in items]
    return Content(
        "letters/list.html",
        context={
            "denied": not may_list,
            "missing": answer.message if answer is not None and failed else "",
            "rows": rows,
            "more": view.address(more=more) if more else "",
            "is_first": not view.query.get("more"),
            "first": view.address(more=""),
            "may_replay": await view.rights.may("create", LETTER, subresource=_SENT_AGAIN),
            "can_be_sent": any(row["can_be_sent"] for row in rows),
            "reasons": [one.value for one in RefusalReason],
            "times": [(word, f"last {human(seconds)}") for word, seconds in _SINCE.items()],
        },
    )


async def _part(view: PageView) -> ApiAnswer:
    """Return the part of the list that the address names."""
    query = {"limit": str(SHOWN)}
    if token := view.query.get("more", ""):
        query["continue"] = token
    fields = [
        f"{name}={shared.escaped(view.query[name].strip())}" for name in _FIELDS if view.query.get(name, "").strip()
    ]
    if fields:
        query["fieldSelector"] = ",".join(fields)
    if seconds := _SINCE.get(view.query.get("since", "")):
        begin = view.now.timestamp() - seconds
        query["sinceTime"] = format_time(view.now.fromtimestamp(begin, view.now.tzinfo))
    return await view.api.call("GET", view.kinds.named(LETTER).path(), query=query)


def _row(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a letter as the templates read it."""
    status = item.get("status") or {}
    headers = status.get("headers") or {}
    return {
        "name": str(item["metadata"]["name"]),
        "service": str(status.get("service") or ""),
        "reason": str(status.get("reason") or ""),
        "message": str(status.get("message") or ""),
        "topic": str(status.get("topic") or ""),
        "place": f"{status.get('partition')}@{status.get('offset')}",
        "key": str(status.get("key") or ""),
        "source": str(headers.get("ce_source") or ""),
        "refused": str(status.get("refusedTime") or ""),
        "headers": sorted(headers.items()),
        "original": str(status.get("original") or ""),
        "encoding": str(status.get("originalEncoding") or ""),
        "size": status.get("originalSize") or 0,
        "truncated": bool(status.get("truncated")),
        "webhook": str(status.get("value") or "") if status.get("reason") == RefusalReason.UNDELIVERED else "",
        "can_be_sent": status.get("topic") == CONDITION_REPORTS.short
        and status.get("reason") != RefusalReason.UNDELIVERED
        and not status.get("truncated"),
    }


async def one(view: PageView) -> Content:
    """`/console/deadletters/{name}`: a dead letter with its original."""
    name = view.param("name")
    await view.rights.check("get", LETTER, "", name)
    answer = await view.api.call("GET", view.kinds.named(LETTER).path(name=name))
    answer.check()
    letter = _row(answer.document)
    return Content(
        "letters/one.html",
        context={
            "letter": letter,
            "may_replay_webhook": bool(letter["webhook"])
            and await view.rights.may("patch", _WEBHOOK, "", letter["webhook"]),
            "may_replay": await view.rights.may("create", LETTER, "", name, _SENT_AGAIN),
        },
    )


async def replay_webhook(view: PageView, form: Form) -> Done:
    """Send the undelivered events of a webhook since a time again, as `moorage webhooks replay` does."""
    name, since = required(form, "webhook"), required(form, "since")
    try:
        begin = format_time(parse_time(since))
    except ValueError as error:
        raise PageError(400, f"since: invalid value {since[:63]!r}: {error}") from None
    times = {"since": begin, "until": format_time(view.now)}
    await send(view, write_of(view.kinds.named(_WEBHOOK), "patch", name=name, body={"spec": {"replay": times}}))
    return Done(f"{name}: undelivered events since {since} will be sent again.", form.get("back") or _ROOT)


async def replay(view: PageView, form: Form) -> Done:
    """Send the selected letters again, or check whether that is possible."""
    names = list(dict.fromkeys(name for name in form.get("name", "").split(",") if name))
    if not names:
        raise PageError(400, "name: required value: select at least one letter")
    if wrong := next((name for name in names if _NAME.fullmatch(name) is None), ""):
        raise PageError(400, f"name: invalid value {wrong[:63]!r}: must be the name of a letter, such as 7-1042")
    if len(names) > _MOST:
        raise PageError(400, f"name: invalid value: {len(names)} letters are selected: expected at most {_MOST}")
    checks = form.get("do") == "check"
    query = {"dryRun": "All"} if checks else {"waitSeconds": _WAIT} if len(names) == 1 else {}
    sent, failures, codes = [], [], []
    for name in reversed(names):  # the oldest first, as they came
        answer = await view.api.call("POST", view.kinds.named(LETTER).path("", name, _SENT_AGAIN), query=query)
        outcome = (answer.document.get("status") or {}).get("replay") if not answer.failed else None
        if not isinstance(outcome, dict):
            failures.append(f"{name}: {answer.message}")
            codes.append(answer.code)
        elif outcome.get("outcome") == "Ignored":
            failures.append(f"{name} was ignored: {outcome.get('message')}")
        else:
            sent.append((name, str(outcome.get("outcome"))))
    if codes and len(codes) == len(names):
        raise PageError(codes[0], failures[0].partition(": ")[2] if len(names) == 1 else _joined(failures))
    return Done(_told(sent, failures, checks=checks), form.get("back") or _ROOT)


def _told(sent: list[tuple[str, str]], failures: list[str], *, checks: bool) -> str:
    words = []
    if len(sent) == 1 and not failures:
        (name, outcome), *_ = sent
        known = {"Counted": " and counts", "Unchanged": " and repeats what is known"}.get(outcome, "")
        words.append(f"{name} can be sent again." if checks else f"{name} was sent again{known}.")
    elif sent:
        words.append(f"{len(sent)} {'can be' if checks else 'were'} sent again.")
    if failures:
        words.append(f"{len(failures)} {'cannot' if checks else 'not'}: {_joined(failures)}")
    return " ".join(words)


def _joined(failures: list[str]) -> str:
    more = f" … and {len(failures) - _FAILURES} more" if len(failures) > _FAILURES else ""
    return "; ".join(failures[:_FAILURES]) + more


PAGES: Final = (ConsolePage(_ROOT, listed, in_clusters=False), ConsolePage(f"{_ROOT}/{{name}}", one, in_clusters=False))
ACTIONS: Final = (Action(_REPLAY, replay), Action("/console/actions/webhooks/replay", replay_webhook))
