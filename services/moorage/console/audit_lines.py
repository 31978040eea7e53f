"""Lines of the audit, as the API serves them to the user of a page.

The gateway reads the audit from Kafka for each request, and a live page is made again with each change. So a part of
the audit is kept for some seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.console.api import ApiAnswer, ApiClient
from moorage.console.kinds import Kinds
from moorage.decide.kubernetes.object_texts import Object, audited_object, audited_outcome, audited_user
from moorage.decide.kubernetes.unstructured import at

AUDIT_EVENT: Final = "AuditEvent"

FRESH: Final = 10.0
"""Seconds for which a part of the audit is kept."""

PATIENCE: Final = 1.5
"""Seconds for which a page waits for lines that are not its main content."""

_KEPT: Final = 64
_SUCCESS: Final = "Success"


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A write or a refused request."""

    time: str
    user: str
    verb: str
    about: str
    """The object, as kubectl names it."""

    kind: str
    namespace: str
    name: str
    outcome: str
    agent: str
    address: str
    message: str
    count: int

    @property
    def is_refused(self) -> bool:
        """Whether the request was refused."""
        return self.outcome != _SUCCESS


@dataclass(frozen=True, slots=True)
class AuditPart:
    """Some lines, the newest first."""

    lines: tuple[AuditLine, ...] = ()
    more: str = ""
    """The token of the next part. Empty if there is none."""

    missing: str = ""
    """Why nothing can be shown. Empty if it can."""


class AuditLines:
    """Reads the audit, and keeps what it has read for some seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, ...], tuple[float, AuditPart]] = {}

    async def read(
        self, api: ApiClient, kinds: Kinds, query: Mapping[str, str], *, patience: float | None = None
    ) -> AuditPart:
        """Return a part of the audit. Check the rights of the user before.

        Args:
            api: the API of the fleet, as the user.
            kinds: the kinds of the API.
            query: the parameters of the list.
            patience: seconds to wait. None waits until the API answers.
        """
        key = (api.cluster, *(f"{name}={value}" for name, value in sorted(query.items())))
        now = self._clock()
        if (kept := self._kept.get(key)) is not None and now - kept[0] < FRESH:
            return kept[1]
        try:
            async with asyncio.timeout(patience):
                answer = await api.call("GET", kinds.named(AUDIT_EVENT).path(), query=query)
        except TimeoutError:
            return AuditPart(missing="the audit was not read in time")
        part = _part(answer)
        if not part.missing:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept.pop(key, None)
            self._kept[key] = now, part
        return part


def _part(answer: ApiAnswer) -> AuditPart:
    if answer.failed:
        return AuditPart(missing=answer.message)
    lines = tuple(_line(one) for one in answer.document.get("items") or ())
    return AuditPart(lines, str(at(answer.document, "metadata", "continue") or ""))


def _line(event: Object) -> AuditLine:
    ref: Mapping[str, Any] = event.get("objectRef") or {}
    return AuditLine(
        time=str(event.get("requestReceivedTimestamp") or ""),
        user=audited_user(event),
        verb=str(event.get("verb") or ""),
        about=audited_object(event),
        kind=str(ref.get("kind") or ""),
        namespace=str(ref.get("namespace") or ""),
        name=str(ref.get("name") or ""),
        outcome=audited_outcome(event),
        agent=str(event.get("userAgent") or ""),
        address=", ".join(event.get("sourceIPs") or ()),
        message=str(at(event, "responseStatus", "message") or ""),
        count=int(event.get("count") or 1),
    )
