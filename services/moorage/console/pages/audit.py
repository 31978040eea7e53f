"""The audit: who has written what, and who was refused, on a page of its own and on the pages of objects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from moorage.console.audit_lines import AUDIT_EVENT, PATIENCE, AuditLine
from moorage.console.pages import shared
from moorage.console.rendering import address_of, object_url
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.kubernetes.durations import human
from moorage_schemas.times import format_time

ROOT: Final = "/console/audit"
SHOWN: Final = 50
"""Lines on a page."""

OF_OBJECT: Final = 10
"""Lines on the page of an object."""

_SINCE: Final = {"1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
_FIELDS: Final = {
    "user": "user",
    "verb": "verb",
    "kind": "kind",
    "namespace": "namespace",
    "name": "name",
    "outcome": "responseStatus.status",
}
_OUTCOMES: Final = ("Success", "Failure")


async def listed(view: PageView) -> Content:
    """`/console/audit`: writes and refused requests, the newest first."""
    await view.rights.check("list", AUDIT_EVENT)
    query = {"limit": str(SHOWN)}
    if token := view.query.get("more", ""):
        query["continue"] = token
    chosen = {name: view.query.get(name, "").strip() for name in _FIELDS}
    if fields := _selector({_FIELDS[name]: value for name, value in chosen.items()}):
        query["fieldSelector"] = fields
    if seconds := _SINCE.get(view.query.get("since", "")):
        query["sinceTime"] = format_time(view.now - timedelta(seconds=seconds))
    part = await view.audit.read(view.api, view.kinds, query)
    return Content(
        "audit/list.html",
        context={
            "missing": part.missing,
            "rows": [_row(view, line) for line in part.lines],
            "more": view.address(more=part.more) if part.more else "",
            "is_first": not token,
            "first": view.address(more=""),
            "times": [(word, f"last {human(seconds)}") for word, seconds in _SINCE.items()],
            "outcomes": _OUTCOMES,
        },
    )


async def about(view: PageView, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the latest lines about an object. None if the user may not read the audit."""
    if not await view.rights.may("list", AUDIT_EVENT):
        return None
    fields = _selector({"kind": kind, "namespace": namespace, "name": name})
    query = {"limit": str(OF_OBJECT), "fieldSelector": fields}
    part = await view.audit.read(view.api, view.kinds, query, patience=PATIENCE)
    return {
        "missing": part.missing,
        "rows": [_row(view, line) for line in part.lines],
        "all": address_of(ROOT, kind=kind, namespace=namespace, name=name) if part.more or part.missing else "",
    }


def _selector(values: dict[str, str]) -> str:
    return ",".join(f"{field}={shared.escaped(value)}" for field, value in values.items() if value)


def _row(view: PageView, line: AuditLine) -> dict[str, Any]:
    """Return a line as the templates read it, with the address of its object."""
    has_page = bool(line.name) and view.kinds.has(line.kind) and view.kinds.named(line.kind).is_watched
    address = object_url(view.kinds.named(line.kind), line.namespace, line.name) if has_page else ""
    return {"line": line, "address": address}


PAGES: Final = (ConsolePage(ROOT, listed),)
