"""Pauses: evictions that are held until they are resumed."""

from __future__ import annotations

from typing import Any, Final

from moorage.console.changes import send, write_of
from moorage.console.host import PageError
from moorage.console.pages import shared
from moorage.console.views import Action, ConsolePage, Content, Done, Form, PageView, required
from moorage.decide.disruption.object_names import normal_scope, pause_name
from moorage.decide.kubernetes.object_texts import reasons_text, schedule_text, scope_text
from moorage.decide.kubernetes.unstructured import at, name_of

PAUSE: Final = "EvictionPause"
FLEET: Final = "fleet"
SCOPES: Final = {
    "zone": ("zones", "REGION/ZONE", 2),
    "namespace": ("namespaces", "NAME", 1),
    "target": ("targets", "Kind/name", 2),
    "workload": ("workloads", "Kind/namespace/name", 3),
}
"""The scopes of a pause beside the whole fleet: field, form of a value, and the number of its parts."""

_PAUSES: Final = "/console/pauses"
_EXISTS: Final = 409


async def listed(view: PageView) -> Content:
    """`/console/pauses`: the pauses, and a form for another one."""
    documents = await view.reader.all(PAUSE) if await view.rights.may("list", PAUSE) else None
    return Content(
        "pauses/list.html",
        {"rows": "pauses/rows.html"},
        {
            "pauses": None if documents is None else [await _row(view, one) for one in documents],
            "may_pause": await view.rights.may("create", PAUSE),
            "scopes": [
                (FLEET, "the whole fleet"),
                *((word, f"one {word}: {form}") for word, (_, form, _n) in SCOPES.items()),
            ],
        },
        (PAUSE,),
    )


async def _row(view: PageView, document: dict[str, Any]) -> dict[str, Any]:
    name = name_of(document)
    return {
        "name": name,
        "scope": scope_words(document),
        "limits": limits_words(document),
        "inactive": at(document, "status", "active") is False,
        "changes": str(at(document, "status", "changesTime") or ""),
        "reason": str(at(document, "spec", "reason") or ""),
        "held": at(document, "status", "held") or 0,
        "created": str(at(document, "metadata", "creationTimestamp") or ""),
        "may_resume": await view.rights.may("delete", PAUSE, "", name),
    }


async def pause(view: PageView, form: Form) -> Done:
    """Pause the evictions of a scope."""
    scope = scope_of(required(form, "scope"), form.get("value", "").strip())
    name, reason = pause_name(scope), form.get("reason", "").strip()
    spec = {"scope": scope, **({"reason": reason} if reason else {})}
    kind = view.kinds.named(PAUSE)
    body = {"apiVersion": kind.api_version, "kind": PAUSE, "metadata": {"name": name}, "spec": spec}
    try:
        await send(view, write_of(kind, "create", body=body))
    except PageError as error:
        if error.code != _EXISTS:
            raise
        present = await shared.document_of(view, PAUSE, "", name)
        if present is None or normal_scope(at(present, "spec", "scope") or {}) != normal_scope(scope):
            raise
        return Done(f"Evictions of {scope_words(body)} are paused already ({name}).", form.get("back") or _PAUSES)
    return Done(
        f"Evictions of {scope_words(body)} are paused ({name}). Deadlines keep running.", form.get("back") or _PAUSES
    )


def scope_words(document: dict[str, Any]) -> str:
    """Return the scope of a pause in words: `zones=eu/eu-1`, or `the whole fleet`."""
    return scope_text(document) or "the whole fleet"


def limits_words(document: dict[str, Any]) -> str:
    """Return the reasons and the schedule of a pause in words. Empty if it has none."""
    words = (("only", reasons_text(document)), ("at", schedule_text(document)))
    return "; ".join(f"{word} {text}" for word, text in words if text)


def scope_of(word: str, value: str) -> dict[str, list[str]]:
    """Return the scope that a form names. Raises PageError: 400 if it names none."""
    if word == FLEET:
        return {}
    if word not in SCOPES:
        raise PageError(400, f"scope: invalid value {word[:63]!r}: must be {FLEET}, {', '.join(SCOPES)}")
    field, shape, count = SCOPES[word]
    parts = value.split("/")
    if len(parts) != count or not all(parts):
        raise PageError(400, f"value: invalid value {value[:253]!r}: must be {shape}")
    return {field: [value]}


async def resume(view: PageView, form: Form) -> Done:
    """End a pause."""
    name = required(form, "name")
    present = await shared.document_of(view, PAUSE, "", name)
    await send(view, write_of(view.kinds.named(PAUSE), "delete", name=name))
    what = scope_words(present) if present is not None else name
    return Done(f"Evictions of {what} are resumed.", form.get("back") or _PAUSES)


PAGES: Final = (ConsolePage(_PAUSES, listed, in_clusters=False),)
ACTIONS: Final = (Action("/console/actions/pause", pause), Action("/console/actions/resume", resume))
