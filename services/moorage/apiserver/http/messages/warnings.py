"""Warnings to the sender of a request, which kubectl shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.admission.feature_gates import warning_header

MOST_WARNED: Final = 4096
"""Characters of all warnings of an answer together."""

MOST_WARNINGS: Final = 64
"""Warnings of an answer. Python's own client takes 100 headers."""

_SHORT_WARNING: Final = 256  # characters of one that would be too much


def warn(response: Response, texts: Iterable[str]) -> None:
    """Add warnings to an answer, which kubectl shows.

    Clients limit the headers of an answer, in number and size. So what is beyond `MOST_WARNED` characters is cut as
    in Kubernetes, and what is beyond `MOST_WARNINGS` is left out.
    """
    there = response.headers.getlist("warning")
    number, told = len(there), sum(map(len, there))
    for text in texts:
        header = warning_header(text)
        if told + len(header) > MOST_WARNED:
            header = warning_header(text[:_SHORT_WARNING])
        if number == MOST_WARNINGS or told + len(header) > MOST_WARNED:
            return
        number, told = number + 1, told + len(header)
        response.headers.append("warning", header)


def told(request: Request, warnings: Sequence[str]) -> None:
    """Note what the sender of a request is told about it, also if the request fails."""
    request.state.warnings = warnings


def warnings_of(request: Request) -> Sequence[str]:
    """What was noted by `told`."""
    found: Sequence[str] = getattr(request.state, "warnings", ())
    return found
