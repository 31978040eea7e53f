"""`/healthz`, `/livez` and `/readyz`: whether the process answers, and whether reads and writes are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

Check = Callable[[], str]
"""Returns why a check has failed. Empty if it has not."""


def health(request: Request, name: str, checks: Mapping[str, Check], one: str, *, note: str = "") -> Response:
    """Answer a health check.

    With `?verbose` it has a line for each check, and the note; `?exclude=` leaves one out. `one` is the only check that
    runs, unless it is empty.
    """
    if one and one not in checks:
        return no_page()
    query = request.query_params
    excluded = frozenset(query.getlist("exclude"))
    chosen = {one: checks[one]} if one else checks
    lines, obstacle = [], ""
    for title, check in chosen.items():
        why = "" if title in excluded else check()
        if title in excluded:
            lines.append(f"[+]{title} excluded: ok\n")
        else:
            lines.append(f"[-]{title} failed: {why}\n" if why else f"[+]{title} ok\n")
        obstacle = obstacle or why
    if note:
        lines.append(f"[!]{note}\n")
    if obstacle:
        return _plain("".join((*lines, f"{name} check failed\n")) if "verbose" in query else obstacle, 503)
    return _plain("".join((*lines, f"{name} check passed\n")) if "verbose" in query else "ok")


def no_page() -> Response:
    """Return the answer for a path below which nothing is served."""
    return _plain("404 page not found\n", 404)


def _plain(text: str, code: int = 200) -> Response:
    return PlainTextResponse(text, code, headers={"x-content-type-options": "nosniff"})
